"""The `mooring` command."""

from __future__ import annotations

import click

from mooring import __version__
from mooring.cli.groups import LazyGroup
from mooring.cli.process import relax_collector

COMMANDS = {  # the module of each command, with its line in `mooring --help`
    "completion": "Print a completion script for bash, zsh or fish.",
    "config": "Check and view scheduler configuration files.",
    "demo": "Run a guided demo on a sandbox cluster.",
    "down": "Stop the clusters that `mooring up --detach` started.",
    "explain": "Explain why a pod is pending or where it was scheduled, and what would make it fit.",
    "extender": "Serve Python functions and plugins as an HTTP extender for kube-scheduler.",
    "node": "Simulate failure and recovery of nodes and devices in a `mooring up` cluster.",
    "pending": "List all pending pods by cause, with what would make them fit.",
    "plugin": "Create and list scheduler plugins.",
    "schedule": "Schedule manifests in memory and show where each pod goes and why.",
    "scheduler": "Run the scheduler on a cluster, in place of kube-scheduler or alongside it.",
    "simulate": "Simulate workloads in virtual time and compare scheduling policies.",
    "up": "Start a sandbox cluster in this process: API server, controllers, fake nodes, scheduler.",
    "version": "Print the version.",
    "view": "Show manifests or a dump of a cluster as a web page.",
}


class _Commands(LazyGroup):
    lines = COMMANDS


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="mooring")
def main() -> None:
    """A complete Kubernetes scheduler whose plugins are written in Python."""
    relax_collector()
