"""Ending a command with an error."""

from __future__ import annotations

import sys
from typing import NoReturn

from mooring.cli.output import echo


def exit_with(message: str, code: int) -> NoReturn:
    """Print the message to standard error and exit with the code."""
    echo(message, err=True)
    sys.exit(code)


def describe(error: OSError, path: str | None = None) -> str:
    """Return `<file>: <what is wrong>`; `path` names the file where the error does not."""
    where = error.filename or path
    reason = error.strerror or str(error)
    return f"{where}: {reason}" if where else reason
