"""Printing to the terminal."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from typing import Any

import click
import msgspec
import yaml

from mooring.api.printable import printable

_HANGING = re.compile(r"\s*(?:\S+(?: \S+)?\s{2,})?")
_COMMAND = "$ "


def echo(text: str, *, err: bool = False, nl: bool = True, bold: bool = False) -> None:
    """Print text that may come from a cluster or a file: its control characters have no effect."""
    text = printable(text)
    click.echo(click.style(text, bold=True) if bold else text, err=err, nl=nl)


def echo_report(line: str) -> None:
    """Print a line of a report: on a terminal, headings are bold and lines wrap between words."""
    heading = bool(line) and not line.startswith(" ")
    for part in wrap(line, shutil.get_terminal_size().columns) if sys.stdout.isatty() else [line]:
        echo(part, bold=heading)


def wrap(line: str, width: int) -> list[str]:
    """Break a line between words; commands stay whole, so that they can be copied."""
    if len(line) <= width or line.lstrip().startswith(_COMMAND):
        return [line]
    match = _HANGING.match(line)
    hanging = 0 if match is None else min(match.end(), width // 2)
    return textwrap.wrap(
        line[hanging:],
        width,
        initial_indent=line[:hanging],
        subsequent_indent=" " * max(hanging, 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def write_data(value: Any, output: str) -> None:
    """Write a value as JSON or YAML."""
    if output == "yaml":
        click.echo(yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True), nl=False)
    else:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
