"""Why a program is not run to its end."""

from __future__ import annotations


class UnknownProgramError(Exception):
    """The program uses something that is not emulated."""


class ForeverError(Exception):
    """The program does not end."""


class ExitError(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


class ReturnError(ExitError):
    """A function ends."""
