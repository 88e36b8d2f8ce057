"""Cells of pods: a summary of their containers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.ages import Ages
from mooring.sandbox.apiserver.printing.columns import Printer
from mooring.sandbox.apiserver.printing.shared_cells import NONE, holds

_ENDED: Final = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


class _Restarts:
    """The number of restarts, and when a container terminated last."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def add(self, container: Tree) -> None:
        self.count += container.get("restartCount", 0)
        ended = dig(container, "lastState", "terminated", "finishedAt") or ""
        self.last = max(self.last, ended)  # times of this form sort as texts


class Containers:
    """The containers of a pod: how many are ready, their restarts, and the reason to show."""

    def __init__(self, pod: Tree) -> None:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        init = spec.get("initContainers") or ()
        self._init_count = len(init)
        self._sidecars = {one["name"] for one in init if one.get("restartPolicy") == "Always"}
        self._sidecar_restarts = _Restarts()
        self._conditions: list[Tree] = status.get("conditions") or []
        self.total = len(spec.get("containers") or ()) + len(self._sidecars)
        self.ready = 0
        self.restarts = _Restarts()
        self.reason = self._first_reason(status)
        initialized = self._look_at_init(status.get("initContainerStatuses") or ())
        if initialized or holds(self._conditions, "Initialized"):
            self._look_at(status.get("containerStatuses") or [])

    def _first_reason(self, status: Tree) -> str:
        for condition in self._conditions:
            if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
                return "SchedulingGated"
        reason: str = status.get("reason") or status.get("phase") or ""
        return reason

    def _look_at_init(self, statuses: Iterable[Tree]) -> bool:
        """Whether all init containers have completed; else the first that has not sets the reason."""
        for index, container in enumerate(statuses):
            sidecar = container.get("name") in self._sidecars
            self.restarts.add(container)
            if sidecar:
                self._sidecar_restarts.add(container)
            ended = dig(container, "state", "terminated")
            if ended is not None and ended.get("exitCode", 0) == 0:
                continue
            if sidecar and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            self.reason = "Init:" + self._init_reason(container, index)
            return False
        return True

    def _init_reason(self, container: Tree, index: int) -> str:
        ended = dig(container, "state", "terminated")
        if ended is not None:
            return _end_reason(ended)
        waiting: str = dig(container, "state", "waiting", "reason") or ""
        return waiting if waiting not in ("", "PodInitializing") else f"{index}/{self._init_count}"

    def _look_at(self, statuses: list[Tree]) -> None:
        """The first container that has a reason sets it, unless another one is running."""
        self.restarts = self._sidecar_restarts
        running, failure = False, ""
        for container in reversed(statuses):
            self.restarts.add(container)
            state = container.get("state") or {}
            waiting, ended = dig(state, "waiting", "reason"), state.get("terminated")
            if waiting:
                self.reason = waiting
            elif ended is not None:
                self.reason = _end_reason(ended)
                if ended.get("exitCode", 0) != 0:
                    failure = self.reason
            elif container.get("ready") and "running" in state:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and holds(self._conditions, "Ready"):
                self.reason = "Running"
            elif failure or running:
                self.reason = failure or "NotReady"


def _end_reason(ended: Tree) -> str:
    reason: str = ended.get("reason") or ""
    signal = ended.get("signal", 0)
    return reason or (f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}")


class PodPrinter(Printer):
    """Examines the containers once, and passes the result to the columns as a member of the pod."""

    def cells(self, obj: Tree, ages: Ages) -> list[Any]:
        return super().cells({**obj, "containers": Containers(obj)}, ages)

    def conditions(self, obj: Tree) -> list[Tree]:
        phase = dig(obj, "status", "phase")
        if phase not in _ENDED:
            return []
        return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


def ready_containers(containers: Containers) -> str:
    return f"{containers.ready}/{containers.total}"


def pod_status(pod: Tree) -> str:
    containers: Containers = pod["containers"]
    if "deletionTimestamp" in pod["metadata"]:
        if dig(pod, "status", "reason") == "NodeLost":
            return "Unknown"
        if dig(pod, "status", "phase") not in _ENDED:
            return "Terminating"
    return containers.reason


def pod_address(addresses: list[Tree] | None) -> str:
    return (addresses[0].get("ip") if addresses else "") or NONE


def readiness_gates(pod: Tree) -> str:
    gates = dig(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    conditions = dig(pod, "status", "conditions")
    passed = sum(holds(conditions, gate.get("conditionType", "")) for gate in gates)
    return f"{passed}/{len(gates)}"
