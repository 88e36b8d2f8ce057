"""The metrics of HorizontalPodAutoscalers: one source per metric, with a target that suits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.api.quantity import parse
from mooring.sandbox.apiserver.errors import forbidden_value, invalid_value, not_supported, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes, required_text, text
from mooring.sandbox.apiserver.validation.names import dns_label, path_segment
from mooring.sandbox.apiserver.validation.resources import container_resource_name

_SOURCES: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""The member with the source, by the type of a metric."""
_UTILIZATION: Final = "must set either a target raw value or a target utilization"


def metrics(path: str, items: Sequence[Tree]) -> Causes:
    for index, metric in enumerate(items):
        yield from _metric(f"{path}[{index}]", metric)


def _metric(path: str, metric: Tree) -> Causes:
    type = metric.get("type", "")
    if not type:
        yield required(f"{path}.type", "must specify a metric source type")
    if type not in _SOURCES:
        yield not_supported(f"{path}.type", type, sorted(_SOURCES))
    present = [member for member in _SOURCES.values() if metric.get(member) is not None]
    if present:
        yield from _source(f"{path}.{present[0]}", present[0], metric[present[0]])
    expected = _SOURCES.get(type)
    if expected is None:
        yield not_supported(f"{path}.type", type, sorted(_SOURCES))
    elif expected not in present:
        yield required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(present) != 1:
        for member in present:
            if member != expected:
                yield forbidden_value(f"{path}.{member}", "must populate the given metric source only")


def _source(path: str, member: str, source: Tree) -> Causes:
    target = source.get("target") or {}
    if member == "object":
        yield from referred(f"{path}.describedObject", source.get("describedObject") or {}, core=True)
    if member in ("object", "external", "pods"):
        yield from _identifier(f"{path}.metric", source.get("metric") or {})
    else:
        yield from _resource(path, member, source)
    yield from _target(f"{path}.target", target)
    has_value, has_average = target.get("value") is not None, target.get("averageValue") is not None
    if member == "pods":
        if not has_average:
            yield required(f"{path}.target.averageValue", "must specify a positive target averageValue")
    elif member in ("object", "external"):
        if not has_value and not has_average:
            kinds = "value or averageValue" if member == "object" else "value for metric or a per-pod target"
            yield required(f"{path}.target.averageValue", f"must set either a target {kinds}")
        if has_value and has_average and member == "external":
            why = "may not set both a target value for metric and a per-pod target"
            yield forbidden_value(f"{path}.target.value", why)
    else:
        yield from _utilization(f"{path}.target", target)


def _utilization(path: str, target: Tree) -> Causes:
    has_utilization = target.get("averageUtilization") is not None
    has_value = target.get("averageValue") is not None
    if not has_utilization and not has_value:
        yield required(f"{path}.averageUtilization", _UTILIZATION)
    if has_utilization and has_value:
        why = "may not set both a target raw value and a target utilization"
        yield forbidden_value(f"{path}.averageValue", why)


def _resource(path: str, member: str, source: Tree) -> Causes:
    name, container = source.get("name", ""), source.get("container", "")
    if not name:
        yield required(f"{path}.name", "must specify a resource name")
    elif member == "containerResource":
        yield from container_resource_name(f"{path}.name", name)
    if member == "containerResource":
        if not container:
            yield required(f"{path}.container", "must specify a container")
        else:
            yield from text(f"{path}.container", container, dns_label)


def _identifier(path: str, metric: Tree) -> Causes:
    name = metric.get("name", "")
    if not name:
        yield required(f"{path}.name", "must specify a metric name")
    else:
        yield from text(f"{path}.name", name, path_segment)


def _target(path: str, target: Tree) -> Causes:
    type = target.get("type", "")
    if not type:
        yield required(f"{path}.type", "must specify a metric target type")
    if type not in ("Utilization", "Value", "AverageValue"):
        yield invalid_value(f"{path}.type", type, "must be either Utilization, Value, or AverageValue")
    for member in ("value", "averageValue"):
        quantity = target.get(member)
        if quantity is not None and parse(quantity) <= 0:
            yield invalid_value(f"{path}.{member}", quantity, "must be positive")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        yield invalid_value(f"{path}.averageUtilization", utilization, "must be greater than 0")


def referred(path: str, reference: Tree, *, core: bool) -> Causes:
    """Validate a reference to what is scaled or measured, which may be of the `core` group."""
    for name in ("kind", "name"):
        yield from required_text(f"{path}.{name}", reference.get(name), path_segment)
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        yield invalid_value(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif not core and not version.rpartition("/")[0]:
        yield invalid_value(f"{path}.apiVersion", version, "apiVersion must specify API group")
