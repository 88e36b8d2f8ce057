"""ResourceSlices: pools of devices, their attributes, capacities and counters."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from typing import Any, Final

from mooring.api.quantity import parse, to_value
from mooring.api.quantity_texts import written
from mooring.sandbox.apiserver.errors import forbidden_value, invalid_value, required, too_long, too_many
from mooring.sandbox.apiserver.kinds.go_form import go_form
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.device_fields import (
    attribute_name,
    binding_conditions,
    bounded,
    device_taint,
    driver_name,
    label,
    name_of,
    named_values,
    pool_name,
    unique,
)
from mooring.sandbox.apiserver.validation.fields import NOT_POSITIVE, Causes, immutable, text
from mooring.sandbox.apiserver.validation.labels import node_selector
from mooring.sandbox.apiserver.validation.names import dns_subdomain
from mooring.sandbox.apiserver.validation.scheduling import node_selector_as_shown

_MAX_DEVICES, _MAX_SPECIAL_DEVICES = 128, 64
_MAX_COUNTER_SETS, _MAX_COUNTERS, _MAX_CONSUMED_SETS = 8, 32, 2
_MAX_VALUES, _MAX_TAINTS, _MAX_TEXT, _MAX_VALID_VALUES = 32, 16, 64, 10
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_TRUE_OR_UNSET: Final = "must be either unset or set to true"
_DEVICE_NODES: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is "
    "set to true in the ResourceSlice spec"
)


def resource_slice(obj: Tree) -> Causes:
    yield from _slice_spec(obj["spec"], None)


def resource_slice_update(obj: Tree, old: Tree) -> Causes:
    yield from _slice_spec(obj["spec"], old["spec"])


def _slice_spec(spec: Tree, old: Tree | None) -> Causes:
    yield from driver_name("spec.driver", spec.get("driver", ""))
    yield from _pool(spec.get("pool") or {})
    if old is not None:
        yield from immutable("spec.pool.name", dig(spec, "pool", "name"), dig(old, "pool", "name"))
        for name in ("driver", "nodeName"):
            yield from immutable(f"spec.{name}", spec.get(name), old.get(name))
    yield from _nodes(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        yield invalid_value("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    devices = spec.get("devices") or ()
    special = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    known_taints = {name_of(device): device.get("taints") for device in (old or {}).get("devices") or ()}
    rule = partial(_device, own_nodes=bool(spec.get("perDeviceNodeSelection")), known_taints=known_taints)
    most = _MAX_SPECIAL_DEVICES if special else _MAX_DEVICES
    yield from unique("spec.devices", devices, most, rule, name_of)
    counters = spec.get("sharedCounters") or ()
    yield from unique("spec.sharedCounters", counters, _MAX_COUNTER_SETS, _counter_set, name_of)


def _pool(pool: Tree) -> Causes:
    yield from pool_name("spec.pool.name", pool.get("name", ""))
    slices, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if slices <= 0:
        yield invalid_value("spec.pool.resourceSliceCount", slices, NOT_POSITIVE)
    if generation < 0:
        why = "must be greater than or equal to zero"
        yield invalid_value("spec.pool.generation", generation, why)


def _nodes(spec: Tree) -> Causes:
    """A slice says in one of four ways which nodes can use its devices."""
    present = []
    if spec.get("nodeName") is not None:
        if spec["nodeName"]:
            present.append("`nodeName`")
            yield from text("spec.nodeName", spec["nodeName"], dns_subdomain)
        else:
            yield invalid_value("spec.nodeName", "", "must be either unset or set to a non-empty string")
    selector = spec.get("nodeSelector")
    if selector is not None:
        present.append("`nodeSelector`")
        yield from node_selector("spec.nodeSelector", selector)
        if len(selector.get("nodeSelectorTerms") or ()) != 1:
            shown = (node_selector_as_shown(selector) or {})["NodeSelectorTerms"]
            why = "must have exactly one node selector term"
            yield invalid_value("spec.nodeSelector.nodeSelectorTerms", shown, why)
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name):
            present.append(f"`{name}`")
        elif spec.get(name) is not None:
            yield invalid_value(f"spec.{name}", spec[name], _TRUE_OR_UNSET)
    choices = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not present:
        yield required("spec", choices)
    elif len(present) > 1:
        shown = "{" + ", ".join(present) + "}"
        yield invalid_value("spec", shown, f"{choices}, but multiple fields are set")


# ---- devices --------------------------------------------------------------------------------------


def _device(path: str, device: Tree, *, own_nodes: bool, known_taints: dict[str, Any]) -> Causes:
    yield from label(f"{path}.name", name_of(device))
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > _MAX_VALUES:
        why = f"the total number of attributes and capacities must not exceed {_MAX_VALUES}"
        yield invalid_value(path, len(attributes) + len(capacity), why)
    yield from named_values(f"{path}.attributes", attributes, attribute_name, _attribute)
    rule = _shared_capacity if device.get("allowMultipleAllocations") else _whole_capacity
    yield from named_values(f"{path}.capacity", capacity, attribute_name, rule)
    taints = device.get("taints") or ()
    if known_taints.get(name_of(device)) != device.get("taints"):
        yield from bounded(f"{path}.taints", taints, _MAX_TAINTS, device_taint)
    consumed = device.get("consumesCounters") or ()
    yield from unique(
        f"{path}.consumesCounters", consumed, _MAX_CONSUMED_SETS, _consumed_counters, _counter_set_name
    )
    yield from _device_nodes(path, device, own_nodes)
    yield from binding_conditions(path, device)


def _device_nodes(path: str, device: Tree, own_nodes: bool) -> Causes:
    node, selector, everywhere = (device.get(name) for name in ("nodeName", "nodeSelector", "allNodes"))
    if not own_nodes:
        if node is not None or selector is not None or everywhere is not None:
            why = "can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            yield invalid_value(path, None, f"`nodeName`, `nodeSelector` and `allNodes` {why}")
        return
    present = []
    if node:
        present.append("`nodeName`")
        yield from text(f"{path}.nodeName", node, dns_subdomain)
    elif node is not None:
        yield invalid_value(f"{path}.nodeName", node, "must not be empty")
    if selector is not None:
        present.append("`nodeSelector`")
        yield from node_selector(f"{path}.nodeSelector", selector)
    if everywhere:
        present.append("`allNodes`")
    elif everywhere is not None:
        yield invalid_value(f"{path}.allNodes", everywhere, _TRUE_OR_UNSET)
    if not present:
        yield required(path, _DEVICE_NODES)
    elif len(present) > 1:
        yield invalid_value(path, "{" + ", ".join(present) + "}", _DEVICE_NODES)


def _attribute(path: str, attribute: Tree) -> Causes:
    present = [name for name, value in attribute.items() if value is not None]
    if "string" in present and len(attribute["string"].encode()) > _MAX_TEXT:
        yield too_long(f"{path}.string", _MAX_TEXT)
    if "version" in present:
        version = attribute["version"]
        if not _SEMVER.fullmatch(version):
            why = "must be a string compatible with semver.org spec 2.0.0"
            yield invalid_value(f"{path}.version", version, why)
        if len(version.encode()) > _MAX_TEXT:
            yield too_long(f"{path}.version", _MAX_TEXT)
    if len(present) != 1:
        yield invalid_value(
            path, _attribute_as_shown(attribute) if present else "", "exactly one value must be specified"
        )


def _attribute_as_shown(attribute: Tree) -> Tree:
    """Go's names of the values, which JSON shortens: `IntValue` is `int`, `IntValues` is `ints`."""
    shown = go_form(object_type("resource_v1", "DeviceAttribute"), attribute)
    return {
        (f"{name[:-1]}Values" if name.endswith("s") else f"{name}Value"): value
        for name, value in shown.items()
    }


# ---- capacity -------------------------------------------------------------------------------------


def _whole_capacity(path: str, capacity: Tree) -> Causes:
    if capacity.get("requestPolicy") is not None:
        yield forbidden_value(f"{path}.requestPolicy", "allowMultipleAllocations must be true")


def _shared_capacity(path: str, capacity: Tree) -> Causes:
    policy, at = capacity.get("requestPolicy"), f"{path}.requestPolicy"
    if policy is None:
        return
    values, span, default = policy.get("validValues") or (), policy.get("validRange"), policy.get("default")
    if values and span is not None:
        both = 'cannot specify "validValues" and "validRange" at the same time'
        yield forbidden_value(at, f"exactly one policy can be specified, {both}")
    elif (values or span is not None) and default is None:
        yield required(
            f"{at}.default", f"required when {'validValues' if values else 'validRange'} is defined"
        )
    elif values:
        yield from _valid_values(f"{at}.validValues", values, default, capacity["value"])
    elif span is not None:
        yield from _valid_range(f"{at}.validRange", span, default, capacity["value"])


def _valid_values(path: str, values: list[str], default: str, most: str) -> Causes:
    for index, (value, following) in enumerate(pairwise(values)):
        if parse(value) > parse(following):
            yield invalid_value(f"{path}[{index + 1}]", following, "values must be sorted in ascending order")

    def option(at: str, value: str) -> Causes:
        if parse(value) > parse(most):
            yield invalid_value(at, value, f"option is larger than capacity value: {most}")

    yield from unique(path, values, _MAX_VALID_VALUES, option, lambda value: str(to_value(value)))
    if len(values) > _MAX_VALID_VALUES or parse(default) not in map(parse, values):
        yield invalid_value(path, default, "default value is not valid according to the requestPolicy")


def _valid_range(path: str, span: Tree, default: str, most: str) -> Causes:
    low, high, step = (span.get(name) for name in ("min", "max", "step"))
    if low is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    if parse(low) > parse(most):
        yield invalid_value(f"{path}.min", low, f"min is larger than capacity value: {most}")
    if parse(default) < parse(low):
        yield invalid_value(f"{path}.min", default, f"default is less than min: {low}")
    if high is not None:
        if parse(low) > parse(high):
            yield invalid_value(f"{path}.max", low, f"min is larger than max: {high}")
        if parse(high) > parse(most):
            yield invalid_value(f"{path}.max", high, f"max is larger than capacity value: {most}")
        if parse(default) > parse(high):
            yield invalid_value(f"{path}.max", default, f"default is more than max: {high}")
    if step is not None:
        yield from _steps(f"{path}.step", low, high, step, default, most)


def _steps(path: str, low: str, high: str | None, step: str, default: str, most: str) -> Causes:
    first = parse(low) + parse(step)
    if first > parse(most):
        why = f"one step {written(first, low)} is larger than capacity value: {most}"
        yield invalid_value(path, step, why)
    for value in (default, high):
        if value is None:
            continue
        if not to_value(step) or (to_value(value) - to_value(low)) % to_value(step):
            why = f"value is not a multiple of a given step ({step}) from ({low})"
            yield invalid_value(path, value, why)


# ---- counters -------------------------------------------------------------------------------------


def _counter_set(path: str, counters: Tree) -> Causes:
    yield from _counters(path, "name", name_of(counters), counters)


def _counter_set_name(consumed: Tree) -> str:
    return str(consumed.get("counterSet", ""))


def _consumed_counters(path: str, consumed: Tree) -> Causes:
    yield from _counters(path, "counterSet", _counter_set_name(consumed), consumed)


def _counters(path: str, field: str, name: str, item: Tree) -> Causes:
    if not name:
        yield required(f"{path}.{field}")
    else:
        yield from label(f"{path}.{field}", name)
    counters = item.get("counters") or {}
    if not counters:
        yield required(f"{path}.counters")
    elif len(counters) > _MAX_COUNTERS:
        yield too_many(f"{path}.counters", len(counters), _MAX_COUNTERS)
    for counter in counters if len(counters) <= _MAX_COUNTERS else ():
        yield from label(f"{path}.counters", counter)
