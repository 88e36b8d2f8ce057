"""`mooring down`: stop clusters that `mooring up --detach` started."""

from __future__ import annotations

from pathlib import Path

import click

from mooring.cli.detached import running, stop
from mooring.cli.errors import exit_with
from mooring.cli.flags import option
from mooring.cli.output import echo

NOT_FOUND, FAILED = 1, 2


@click.command()
@option(
    "--kubeconfig", default="", metavar="FILE", help="Stop the cluster with this kubeconfig (default: all)"
)
def down(kubeconfig: str) -> None:
    """Stop the sandbox clusters that `mooring up --detach` started.

    \b
    Exit codes:
      0  stopped
      1  no such cluster is running
      2  a cluster did not stop
    """
    chosen = [
        each
        for each in running()
        if not kubeconfig or Path(each.kubeconfig).resolve() == Path(kubeconfig).resolve()
    ]
    if not chosen:
        exit_with("no cluster of `mooring up --detach` is running", NOT_FOUND)
    for each in chosen:
        if not stop(each):
            exit_with(f"process {each.pid}: did not stop", FAILED)
        echo(f"stopped {each.kubeconfig}")
