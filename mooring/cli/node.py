"""`mooring node`: simulate failure and recovery of sandbox nodes, and of their devices."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from mooring.api.kinds import NODES
from mooring.api.objects import Node
from mooring.cli.errors import exit_with
from mooring.cli.flags import kubeconfig_flags
from mooring.cli.groups import Group
from mooring.cli.node_devices import fail_device, recover_device, taint_device
from mooring.cli.output import echo
from mooring.cli.reach import USER_AGENT
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials, CredentialsError, load_user_credentials
from mooring.sandbox.kubelet.machines import FAILED, has_failed

NO_SUCH_NODE, INVALID, UNREACHABLE = 1, 2, 3
MAX_HINTS = 5

_names = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.group(cls=Group)
def node() -> None:
    """Simulate failure and recovery of nodes and devices in a `mooring up` cluster.

    The commands set or remove annotations of the node. kubectl can do the same:

    \b
      kubectl annotate node NAME mooring/failed=true
      kubectl annotate node NAME mooring/failed-

    \b
    Exit codes:
      0  success
      1  a node or device was not found; other nodes were updated
      2  invalid usage or kubeconfig
      3  the cluster is unreachable or rejected the request
    """


node.add_command(fail_device)
node.add_command(recover_device)
node.add_command(taint_device)


@node.command()
@_names
@kubeconfig_flags
def fail(names: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Make nodes fail: they stop sending heartbeats, and the status of their pods freezes.

    When the lease expires, the node becomes NotReady and its pods are evicted as their tolerations allow.
    """
    _update(names, kubeconfig, context, failed=True)


@node.command()
@_names
@kubeconfig_flags
def recover(names: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Make failed nodes recover: pods deleted in the meantime terminate, the others keep running."""
    _update(names, kubeconfig, context, failed=False)


def _update(names: Sequence[str], kubeconfig: str, context: str, *, failed: bool) -> None:
    try:
        credentials = load_user_credentials(kubeconfig or None, context)
    except (CredentialsError, OSError) as exc:
        exit_with(str(exc), INVALID)
    try:
        missing, existing = asyncio.run(_annotate(credentials, list(dict.fromkeys(names)), failed))
    except (ClusterError, CredentialsError) as exc:
        exit_with(str(exc), UNREACHABLE)
    if missing:
        some = ", ".join(existing[:MAX_HINTS]) + (", …" if len(existing) > MAX_HINTS else "")
        hint = f"the cluster has {some}" if existing else "the cluster has no nodes"
        lines = [f"{credentials.server}: node {name}: not found" for name in missing]
        exit_with("\n".join([*lines, f"hint: {hint}"]), NO_SUCH_NODE)


async def _annotate(
    credentials: Credentials, names: Sequence[str], failed: bool
) -> tuple[list[str], list[str]]:
    """Annotate the nodes; return the names that do not exist and, if there are any, some that do."""
    server = ApiServer(credentials, qps=1000, burst=1000, user_agent=USER_AGENT)
    missing, existing = [], []
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
            page = await server.list(NODES, limit=MAX_HINTS + 1)
            existing = [each.name for each in page.items]
    finally:
        await server.close()
    return missing, existing


def _print(before: Node, failed: bool) -> None:
    if has_failed(before) == failed:
        echo(f"node/{before.name} {'has already failed' if failed else 'has not failed'}")
    else:
        echo(f"node/{before.name} {'failed' if failed else 'recovered'}")
