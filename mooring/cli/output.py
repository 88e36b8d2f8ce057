"""Printing to the terminal."""

from __future__ import annotations

import click

from mooring.api.printable import printable


def echo(text: str, *, err: bool = False, nl: bool = True, bold: bool = False) -> None:
    """Print text that may come from a cluster or a file: its control characters have no effect."""
    text = printable(text)
    click.echo(click.style(text, bold=True) if bold else text, err=err, nl=nl)
