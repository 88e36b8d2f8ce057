"""DeviceTaintRules: which devices, and their taint."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.errors import too_many
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.claim_status import conditions
from mooring.sandbox.apiserver.validation.device_fields import device_taint, driver_name, label, pool_name
from mooring.sandbox.apiserver.validation.fields import Causes

_MAX_CONDITIONS: Final = 8


def device_taint_rule(obj: Tree) -> Causes:
    spec = obj["spec"]
    selector = spec.get("deviceSelector") or {}
    for field, rule in (("driver", driver_name), ("pool", pool_name), ("device", label)):
        if selector.get(field) is not None:
            yield from rule(f"spec.deviceSelector.{field}", selector[field])
    yield from device_taint("spec.taint", spec.get("taint") or {})


def device_taint_rule_status(obj: Tree, old: Tree) -> Causes:
    found = (obj.get("status") or {}).get("conditions") or ()
    yield from conditions("status.conditions", found)
    if len(found) > _MAX_CONDITIONS:
        yield too_many("status.conditions", len(found), _MAX_CONDITIONS)
