"""`mooring version`."""

from __future__ import annotations

import platform

import click
import msgspec

from mooring import __version__
from mooring.process.version import KUBERNETES


@click.command()
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format (default text)"
)
def version(output: str) -> None:
    """Print the versions of Mooring, of the Kubernetes it behaves like, and of Python."""
    versions = {"mooring": __version__, "kubernetes": f"v{KUBERNETES}", "python": platform.python_version()}
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(versions), indent=2))
    else:
        click.echo(
            f"Mooring {versions['mooring']} (Kubernetes {versions['kubernetes']}, "
            f"Python {versions['python']})"
        )
