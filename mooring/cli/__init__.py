"""The `mooring` command."""

from __future__ import annotations

import click

from mooring import __version__
from mooring.cli.config import config
from mooring.cli.explain import explain
from mooring.cli.process import relax_collector
from mooring.cli.schedule import schedule
from mooring.cli.scheduler import scheduler


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mooring")
def main() -> None:
    """A complete Kubernetes scheduler whose plugins are written in Python."""
    relax_collector()


main.add_command(config)
main.add_command(explain)
main.add_command(schedule)
main.add_command(scheduler)
