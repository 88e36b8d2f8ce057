"""A scheduling queue on a clock that stands still until a test moves it, and pods for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from mooring.api.meta import ObjectMeta
from mooring.api.objects import (
    Container,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
)
from mooring.core.queue import QueuedPodInfo, SchedulingQueue, SortKey
from mooring.core.queue.hints import ProfileHints
from mooring.core.queue.scheduling_queue import PreEnqueue
from mooring.framework.events import Action, ClusterEvent, EventHint, Hint, Resource, requeue_on
from mooring.framework.pod import PodInfo, Shapes
from mooring.framework.status import Status, unresolvable
from mooring.plugins.priority_sort import PrioritySort

PROFILE = "default-scheduler"
NODE_TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
NODE_ANNOTATION = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ANNOTATION)
FIT = {"Fit": [requeue_on(Resource.NODE, Action.ADD)]}
_SHAPES = Shapes()


def info(pod: Pod) -> PodInfo:
    return PodInfo.of(pod, _SHAPES.of(pod))


def make_pod(
    name: str,
    *,
    uid: str = "",
    priority: int = 0,
    labels: dict[str, str] | None = None,
    cpu: str = "",
    node: str = "",
    nominated: str = "",
    gates: Iterable[str] = (),
    tolerations: int = 0,
    profile: str = PROFILE,
) -> PodInfo:
    requests: dict[str, str | int | float] = {"cpu": cpu} if cpu else {}
    spec = PodSpec(
        priority=priority,
        node_name=node,
        scheduler_name=profile,
        scheduling_gates=[PodSchedulingGate(name=gate) for gate in gates],
        tolerations=[Toleration(key=f"t{i}") for i in range(tolerations)],
        containers=[Container(name="c", resources=ResourceRequirements(requests=requests))],
    )
    meta = ObjectMeta(name=name, namespace="ns", uid=uid or f"uid-{name}", labels=labels or {})
    return info(Pod(metadata=meta, spec=spec, status=PodStatus(nominated_node_name=nominated)))


def changed(pod: PodInfo, **spec: Any) -> PodInfo:
    """The same pod with other fields in its spec."""
    return info(msgspec.structs.replace(pod.pod, spec=msgspec.structs.replace(pod.spec, **spec)))


class Asked:
    """A hint that answers as told and counts how often it was asked."""

    def __init__(self, answer: Hint | Exception = Hint.QUEUE) -> None:
        self.answer = answer
        self.count = 0

    def __call__(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        self.count += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Gate:
    """A pre_enqueue that refuses the pods named, for the plugin given."""

    def __init__(self, **refused: str) -> None:
        self.refused = refused
        self.not_before: float | None = None
        self.asked = 0

    def __call__(self, pod: PodInfo) -> Status | None:
        self.asked += 1
        plugin = self.refused.get(pod.name)
        return unresolvable("gated", not_before=self.not_before).by(plugin) if plugin else None


class Bench:
    """A queue, its clock, and what it told its observer."""

    def __init__(
        self,
        *,
        now: float = 1000.0,
        sort_key: SortKey = PrioritySort.sort_key,
        pre_enqueue: PreEnqueue | None = None,
        hints: dict[str, list[EventHint]] | None = None,
        **options: Any,
    ) -> None:
        self.now = now
        self.observed: Counter[tuple[str, str]] = Counter()
        by_profile: dict[str, ProfileHints] = {PROFILE: hints or {}}
        self.queue = SchedulingQueue(
            sort_key,
            clock=lambda: self.now,
            pre_enqueue={} if pre_enqueue is None else {PROFILE: pre_enqueue},
            hints=by_profile,
            observe=self._observe,
            **options,
        )

    def _observe(self, queue: str, event: str) -> None:
        self.observed[queue, event] += 1

    def add(self, *pods: PodInfo) -> None:
        for pod in pods:
            self.queue.add(pod)
            self.queue.validate()

    def pop(self) -> QueuedPodInfo:
        queued = self.queue.pop()
        assert queued is not None, "nothing to pop"
        self.queue.validate()
        return queued

    def pop_names(self) -> list[str]:
        """Everything that can be popped now, in order; all of it stays in flight."""
        names = []
        while (queued := self.queue.pop()) is not None:
            names.append(queued.pod.name)
        return names

    def fail(
        self,
        queued: QueuedPodInfo,
        *plugins: str,
        pending: Iterable[str] = (),
        not_before: float | None = None,
    ) -> None:
        """The attempt failed: refused by plugins, or in error where there are none."""
        queued.refused_by(plugins, pending, not_before)
        self.queue.add_unschedulable_if_not_present(queued, self.now)
        self.queue.validate()

    def refused(self, pod: PodInfo, *plugins: str, **how: Any) -> QueuedPodInfo:
        """A new pod whose first attempt was refused."""
        self.add(pod)
        queued = self.pop()
        assert queued.pod is pod, f"another pod came first: {queued}"
        self.fail(queued, *plugins, **how)
        return queued

    def flush_at(self, now: float) -> None:
        self.now = now
        self.queue.flush(now)
        self.queue.validate()

    def places(self) -> dict[str, int]:
        """The queues that are not empty."""
        return {name: count for name, count in self.queue.counts().items() if count}
