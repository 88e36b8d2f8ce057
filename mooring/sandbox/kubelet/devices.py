"""The devices of fake nodes: groups of equal devices in an annotation of the Node, which fail and are tainted
by other annotations.

    mooring/devices: '[{"driver": "gpu.example.com", "name": "gpu", "count": 8}]'
    mooring/failed-devices: gpu.example.com/gpu-0,gpu.example.com/gpu-3
    mooring/device-taints: '{"gpu.example.com/gpu-1": [{"key": "hot", "effect": "NoSchedule"}]}'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.devices import DeviceTaint
from mooring.api.meta import Quantity, Tree

DEVICES: Final = "mooring/devices"
FAILED_DEVICES: Final = "mooring/failed-devices"
DEVICE_TAINTS: Final = "mooring/device-taints"
MOST_DEVICES: Final = 1024
"""Of a node."""

_KINDS: Final = {bool: "bool", int: "int", str: "string"}


class DeviceError(ValueError):
    """The annotations of a node do not describe devices; says which and why."""


class DeviceGroup(
    msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """Devices of one driver that are alike."""

    driver: str
    name: str = "device"
    count: int | None = None
    """With a count, the names are numbered from 0."""
    attributes: dict[str, Any] = {}
    """A text, a number or a boolean; {version: …}; or a list whose items the devices get in turn."""
    capacity: dict[str, Quantity] = {}
    allow_multiple_allocations: bool | None = None


def device_groups(annotations: Mapping[str, str]) -> list[DeviceGroup]:
    """Return the groups that a node's annotation describes. Raises DeviceError."""
    groups: list[DeviceGroup] = _decode(annotations, DEVICES, list[DeviceGroup], [])
    return groups


def devices_by_driver(groups: Iterable[DeviceGroup]) -> dict[str, list[Tree]]:
    """Return the devices of a node as slices list them. Raises DeviceError."""
    devices: dict[str, list[Tree]] = {}
    count = 0
    for group in groups:
        count += 1 if group.count is None else max(group.count, 0)
        if count > MOST_DEVICES:
            raise DeviceError(f"more than {MOST_DEVICES} devices")
        devices.setdefault(group.driver, []).extend(_devices(group))
    return devices


def _devices(group: DeviceGroup) -> Iterator[Tree]:
    names = [group.name] if group.count is None else [f"{group.name}-{at}" for at in range(group.count)]
    for at, name in enumerate(names):
        device: Tree = {"name": name}
        if group.attributes:
            device["attributes"] = {key: _attribute(key, each, at) for key, each in group.attributes.items()}
        if group.capacity:
            device["capacity"] = {key: {"value": str(each)} for key, each in group.capacity.items()}
        if group.allow_multiple_allocations is not None:
            device["allowMultipleAllocations"] = group.allow_multiple_allocations
        yield device


def _attribute(name: str, value: Any, at: int) -> Tree:
    if isinstance(value, list) and value:
        value = value[at % len(value)]
    if isinstance(value, dict) and set(value) == {"version"} and isinstance(value["version"], str):
        return value
    kind = _KINDS.get(type(value))
    if kind is None:
        raise DeviceError(f"attributes.{name}: expected a text, an integer, a boolean or {{version: …}}")
    return {kind: value}


def failed_devices(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the devices ("driver/name") that have failed."""
    return frozenset(name for name in annotations.get(FAILED_DEVICES, "").split(",") if name)


def device_taints(annotations: Mapping[str, str]) -> dict[str, list[DeviceTaint]]:
    """Return the taints of devices ("driver/name"). Raises DeviceError."""
    taints: dict[str, list[DeviceTaint]] = _decode(
        annotations, DEVICE_TAINTS, dict[str, list[DeviceTaint]], {}
    )
    return taints


def device_names(annotations: Mapping[str, str]) -> list[str]:
    """Return the devices ("driver/name") of a node, failed ones included. Raises DeviceError."""
    drivers = devices_by_driver(device_groups(annotations))
    return [f"{driver}/{device['name']}" for driver, devices in drivers.items() for device in devices]


def published_devices(annotations: Mapping[str, str]) -> dict[str, list[Tree]]:
    """Return the devices that a driver publishes: without failed ones, with taints. Raises DeviceError."""
    failed, taints = failed_devices(annotations), device_taints(annotations)
    published: dict[str, list[Tree]] = {}
    for driver, devices in devices_by_driver(device_groups(annotations)).items():
        published[driver] = working = []
        for device in devices:
            name = f"{driver}/{device['name']}"
            if name in taints:
                device["taints"] = msgspec.to_builtins(taints[name])
            if name not in failed:
                working.append(device)
    return published


def _decode(annotations: Mapping[str, str], name: str, form: Any, default: Any) -> Any:
    text = annotations.get(name)
    if not text:
        return default
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DeviceError(f"{name}: {error}") from None
