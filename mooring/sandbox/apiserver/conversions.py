"""Conversions of kinds that are served in two shapes."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.resource import GroupVersionKind, LocalConversion
from mooring.sandbox.apiserver.objects import Tree

# ---- events: stored as those of the core group ----------------------------------------------------

_EVENT_FIELDS: Final = {  # events.k8s.io/v1: v1
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def _rename(tree: Tree, names: dict[str, str]) -> None:
    """Rename members, keeping their order."""
    renamed = {names.get(name, name): value for name, value in tree.items()}
    tree.clear()
    tree.update(renamed)


def _event_to_storage(tree: Tree) -> None:
    _rename(tree, _EVENT_FIELDS)


def _event_from_storage(tree: Tree) -> None:
    _rename(tree, {core: event for event, core in _EVENT_FIELDS.items()})
    for name in ("reportingController", "reportingInstance"):  # older events always have them, even empty
        if not tree.get(name):
            tree.pop(name, None)


# ---- horizontal pod autoscalers: stored as v2 ------------------------------------------------------


def _autoscaler_to_storage(tree: Tree) -> None:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is not None:
        spec["metrics"] = [_cpu("target", {"type": "Utilization", "averageUtilization": target})]
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        status["currentMetrics"] = [_cpu("current", {"averageUtilization": current})]


def _cpu(name: str, value: Tree) -> Tree:
    return {"type": "Resource", "resource": {"name": "cpu", name: value}}


def _autoscaler_from_storage(tree: Tree) -> None:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    target = _cpu_utilization(spec.pop("metrics", None), "target")
    if target is not None:
        spec["targetCPUUtilizationPercentage"] = target
    current = _cpu_utilization(status.pop("currentMetrics", None), "current")
    if current is not None:
        status["currentCPUUtilizationPercentage"] = current
    spec.pop("behavior", None)
    status.pop("conditions", None)


def _cpu_utilization(metrics: list[Tree] | None, name: str) -> int | None:
    for metric in metrics or ():
        resource = metric.get("resource") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu":
            utilization: int | None = (resource.get(name) or {}).get("averageUtilization")
            return utilization
    return None


# ---- the tables -----------------------------------------------------------------------------------

_EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")
_AUTOSCALER = GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscaler")

STORED_ELSEWHERE: Final = {"events.events.k8s.io": "events"}
CONVERSIONS: Final = {
    _EVENT: LocalConversion(_event_to_storage, _event_from_storage),
    _AUTOSCALER: LocalConversion(_autoscaler_to_storage, _autoscaler_from_storage),
}
FIELD_ALIASES: Final = {
    GroupVersionKind("", "v1", "Pod"): {"spec.host": "spec.nodeName"},
    _EVENT: {
        "reportingController": "reportingComponent",
        **{
            f"regarding.{name}": f"involvedObject.{name}"
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
    },
}
