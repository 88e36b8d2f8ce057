"""The strategy of pods: graceful deletion, generations, kept parts of the status, and subresources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.sandbox.apiserver.context.outcomes import Outcomes
from mooring.sandbox.apiserver.context.strategy import Strategy, keep
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.defaults.pod_defaults import default_pod_status
from mooring.sandbox.apiserver.errors import Cause
from mooring.sandbox.apiserver.objects import Tree, dig, encode_json
from mooring.sandbox.apiserver.validation.pod_resize import pod_resize
from mooring.sandbox.apiserver.validation.pod_rules import pod_ephemeral_containers
from mooring.sandbox.apiserver.validation.pod_spec import pod_annotations


class PodStrategy(Strategy):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.outcomes = Outcomes(
            "limitranges", "namespaces", "priorityclasses.scheduling.k8s.io", "serviceaccounts"
        )

    def prepare_create(self, write: Write, obj: Tree) -> None:
        spec, metadata = obj["spec"], obj["metadata"]
        metadata["generation"] = 1
        if "schedulingGroup" in spec and "GenericWorkload" not in write.api.features:
            del spec["schedulingGroup"]
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj)}
        if "schedulingGates" in spec:
            obj["status"]["conditions"] = [_gated(write)]
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            _merge_label_keys(spec, metadata.get("labels") or {})

    def default_status(self, obj: Tree) -> None:
        default_pod_status(obj["status"])

    def settle_status(self, write: Write, obj: Tree, old: Tree) -> None:
        status, before = obj.setdefault("status", {}), old.get("status", {})
        for name in ("qosClass", "observedGeneration"):
            if not status.get(name) and name in before:
                status[name] = before[name]
        seen = {one.get("type"): one.get("observedGeneration") for one in before.get("conditions") or ()}
        for condition in status.get("conditions") or ():
            if not condition.get("observedGeneration") and seen.get(condition.get("type")):
                condition["observedGeneration"] = seen[condition["type"]]

    def prepare_subresource(self, write: Write, obj: Tree, old: Tree) -> None:
        if write.subresource == "ephemeralcontainers":
            containers = obj["spec"].get("ephemeralContainers")
            obj["spec"] = dict(old["spec"])
            if containers:
                obj["spec"]["ephemeralContainers"] = containers
            else:
                obj["spec"].pop("ephemeralContainers", None)
        elif write.subresource == "resize":
            obj["spec"] = _resized(obj["spec"], old["spec"])
        else:
            return
        obj["status"] = old.get("status", {})
        for name in ("labels", "annotations", "finalizers", "ownerReferences"):
            keep(obj["metadata"], old["metadata"], name)
        if obj["spec"] != old["spec"]:
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def repeats(self, obj: Tree) -> bool:
        spec = obj["spec"]
        if any(name in spec for name in ("nodeName", "runtimeClassName", "schedulingGates")):
            return False
        if any("ephemeral" in volume for volume in spec.get("volumes", ())):
            return False
        return b"atchLabelKeys" not in encode_json(spec)

    def validate_replica(self, metadata: Tree) -> list[Cause]:
        causes = super().validate_replica(metadata)
        annotations = metadata.get("annotations")
        if annotations:
            causes += pod_annotations("metadata.annotations", annotations, {})
        return causes

    def validate_subresource(self, subresource: str, obj: Tree, old: Tree) -> list[Cause]:
        if subresource == "ephemeralcontainers":
            return list(pod_ephemeral_containers(obj, old))
        return list(pod_resize(obj, old, qos_class)) if subresource == "resize" else []

    def grace_period(self, obj: Tree, requested: int | None) -> int | None:
        """Return 0 for a pod that runs nowhere."""
        spec = obj["spec"]
        period = requested if requested is not None else spec.get("terminationGracePeriodSeconds", 0)
        if not spec.get("nodeName") or dig(obj, "status", "phase") in ("Failed", "Succeeded"):
            return 0
        return 1 if period < 0 else int(period)

    def select(self, obj: Tree) -> tuple[str, ...]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return (
            spec.get("nodeName", ""),
            spec.get("restartPolicy", ""),
            spec.get("schedulerName", ""),
            spec.get("serviceAccountName", ""),
            "true" if spec.get("hostNetwork") else "false",
            status.get("phase", ""),
            status.get("podIP", ""),
            ",".join(ip.get("ip", "") for ip in status.get("podIPs") or ()),
            status.get("nominatedNodeName", ""),
        )


def _gated(write: Write) -> Tree:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": write.api.now(),
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


# ---- label keys -----------------------------------------------------------------------------------


def _merge_label_keys(spec: Tree, labels: Tree) -> None:
    """Add the values of this pod's labels to the selectors of terms with label keys."""
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_keys(constraint, labels)
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_keys(term, labels)
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_keys(weighted.get("podAffinityTerm") or {}, labels)


def _merge_keys(term: Tree, labels: Tree) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for key in term.get(name) or ()
            if key in labels
        ]
        if added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


# ---- resizing -------------------------------------------------------------------------------------


def _resized(spec: Tree, old: Tree) -> Tree:
    """Return the old spec with the new resources. Containers that differ are left for validation."""
    kinds = ("containers", "initContainers")
    if any(_names(spec.get(kind)) != _names(old.get(kind)) for kind in kinds):
        return spec
    result = dict(old)
    keep(result, spec, "resources")
    for kind in kinds:
        if old.get(kind):
            result[kind] = [
                _with_resources(before, now) for before, now in zip(old[kind], spec[kind], strict=True)
            ]
    return result


def _names(containers: Sequence[Tree] | None) -> list[str]:
    return [container.get("name", "") for container in containers or ()]


def _with_resources(before: Tree, now: Tree) -> Tree:
    container = dict(before)
    keep(container, now, "resources")
    keep(container, now, "resizePolicy")
    return container


# ---- quality of service ---------------------------------------------------------------------------


def qos_class(obj: Tree) -> str:
    """Guaranteed if all containers limit and request the same cpu and memory; BestEffort without any."""
    spec = obj.get("spec") or {}
    if (spec.get("resources") or {}).get("requests") or (spec.get("resources") or {}).get("limits"):
        return _qos_of([spec])
    return _qos_of([*(spec.get("containers") or ()), *(spec.get("initContainers") or ())])


def _qos_of(holders: Sequence[Tree]) -> str:
    any_resource, guaranteed = False, bool(holders)
    for holder in holders:
        resources = holder.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = requests.get(name), limits.get(name)
            any_resource = any_resource or _positive(request) or _positive(limit)
            if not _positive(limit) or (request is not None and request != limit):
                guaranteed = False
    if not any_resource:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(quantity: object) -> bool:
    return quantity is not None and quantity != "0"
