"""Trials of preemption: would the group start if these pods were gone?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from mooring.core.groups.plan import Plan
from mooring.core.groups.room import Room
from mooring.core.queue import QueuedPodInfo
from mooring.framework.nodes import BoolArray
from mooring.framework.pod import PodInfo, Shape

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler


class Trial(Protocol):
    """A state of the cluster from which pods are removed, and to which they are put back."""

    most_checks: int  # how often `fits` may be asked to improve a set of victims

    def remove(self, pod: PodInfo) -> None: ...

    def put_back(self, pod: PodInfo) -> None: ...

    def fits(self) -> bool:
        """Whether the group starts in this state."""
        ...

    def nodes(self) -> Mapping[str, str]:
        """The node that each member would get, by uid, in a state in which the group starts."""
        ...


class PlannedTrial:
    """Plans the group in the state as it would be. Works for all groups, and takes a plan for each answer."""

    most_checks = 300

    def __init__(self, scheduler: Scheduler, plan: Callable[[], Plan], undo: Callable[[Plan], None]) -> None:
        self._cluster = scheduler.cluster
        self._plan = plan
        self._undo = undo
        self._removed: dict[str, PodInfo] = {}

    def remove(self, pod: PodInfo) -> None:
        self._removed[pod.uid] = self._cluster.lift(pod.uid)

    def remove_all(self, pods: Iterable[PodInfo]) -> None:
        for pod in pods:
            self.remove(pod)

    def put_back(self, pod: PodInfo) -> None:
        self._cluster.put_back(self._removed.pop(pod.uid))

    def restore(self) -> None:
        for pod in list(self._removed.values()):
            self.put_back(pod)

    def fits(self) -> bool:
        return bool(self._planned())

    def nodes(self) -> Mapping[str, str]:
        return self._planned()

    def _planned(self) -> Mapping[str, str]:
        plan = self._plan()
        self._undo(plan)
        if not plan.status.ok:
            return {}
        return {m.cycle.pod.uid: m.cycle.node_name for m in plan.members if m.cycle is not None}


class CountedTrial:
    """Counts how many equal members the nodes take, where only resources limit that."""

    most_checks = 20_000

    def __init__(
        self,
        scheduler: Scheduler,
        room: Room,
        within: BoolArray | None,
        members: Sequence[QueuedPodInfo],
        needed: int,
    ) -> None:
        passing = room.passing if within is None else room.passing & within
        self._table = scheduler.cluster.table
        self._room = room
        self._members = members
        self._needed = needed
        self.capacities: list[int] = (room.capacities() * passing).tolist()
        self._passing: list[bool] = passing.tolist()
        self._requests: list[int] = room.requests.tolist()
        self._free: list[list[int]] = room.free.T.tolist()
        self._taken: dict[Shape, list[int]] = {}
        self._removed_from: dict[int, int] = {}  # row → how many pods
        self._total: int = sum(self.capacities)

    def row(self, pod: PodInfo) -> int | None:
        """The row of a pod whose removal can matter."""
        row = self._table.row_of.get(pod.node_name)
        return row if row is not None and self._passing[row] else None

    def taken(self, pod: PodInfo) -> list[int]:
        taken = self._taken.get(pod.shape)
        if taken is None:
            vector = self._table.footprint(pod.shape).vector
            taken = self._taken[pod.shape] = vector[self._room.lines].tolist()
        return taken

    def share(self, pod: PodInfo) -> float:
        """How much of a member's requests a pod takes."""
        return max(taken / wanted for taken, wanted in zip(self.taken(pod), self._requests, strict=True))

    def capacities_without(self, row: int, pods: Iterable[PodInfo]) -> Iterator[int]:
        """How many members a row takes as these pods leave it one after another."""
        free, requests = self._free[row], self._requests
        for pod in pods:
            free = [f + t for f, t in zip(free, self.taken(pod), strict=True)]
            yield max(min([f // r for f, r in zip(free, requests, strict=True)]), 0)

    def remove(self, pod: PodInfo) -> None:
        self._change(pod, 1)

    def put_back(self, pod: PodInfo) -> None:
        self._change(pod, -1)

    def _change(self, pod: PodInfo, sign: int) -> None:
        row = self.row(pod)
        if row is None:
            return
        free = [f + sign * t for f, t in zip(self._free[row], self.taken(pod), strict=True)]
        self._free[row] = free
        capacity = max(min([f // r for f, r in zip(free, self._requests, strict=True)]), 0)
        self._total += capacity - self.capacities[row]
        self.capacities[row] = capacity
        self._removed_from[row] = self._removed_from.get(row, 0) + sign

    @property
    def lacking(self) -> int:
        """How many more places the group needs."""
        return self._needed - self._total

    def fits(self) -> bool:
        return self._total >= self._needed

    def nodes(self) -> Mapping[str, str]:
        """Members keep nodes that they are nominated to; rooms that victims leave come before others."""
        left = list(self.capacities)
        nodes: dict[str, str] = {}
        for queued in self._members:
            name = queued.pod.status.nominated_node_name
            row = self._table.row_of.get(name) if name else None
            if row is not None and left[row]:
                left[row] -= 1
                nodes[queued.pod.uid] = name
        others = (queued.pod.uid for queued in self._members if queued.pod.uid not in nodes)
        nodes.update(zip(others, self._places(left), strict=False))
        return nodes

    def _places(self, left: Sequence[int]) -> Iterable[str]:
        rows = [row for row, count in enumerate(left) if count]
        for row in sorted(rows, key=lambda row: not self._removed_from.get(row)):
            for _ in range(left[row]):
                yield self._table.names[row]
