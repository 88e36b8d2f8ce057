"""The `mooring` command."""

from __future__ import annotations

from importlib import import_module

import click

from mooring import __version__
from mooring.cli.process import relax_collector

COMMANDS = {  # the module of each command, with its line in `mooring --help`
    "config": "Check and view scheduler configuration files.",
    "demo": "Run a guided demo on a sandbox cluster.",
    "explain": "Explain why a pod is pending or where it was scheduled, and what would make it fit.",
    "extender": "Serve Python functions and plugins as an HTTP extender for kube-scheduler.",
    "node": "Simulate node failure and recovery in a `mooring up` cluster.",
    "plugin": "Create and list scheduler plugins.",
    "schedule": "Schedule manifests in memory and show where each pod goes and why.",
    "scheduler": "Run the scheduler on a cluster, in place of kube-scheduler or alongside it.",
    "simulate": "Simulate workloads in virtual time and compare scheduling policies.",
    "up": "Start a sandbox cluster in this process: API server, controllers, fake nodes, scheduler.",
}


class LazyGroup(click.Group):
    """A group that imports a command only when it is used, to keep every command fast to start."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"mooring.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="mooring")
def main() -> None:
    """A complete Kubernetes scheduler whose plugins are written in Python."""
    relax_collector()
