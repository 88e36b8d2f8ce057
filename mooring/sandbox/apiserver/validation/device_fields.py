"""Rules that device classes, claims and slices share: names, lists, taints, configuration."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from mooring.api.errors import child
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
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.validation.fields import Causes, text
from mooring.sandbox.apiserver.validation.names import dns_label, dns_subdomain, label_value, qualified_name

MAX_OPAQUE_BYTES: Final = 10 * 1024
ADMIN_ACCESS_LABEL: Final = "resource.kubernetes.io/admin-access"
_EFFECTS: Final = choices("resource_v1.DeviceTaint.effect")
_OPERATORS: Final = choices("resource_v1.DeviceToleration.operator")
_MAX_DOMAIN, _MAX_IDENTIFIER = 63, 32
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NOT_IDENTIFIER: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)

Item = Callable[[str, Any], Causes]
"""A rule for an item of a list or map at a path."""


def bounded(path: str, items: Sequence[Any], most: int, rule: Item) -> Causes:
    """Validate the items of a list, unless there are too many."""
    if len(items) > most:
        yield too_many(path, len(items), most)
        return
    for index, item in enumerate(items):
        yield from rule(f"{path}[{index}]", item)


def unique(
    path: str, items: Sequence[Any], most: int, rule: Item, key: Callable[[Any], Hashable], shown: Any = None
) -> Causes:
    """Validate the items of a list in which each key may occur once. `shown` turns a key into what the
    message shows."""
    yield from bounded(path, items, most, rule)
    if len(items) > most:
        return
    seen = set()
    for index, item in enumerate(items):
        if key(item) in seen:
            yield duplicate(f"{path}[{index}]", shown(item) if shown else key(item))
        seen.add(key(item))


def name_of(item: Tree) -> str:
    return str(item.get("name", ""))


# ---- names ----------------------------------------------------------------------------------------


def driver_name(path: str, name: str) -> Causes:
    if not name:
        yield required(path)
        return
    if len(name.encode()) > _MAX_DOMAIN:
        yield too_long(path, _MAX_DOMAIN)
    for problem in dns_subdomain(name.lower()):
        yield invalid_value(path, name, problem)


def pool_name(path: str, name: str) -> Causes:
    if not name:
        yield required(path)
        return
    if len(name.encode()) > 253:
        yield too_long(path, 253)
    for part in name.split("/"):
        yield from text(path, part, dns_subdomain)


def class_name(path: str, name: str) -> Causes:
    if not name:
        yield required(path)
    else:
        yield from text(path, name, dns_subdomain)


def attribute_name(path: str, name: str) -> Causes:
    """Validate the name of an attribute or a capacity, with or without a domain."""
    parts = name.split("/")
    if len(parts) == 1:
        yield from _identifier(path, name)
    elif len(parts) == 2:  # names with more slashes are accepted
        if not parts[0]:
            yield invalid_value(path, "", "the domain must not be empty")
        else:
            yield from driver_name(path, parts[0])
        if not parts[1]:
            yield invalid_value(path, "", "the name must not be empty")
        else:
            yield from _identifier(path, parts[1])


def full_attribute_name(path: str, name: str) -> Causes:
    yield from attribute_name(path, name)
    if "/" not in name:
        why = "a fully qualified name must be a domain and a name separated by a slash"
        yield invalid_value(path, name, why)


def _identifier(path: str, name: str) -> Causes:
    if len(name.encode()) > _MAX_IDENTIFIER:
        yield too_long(path, _MAX_IDENTIFIER)
    if not _IDENTIFIER.fullmatch(name):
        yield invalid_value(path, name, _NOT_IDENTIFIER)


def named_values(path: str, values: Mapping[str, Any], name: Item, rule: Item) -> Causes:
    """Validate the keys and the values of a map."""
    for key, value in values.items():
        yield from name(path, key)
        yield from rule(f"{path}[{_shortened(key)}]", value)


def _shortened(key: str) -> str:
    longest = _MAX_DOMAIN + 1 + _MAX_IDENTIFIER
    if len(key) <= longest:
        return key
    kept = longest - 3
    return key[: (kept + 1) // 2] + "..." + key[-(kept // 2) :]


def label(path: str, name: str) -> Causes:
    """Validate a name by the rule for requests, devices and counters."""
    yield from text(path, name, dns_label)


def label_key(path: str, name: str) -> Causes:
    yield from text(path, name, qualified_name)


def share_id(path: str, value: str) -> Causes:
    if len(value) not in (32, 36, 38, 45):
        yield invalid_value(path, value, f"error validating uid: invalid UUID length: {len(value)}")
        return
    try:
        uuid.UUID(value)
    except ValueError:
        yield invalid_value(path, value, "error validating uid: invalid UUID format")
        return
    if len(value) != 36 or value != value.lower():
        form = "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
        yield invalid_value(path, value, f"uid must be in RFC 4122 normalized form, {form}")


# ---- taints, configuration, binding conditions ----------------------------------------------------


def device_taint(path: str, taint: Tree) -> Causes:
    yield from label_key(f"{path}.key", taint.get("key", ""))
    if taint.get("value"):
        yield from text(f"{path}.value", taint["value"], label_value)
    effect = taint.get("effect", "")
    if not effect:
        yield required(f"{path}.effect")
    elif effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)


def device_toleration(path: str, toleration: Tree) -> Causes:
    if toleration.get("key"):
        yield from label_key(f"{path}.key", toleration["key"])
    operator, value, effect = (toleration.get(name, "") for name in ("operator", "value", "effect"))
    if operator == "Exists":
        if value:
            yield invalid_value(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from text(f"{path}.value", value, label_value)
    else:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    if effect and effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)


def opaque_configuration(path: str, configuration: Tree) -> Causes:
    opaque, at = configuration.get("opaque"), child(path, "opaque")
    if opaque is None:
        yield required(at)
        return
    yield from driver_name(f"{at}.driver", opaque.get("driver", ""))
    yield from raw_object(f"{at}.parameters", opaque.get("parameters"))


def raw_object(path: str, value: Any) -> Causes:
    """Validate a JSON object that only a driver understands."""
    if value is None:
        yield required(path)
    elif len(encode_json(value)) > MAX_OPAQUE_BYTES:
        yield too_long(path, MAX_OPAQUE_BYTES)
    elif not isinstance(value, dict):
        yield invalid_value(path, "<value omitted>", "must be a valid JSON object")


def binding_conditions(path: str, device: Tree) -> Causes:
    """Validate the conditions that a device waits for; both kinds are set or none is."""
    ready, failed = (device.get(name) or [] for name in ("bindingConditions", "bindingFailureConditions"))
    for name, conditions in (("bindingConditions", ready), ("bindingFailureConditions", failed)):
        yield from bounded(f"{path}.{name}", conditions, 4, label_key)
        seen = set()
        for index, condition in enumerate(conditions):
            at = f"{path}.{name}[{index}]"
            if condition in seen:
                yield duplicate(at, condition)
            seen.add(condition)
            if conditions is failed and condition in ready:
                yield invalid_value(at, condition, f"{name} must not overlap with bindingConditions")
    if failed and not ready:
        why = "bindingConditions are required to use bindingFailureConditions"
        yield invalid_value(f"{path}.bindingConditions", None, why)
    if ready and not failed:
        why = "bindingFailureConditions are required to use bindingConditions"
        yield invalid_value(f"{path}.bindingFailureConditions", None, why)


def admin_access(path: str, items: Sequence[Tree], namespace: Tree | None) -> Causes:
    """Admin access needs a label of the namespace. `items` are requests or results."""
    for index, item in enumerate(items):
        if item.get("adminAccess"):
            if ((namespace or {}).get("metadata", {}).get("labels") or {}).get(ADMIN_ACCESS_LABEL) != "true":
                why = f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label"
                yield forbidden_value(f"{path}[{index}].adminAccess", f"{why} on the containing namespace")
            return
