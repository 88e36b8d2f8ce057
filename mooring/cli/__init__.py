"""The `mooring` command."""

from __future__ import annotations

from importlib import import_module

import click

from mooring import __version__
from mooring.cli.process import relax_collector

COMMANDS = {  # the module of each command, with the line that `mooring --help` shows for it
    "config": "Check and view scheduler configuration files.",
    "demo": "Tell a story on an embedded cluster, step by step.",
    "explain": "Explain why a pod is pending or where it is, and what would make it fit.",
    "extender": "Serve Python functions and plugins as a scheduler extender, for kube-scheduler to call.",
    "node": "Have nodes of a cluster that `mooring up` brought up fail and recover.",
    "plugin": "Create and list scheduler plugins.",
    "schedule": "Schedule manifests in memory, and tell where each pod goes and why.",
    "scheduler": "Schedule the pods of a live cluster, as kube-scheduler does.",
    "up": "Bring up a whole cluster in this process, to try things on.",
}


class LazyGroup(click.Group):
    """Imports a command when it is used: none has to wait for what only another needs."""

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


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mooring")
def main() -> None:
    """A complete Kubernetes scheduler whose plugins are written in Python."""
    relax_collector()
