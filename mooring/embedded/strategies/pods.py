"""Pods: graceful deletion, generations, what their status keeps."""

from __future__ import annotations

from mooring.embedded.kinds.strategy import Strategy, keep
from mooring.embedded.objects import Tree, dig
from mooring.embedded.verbs.write import Write


class PodStrategy(Strategy):
    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj)}
        if dig(obj, "spec", "schedulingGates"):
            obj["status"]["conditions"] = [_gated(write)]

    def prepare_status(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_status(write, obj, old)
        keep(obj["metadata"], old["metadata"], "ownerReferences")
        status, before = obj.setdefault("status", {}), old.get("status", {})
        for name in ("qosClass", "observedGeneration"):
            if not status.get(name) and name in before:
                status[name] = before[name]

    def grace_period(self, obj: Tree, asked: int | None) -> int | None:
        """None once a pod runs nowhere: nobody would have to stop it."""
        spec = obj["spec"]
        period = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 0)
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


def qos_class(obj: Tree) -> str:
    """Guaranteed where all containers limit and request the same cpu and memory; BestEffort without any."""
    spec = obj.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    any_resource, guaranteed = False, bool(containers)
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            asked, limit = requests.get(name), limits.get(name)
            any_resource = any_resource or _positive(asked) or _positive(limit)
            if not _positive(limit) or (asked is not None and asked != limit):
                guaranteed = False
    if not any_resource:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(quantity: object) -> bool:
    return quantity is not None and quantity != "0"
