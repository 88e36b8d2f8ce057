"""LimitRanges and ResourceQuotas."""

from __future__ import annotations

from typing import Final

from mooring.api.quantity import NANO, parse
from mooring.sandbox.apiserver.errors import duplicate, forbidden_value, invalid_value, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import IMMUTABLE, Causes, text
from mooring.sandbox.apiserver.validation.names import qualified_name
from mooring.sandbox.apiserver.validation.resources import (
    container_resource_name,
    is_quota_standard,
    overcommits,
    resource_name,
    resource_value,
)

_LIMIT_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_SCOPES: Final = frozenset(
    {
        "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass",
        "VolumeAttributesClass", "CrossNamespacePodAffinity",
    }
)  # fmt: skip
_CONFLICTS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


# ---- LimitRange -----------------------------------------------------------------------------------


def limit_range(obj: Tree) -> Causes:
    seen = set()
    for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        at, kind = f"spec.limits[{index}]", limit.get("type", "")
        if qualified_name(kind):
            yield from text(f"{at}.type", kind, qualified_name)
        elif "/" not in kind and kind not in _LIMIT_TYPES:
            yield invalid_value(f"{at}.type", kind, "must be a standard limit type or fully qualified")
        if kind in seen:
            yield duplicate(f"{at}.type", kind)
        seen.add(kind)
        yield from _limit(at, kind, limit)


def _limit(path: str, kind: str, limit: Tree) -> Causes:
    rule = container_resource_name if kind in ("Pod", "Container") else resource_name
    defaults = () if kind == "Pod" else ("default", "defaultRequest")
    for name in ("default", "defaultRequest"):
        if kind == "Pod" and limit.get(name):
            yield forbidden_value(f"{path}.{name}", "may not be specified when `type` is 'Pod'")
    resources = set()
    for name in ("max", "min", *defaults, "maxLimitRequestRatio"):
        for resource in limit.get(name) or {}:
            yield from rule(f"{path}.{name}[{resource}]", resource)
            resources.add(resource)
    bounded = any("storage" in (limit.get(end) or {}) for end in ("min", "max"))
    if kind == "PersistentVolumeClaim" and not bounded:
        why = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", why)
    for resource in sorted(resources):
        yield from _bounds(path, limit, resource)


_ORDER: Final = (  # which bound must not exceed which, the path of the error, and the names of both
    ("min", "max", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min value", "default value"),
    ("default", "max", "default", "default value", "max value"),
)


def _bounds(path: str, limit: Tree, resource: str) -> Causes:
    bounds = {
        name: (limit.get(name) or {}).get(resource)
        for name in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
    }
    for low, high, at, low_told, high_told in _ORDER:
        less, more = bounds[low], bounds[high]
        if less is not None and more is not None and parse(less) > parse(more):
            shown = {"default": less if low == "min" else more}.get(at, bounds[at])
            why = f"{low_told} {less} is greater than {high_told} {more}"
            yield invalid_value(f"{path}.{at}[{resource}]", shown, why)
    ratio, least, most = bounds["maxLimitRequestRatio"], bounds["min"], bounds["max"]
    at = f"{path}.maxLimitRequestRatio[{resource}]"
    if ratio is not None and parse(ratio) < NANO:
        yield invalid_value(at, ratio, f"ratio {ratio} is less than 1")
    if ratio is not None and least is not None and most is not None and parse(least) > 0:
        possible = parse(most) / parse(least)
        if parse(ratio) / NANO > possible:
            yield invalid_value(at, ratio, f"ratio {ratio} is greater than max/min = {possible:f}")
    default, request = bounds["default"], bounds["defaultRequest"]
    if not overcommits(resource) and default and request and parse(default) != parse(request):
        why = f"default value {default} must equal to defaultRequest value {request} in {resource}"
        yield invalid_value(f"{path}.defaultRequest[{resource}]", request, why)


# ---- ResourceQuota --------------------------------------------------------------------------------


def resource_quota(obj: Tree) -> Causes:
    spec = obj.get("spec") or {}
    for name, quantity in (spec.get("hard") or {}).items():
        yield from _quota_quantity(f"spec.hard[{name}]", name, quantity)
    scopes = spec.get("scopes") or []
    if not _SCOPES.issuperset(scopes):
        unsupported = invalid_value("spec.scopes", scopes, "unsupported scope")
        # one for all: there may be thousands, and each shows all of them
        yield from (unsupported for scope in scopes if scope not in _SCOPES)
    if any(pair <= set(scopes) for pair in _CONFLICTS):
        yield invalid_value("spec.scopes", scopes, "conflicting scopes")


def _quota_quantity(path: str, name: str, quantity: str) -> Causes:
    yield from resource_name(path, name)
    if "/" not in name and not is_quota_standard(name):
        yield invalid_value(path, name, "must be a standard resource for quota")
    yield from resource_value(path, name, quantity)


def resource_quota_update(obj: Tree, old: Tree) -> Causes:
    yield from resource_quota(obj)
    new, before = (set((one.get("spec") or {}).get("scopes") or ()) for one in (obj, old))
    if new != before:
        yield invalid_value("spec.scopes", (obj.get("spec") or {}).get("scopes"), IMMUTABLE)


def resource_quota_status(obj: Tree, old: Tree) -> Causes:
    for kind in ("hard", "used"):
        for name, quantity in ((obj.get("status") or {}).get(kind) or {}).items():
            yield from _quota_quantity(f"status.{kind}[{name}]", name, quantity)
