"""SchedulingGates: a pod with gates does not enter the queue."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, unresolvable


class SchedulingGates(Plugin):
    """Keeps a pod back until the last entry of spec.schedulingGates is removed."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(
            Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, self._after_gates_removed
        )

    def _after_gates_removed(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP
