"""`mooring node`: have fake nodes fail and recover."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from mooring.api.objects import Node
from mooring.cli.reach import USER_AGENT
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials, CredentialsError, load_user_credentials
from mooring.client.errors import ApiError, ClusterError
from mooring.client.kinds import NODES
from mooring.sandbox.kubelet.machines import FAILED, has_failed

NO_SUCH_NODE, WRONG_USE, UNREACHABLE = 1, 2, 3
MOST_HINTS = 5

_names = click.argument("names", nargs=-1, required=True, metavar="NAME...")
_kubeconfig = click.option("--kubeconfig", default="", metavar="FILE", help="As for kubectl.")
_context = click.option("--context", default="", metavar="NAME", help="The kubeconfig's context to use.")


@click.group()
def node() -> None:
    """Have nodes of a `mooring up` cluster fail and recover.

    Both set the annotation mooring/failed on the nodes, which kubectl can do as well:
    kubectl annotate node NAME mooring/failed=true, or mooring/failed- to have it recover.

    Exits 0 when all nodes were told, 1 when one of them does not exist (the others are told), 2 when the
    command or kubeconfig is wrong, 3 when the cluster cannot be reached or refuses.
    """


@node.command()
@_names
@_kubeconfig
@_context
def fail(names: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Have nodes fail: they send no more heartbeats, and their pods freeze as they are.

    After a while the cluster takes them for lost and moves their pods elsewhere.
    """
    _tell(names, kubeconfig, context, failed=True)


@node.command()
@_names
@_kubeconfig
@_context
def recover(names: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Have failed nodes come back: pods that were deleted meanwhile end, the others go on."""
    _tell(names, kubeconfig, context, failed=False)


def _tell(names: Sequence[str], kubeconfig: str, context: str, *, failed: bool) -> None:
    try:
        credentials = load_user_credentials(kubeconfig or None, context)
    except (CredentialsError, OSError) as exc:
        _fail(str(exc), WRONG_USE)
    try:
        missing, known = asyncio.run(_annotate(credentials, list(dict.fromkeys(names)), failed))
    except (ClusterError, CredentialsError) as exc:
        _fail(str(exc), UNREACHABLE)
    if missing:
        there = ", ".join(known[:MOST_HINTS]) + (", …" if len(known) > MOST_HINTS else "")
        found = f"there are {there}" if known else "there are no nodes at all"
        _fail(f"{credentials.server}: no node by the name of {' or '.join(missing)}; {found}", NO_SUCH_NODE)


async def _annotate(
    credentials: Credentials, names: Sequence[str], failed: bool
) -> tuple[list[str], list[str]]:
    """Tell the nodes; the names that are not there, and if there are such, those that are."""
    server = ApiServer(credentials, qps=1000, burst=1000, user_agent=USER_AGENT)
    missing, known = [], []
    try:
        for name in names:
            try:
                before = await server.get(NODES, name)
                if has_failed(before) != failed:
                    patch = {"metadata": {"annotations": {FAILED: "true" if failed else None}}}
                    await server.patch(NODES, name, patch)
            except ApiError as refusal:
                if not refusal.not_found:
                    raise
                missing.append(name)
            else:
                _print(before, failed)
        if missing:
            page = await server.list(NODES, limit=MOST_HINTS + 1)
            known = [each.name for each in page.items]
    finally:
        await server.close()
    return missing, known


def _print(before: Node, failed: bool) -> None:
    if has_failed(before) == failed:
        click.echo(f"node/{before.name} {'has failed already' if failed else 'is well already'}")
    else:
        click.echo(f"node/{before.name} {'failed' if failed else 'recovered'}")


def _fail(message: str, code: int) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(code)
