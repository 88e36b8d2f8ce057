"""HorizontalPodAutoscalers, in version 2."""

from __future__ import annotations

from mooring.sandbox.apiserver.errors import invalid_value, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes, required_text
from mooring.sandbox.apiserver.validation.names import path_segment


def horizontal_pod_autoscaler(obj: Tree) -> Causes:
    spec = obj["spec"]
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for name in ("kind", "name"):
        yield from required_text(f"spec.scaleTargetRef.{name}", target.get(name), path_segment)
    if "/" not in target.get("apiVersion", ""):
        why = "apiVersion must specify API group"
        yield invalid_value("spec.scaleTargetRef.apiVersion", target.get("apiVersion", ""), why)
    for index, metric in enumerate(spec.get("metrics") or ()):
        if not metric.get("type"):
            yield required(f"spec.metrics[{index}].type", "must specify a metric source type")
