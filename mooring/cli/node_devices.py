"""`mooring node fail-device`, `recover-device` and `taint-device`: devices of sandbox nodes."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence

import click
import msgspec

from mooring.api.devices import DeviceTaint
from mooring.api.kinds import NODES
from mooring.api.times import format_time
from mooring.cli.errors import exit_with
from mooring.cli.flags import kubeconfig_flags
from mooring.cli.output import echo
from mooring.cli.reach import USER_AGENT
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials, CredentialsError, load_user_credentials
from mooring.sandbox.kubelet.devices import (
    DEVICE_TAINTS,
    FAILED_DEVICES,
    DeviceError,
    device_names,
    device_taints,
    failed_devices,
)

NOT_FOUND, INVALID, UNREACHABLE = 1, 2, 3
MAX_HINTS = 5
EFFECTS = ("NoSchedule", "NoExecute", "None")
_TAINT = re.compile(
    r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?:(?P<effect>[^-:]+)(?P<removed>-)?|(?P<every>[^=:]+)-"
)

_node = click.argument("node", metavar="NODE")
_devices = click.argument("devices", nargs=-1, required=True, metavar="DEVICE...")

Annotations = Mapping[str, str]
Change = Callable[[Annotations, Sequence[str]], dict[str, str | None]]
"""Returns the annotations to write, given the present ones and the devices ("driver/name")."""


@click.command("fail-device")
@_node
@_devices
@kubeconfig_flags
def fail_device(node: str, devices: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Make devices of a node fail: the fake driver no longer publishes them.

    DEVICE is a name such as gpu-0, or gpu.example.com/gpu-0 if several drivers have it. Pods that use the
    device keep it; others cannot get it.
    """
    _change(
        node,
        devices,
        kubeconfig,
        context,
        lambda annotations, names: _fail(annotations, names, failed=True),
        "failed",
    )


@click.command("recover-device")
@_node
@_devices
@kubeconfig_flags
def recover_device(node: str, devices: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Make failed devices of a node recover: the fake driver publishes them again."""
    _change(
        node,
        devices,
        kubeconfig,
        context,
        lambda annotations, names: _fail(annotations, names, failed=False),
        "recovered",
    )


@click.command("taint-device")
@_node
@click.argument("device", metavar="DEVICE")
@click.argument("taints", nargs=-1, required=True, metavar="TAINT...")
@kubeconfig_flags
def taint_device(node: str, device: str, taints: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Add taints to a device, or remove them.

    TAINT is KEY=VALUE:EFFECT or KEY:EFFECT; with a dash at the end, KEY:EFFECT- or KEY-, the taint is
    removed. EFFECT is NoSchedule, NoExecute or None.
    """
    for taint in taints:
        match = _TAINT.fullmatch(taint)
        if match is None or (match["effect"] and match["effect"] not in EFFECTS):
            hint = "hint: expected KEY=VALUE:EFFECT, KEY:EFFECT, KEY:EFFECT- or KEY-; EFFECT is one of "
            exit_with(f"taint {taint}: invalid\n{hint}{', '.join(EFFECTS)}", INVALID)
    removed = [taint.endswith("-") for taint in taints]
    done = "untainted" if all(removed) else "modified" if any(removed) else "tainted"
    _change(
        node,
        (device,),
        kubeconfig,
        context,
        lambda annotations, names: _taint(annotations, names, taints),
        done,
    )


def _fail(annotations: Annotations, names: Sequence[str], *, failed: bool) -> dict[str, str | None]:
    before = failed_devices(annotations)
    after = before.union(names) if failed else before.difference(names)
    return {FAILED_DEVICES: ",".join(sorted(after)) or None}


def _taint(annotations: Annotations, names: Sequence[str], texts: Sequence[str]) -> dict[str, str | None]:
    every = device_taints(annotations)
    for name in names:
        taints = {(taint.key, taint.effect): taint for taint in every.get(name, ())}
        for text in texts:
            _apply(text, taints)
        every[name] = list(taints.values())
    remaining = {name: taints for name, taints in every.items() if taints}
    return {DEVICE_TAINTS: msgspec.json.encode(remaining).decode() if remaining else None}


def _apply(text: str, taints: dict[tuple[str, str], DeviceTaint]) -> None:
    match = _TAINT.fullmatch(text)
    assert match is not None
    if match["every"]:
        for key in [key for key in taints if key[0] == match["every"]]:
            del taints[key]
    elif match["removed"]:
        taints.pop((match["key"], match["effect"]), None)
    else:
        taints[match["key"], match["effect"]] = DeviceTaint(
            key=match["key"],
            value=match["value"] or "",
            effect=match["effect"],
            time_added=format_time(time.time()),
        )


def _change(
    node: str, devices: Sequence[str], kubeconfig: str, context: str, change: Change, done: str
) -> None:
    try:
        credentials = load_user_credentials(kubeconfig or None, context)
    except (CredentialsError, OSError) as exc:
        exit_with(str(exc), INVALID)
    try:
        asyncio.run(_annotate(credentials, node, list(dict.fromkeys(devices)), change, done))
    except LookupError as exc:
        exit_with(f"{credentials.server}: node {node}: {exc.args[0]}", NOT_FOUND)
    except DeviceError as exc:
        exit_with(f"{credentials.server}: node {node}: {exc}", INVALID)
    except (ClusterError, CredentialsError) as exc:
        exit_with(str(exc), UNREACHABLE)


async def _annotate(
    credentials: Credentials, node: str, devices: Sequence[str], change: Change, done: str
) -> None:
    server = ApiServer(credentials, user_agent=USER_AGENT)
    try:
        current = await server.get(NODES, node)
        annotations = current.metadata.annotations
        names = [_find(name, device_names(annotations)) for name in devices]
        written = change(annotations, names)
        metadata = {"annotations": written, "resourceVersion": current.metadata.resource_version}
        await server.patch(NODES, node, {"metadata": metadata})
    except ApiError as refusal:
        if not refusal.not_found:
            raise
        raise LookupError("not found") from None
    finally:
        await server.close()
    for name in names:
        echo(f"device/{name} of node/{node} {done}")


def _find(name: str, names: Sequence[str]) -> str:
    """Return the device ("driver/name") that a name stands for."""
    matching = [each for each in names if name in (each, each.partition("/")[2])]
    if len(matching) == 1:
        return matching[0]
    shown = ", ".join((matching or names)[:MAX_HINTS]) + (", …" if len(matching or names) > MAX_HINTS else "")
    hint = f"the node has {shown}" if names else "the node has no devices"
    problem = "name the driver, too" if matching else "not found"
    raise LookupError(f"device {name}: {problem}\nhint: {hint}")
