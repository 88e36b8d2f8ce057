"""The status of ResourceClaims: allocation, reservations, and what drivers report about devices."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from mooring.sandbox.apiserver.errors import (
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.kinds.go_form import go_form
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.device_claims import (
    MAX_CONFIGURATIONS,
    RequestNames,
    named_requests,
    request_names,
    request_reference,
)
from mooring.sandbox.apiserver.validation.device_fields import (
    binding_conditions,
    bounded,
    driver_name,
    label,
    label_key,
    opaque_configuration,
    pool_name,
    raw_object,
    share_id,
    unique,
)
from mooring.sandbox.apiserver.validation.fields import IMMUTABLE, Causes
from mooring.sandbox.apiserver.validation.labels import node_selector

MAX_RESULTS: Final = 32
MAX_CONSUMERS: Final = 256
_MAX_CONDITIONS, _MAX_ADDRESSES = 8, 16
_NO_LIMIT: Final = 2**31
_STATUSES: Final = ("False", "True", "Unknown")
_SOURCES: Final = choices("resource_v1.DeviceAllocationConfiguration.source")
_CIDR: Final = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_NOT_A_REASON: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  "
    "or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)

DeviceKey = tuple[str, str, str, str]
"""Driver, pool, device, and the share of it."""


def claim_status(obj: Tree, old: Tree) -> Causes:
    status, before = obj.get("status") or {}, old.get("status") or {}
    allocation, consumers = status.get("allocation"), status.get("reservedFor") or []
    yield from unique("status.reservedFor", consumers, MAX_CONSUMERS, _consumer, _uid)
    allocated = frozenset(map(device_key, results(allocation)))
    rule = partial(_device_status, allocated=allocated)
    yield from unique("status.devices", status.get("devices") or (), _NO_LIMIT, rule, device_key, _shown)
    if consumers:
        yield from _reservations(consumers, before.get("reservedFor") or [], allocation, obj["metadata"])
    if allocation is None:
        return
    if before.get("allocation") is None:
        yield from _allocation("status.allocation", allocation, request_names(obj["spec"]["devices"]))
    elif allocation != before["allocation"]:
        shown = go_form(object_type("resource_v1", "AllocationResult"), allocation)
        yield invalid_value("status.allocation", shown, IMMUTABLE)


def results(allocation: Tree | None) -> list[Tree]:
    listed: list[Tree] = ((allocation or {}).get("devices") or {}).get("results") or []
    return listed


def device_key(item: Tree) -> DeviceKey:
    return item.get("driver", ""), item.get("pool", ""), item.get("device", ""), item.get("shareID") or ""


def _uid(consumer: Tree) -> str:
    return str(consumer.get("uid", ""))


def _shown(item: Tree) -> Tree:
    return dict(zip(("Driver", "Pool", "Device", "ShareID"), device_key(item), strict=True))


def _consumer(path: str, consumer: Tree) -> Causes:
    for name in ("resource", "name", "uid"):
        if not consumer.get(name):
            yield required(f"{path}.{name}")


def _reservations(
    consumers: list[Tree], before: list[Tree], allocation: Tree | None, metadata: Tree
) -> Causes:
    at = "status.reservedFor"
    if allocation is None:
        yield forbidden_value(at, "may not be specified when `allocated` is not set")
    elif "deletionTimestamp" in metadata and any(consumer not in before for consumer in consumers):
        why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield forbidden_value(at, why)


# ---- allocation -----------------------------------------------------------------------------------


def _allocation(path: str, allocation: Tree, names: RequestNames) -> Causes:
    devices, at = allocation.get("devices") or {}, f"{path}.devices"
    result, configuration = partial(_result, names=names), partial(_configuration, names=names)
    yield from bounded(f"{at}.results", devices.get("results") or (), MAX_RESULTS, result)
    yield from bounded(f"{at}.config", devices.get("config") or (), 2 * MAX_CONFIGURATIONS, configuration)
    if allocation.get("nodeSelector") is not None:
        yield from node_selector(f"{path}.nodeSelector", allocation["nodeSelector"])


def _result(path: str, result: Tree, *, names: RequestNames) -> Causes:
    yield from request_reference(f"{path}.request", result.get("request", ""), names=names)
    yield from _device_id(path, result)
    yield from binding_conditions(path, result)


def _device_id(path: str, item: Tree) -> Causes:
    yield from driver_name(f"{path}.driver", item.get("driver", ""))
    yield from pool_name(f"{path}.pool", item.get("pool", ""))
    yield from label(f"{path}.device", item.get("device", ""))
    if item.get("shareID") is not None:
        yield from share_id(f"{path}.shareID", item["shareID"])


def _configuration(path: str, configuration: Tree, *, names: RequestNames) -> Causes:
    source = configuration.get("source", "")
    if not source:
        yield required(f"{path}.source")
    elif source not in _SOURCES:
        yield not_supported(f"{path}.source", source, _SOURCES)
    yield from named_requests(f"{path}.requests", configuration, names)
    yield from opaque_configuration(path, configuration)


# ---- what drivers report --------------------------------------------------------------------------


def _device_status(path: str, device: Tree, *, allocated: frozenset[DeviceKey]) -> Causes:
    yield from _device_id(path, device)
    if device_key(device) not in allocated:
        yield invalid_value(path, _shown(device), "must be an allocated device in the claim")
    reported = device.get("conditions") or ()
    if len(reported) > _MAX_CONDITIONS:
        yield too_many(f"{path}.conditions", len(reported), _MAX_CONDITIONS)
    yield from conditions(f"{path}.conditions", reported)
    if device.get("data") is not None:
        yield from raw_object(f"{path}.data", device["data"])
    if device.get("networkData") is not None:
        yield from _network_data(f"{path}.networkData", device["networkData"])


def conditions(path: str, items: Sequence[Tree]) -> Causes:
    """Validate conditions of the type that newer kinds share."""
    seen = set()
    for index, condition in enumerate(items):
        at = f"{path}[{index}]"
        if condition.get("type", "") in seen:
            yield duplicate(f"{at}.type", condition.get("type", ""))
        seen.add(condition.get("type", ""))
        yield from _condition(at, condition)


def _condition(path: str, condition: Tree) -> Causes:
    yield from label_key(f"{path}.type", condition.get("type", ""))
    if condition.get("status") not in _STATUSES:
        yield not_supported(f"{path}.status", condition.get("status", ""), _STATUSES)
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        why = "must be greater than or equal to zero"
        yield invalid_value(f"{path}.observedGeneration", generation, why)
    if not condition.get("lastTransitionTime"):
        yield required(f"{path}.lastTransitionTime")
    reason, message = condition.get("reason", ""), condition.get("message", "")
    if not reason:
        yield required(f"{path}.reason")
    elif not _REASON.fullmatch(reason):
        yield invalid_value(f"{path}.reason", reason, _NOT_A_REASON)
    for name, value, most in (("reason", reason, 1024), ("message", message, 32 * 1024)):
        if len(value.encode()) > most:
            yield too_long(f"{path}.{name}", most)


def _network_data(path: str, data: Tree) -> Causes:
    for name, most in (("interfaceName", 256), ("hardwareAddress", 128)):
        if len(data.get(name, "").encode()) > most:
            yield too_long(f"{path}.{name}", most)
    yield from unique(f"{path}.ips", data.get("ips") or (), _MAX_ADDRESSES, _interface_address, _itself)


def _itself(item: Any) -> Any:
    return item


def _interface_address(path: str, value: str) -> Causes:
    try:
        if "/" not in value:
            raise ValueError(value)
        canonical = str(ipaddress.ip_interface(value))
    except ValueError:
        yield invalid_value(path, value, _CIDR)
        return
    if value != canonical:
        yield invalid_value(path, value, f'must be in canonical form ("{canonical}")')
