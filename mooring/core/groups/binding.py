"""Binding a gang: a barrier before the first binding request, and requests that are repeated in place.

No member is bound before so many have passed pre_bind that the gang has its quorum. From then on a request
that fails is repeated while the member keeps its room, since a gang that runs in part is worth nothing.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mooring.core.binding import BindingCycle
from mooring.core.effects import Bind
from mooring.core.groups.plan import ASKED_TO_WAIT, GROUP_UNSCHEDULABLE
from mooring.framework.pod import GroupKey
from mooring.framework.status import Code, Status
from mooring.plugins.gang_scheduling import GangScheduling

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

MOST_RETRIES = 12
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between two requests

WITHDRAWN = Status(Code.UNSCHEDULABLE, GROUP_UNSCHEDULABLE, GangScheduling.WAITING.message, ASKED_TO_WAIT)


class GroupBinding:
    """The members of groups that were started together. So many of each group as are `needed` must be ready
    before any is bound."""

    def __init__(
        self, cycles: Sequence[BindingCycle], needed: Mapping[GroupKey, int], opened: Callable[[], None]
    ) -> None:
        self.cycles = {cycle.pod.uid: cycle for cycle in cycles}  # those that have not failed
        self.opened = opened
        self.ready: list[BindingCycle] = []
        self._lacking = {group: count for group, count in needed.items() if count > 0}
        self._spare = Counter(cycle.pod.group for cycle in cycles)  # how many may fail
        self._spare.subtract(self._lacking)

    @property
    def is_open(self) -> bool:
        return not self._lacking

    def add_ready(self, cycle: BindingCycle) -> None:
        """Count a member that may be bound once the barrier is open."""
        self.ready.append(cycle)
        group = cycle.pod.group
        if group in self._lacking:
            self._lacking[group] -= 1
            if not self._lacking[group]:
                del self._lacking[group]

    def give_up(self, cycle: BindingCycle) -> bool:
        """Leave out a member that failed; whether that closes the barrier for good."""
        if self.cycles.pop(cycle.pod.uid, None) is None or self.is_open:
            return False
        self._spare[cycle.pod.group] -= 1
        return self._spare[cycle.pod.group] < 0


class GroupBindings:
    """Carries the members of groups through their barriers."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._retries: list[tuple[float, int, BindingCycle]] = []  # a heap by time
        self._count = 0

    def prepared(self, cycle: BindingCycle, status: Status) -> None:
        """A member has run its pre_bind."""
        binding: GroupBinding = cycle.group
        uid = cycle.pod.uid
        if uid not in binding.cycles:  # withdrawn with the others
            return
        if status.ok and not self._lost(cycle):
            was_open = binding.is_open
            binding.add_ready(cycle)
            if was_open:
                self._scheduler.effects.append(Bind(cycle))
            elif binding.is_open:
                self._open(binding)
            return
        self.left(cycle)
        self._scheduler.bindings.fail(cycle, self._gone(cycle) if status.ok else status)
        if status.ok and cycle.pod.group is not None:  # the plan was overtaken, so another is made at once
            pods = self._scheduler.members.pods(cycle.pod.group)
            self._scheduler.queue.activate(pod for pod in pods if not pod.node_name)

    def _open(self, binding: GroupBinding) -> None:
        self._scheduler.effects.extend(Bind(cycle) for cycle in binding.ready)
        binding.opened()

    def left(self, cycle: BindingCycle) -> None:
        """A member will not be bound: where the quorum cannot be reached without it, none is."""
        binding: GroupBinding | None = cycle.group
        if binding is None or not binding.give_up(cycle):
            return
        others, binding.cycles = list(binding.cycles.values()), {}
        for other in others:
            self._scheduler.bindings.withdraw(other, WITHDRAWN)

    def _lost(self, cycle: BindingCycle) -> bool:
        """Whether a member has nothing left to be bound, or nowhere."""
        pod = self._scheduler.intake.pod(cycle.pod.uid)
        gone = pod is None or pod.terminating or not self._scheduler.cluster.is_assumed(cycle.pod.uid)
        return gone or self._scheduler.cluster.node(cycle.node_name) is None

    def _gone(self, cycle: BindingCycle) -> Status:
        return Status(Code.ERROR, f'node "{cycle.node_name}" not found')

    def retries(self, cycle: BindingCycle) -> bool:
        """Whether a binding request that failed is repeated; the member keeps its room meanwhile."""
        if cycle.group is None or not cycle.prepared or cycle.retries >= MOST_RETRIES or self._lost(cycle):
            return False
        pause = min(FIRST_PAUSE * 2**cycle.retries, LONGEST_PAUSE)
        cycle.retries += 1
        self._count += 1
        heapq.heappush(self._retries, (self._scheduler.clock() + pause, self._count, cycle))
        return True

    def tick(self, now: float) -> None:
        while self._retries and self._retries[0][0] <= now:
            cycle = heapq.heappop(self._retries)[2]
            if self._lost(cycle):
                self._scheduler.bindings.fail(cycle, self._gone(cycle))
            else:
                self._scheduler.effects.append(Bind(cycle))

    def next_time(self) -> float | None:
        return self._retries[0][0] if self._retries else None
