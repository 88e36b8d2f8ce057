"""Pods that wait for an event, for a time that a plugin named, or for the wait to have lasted too long."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from mooring.core.queue.hints import Plan, Registrations, Rejectors
from mooring.core.queue.lazy_heap import LazyHeap, Tickets
from mooring.core.queue.queued_pod import Place, QueuedPodInfo
from mooring.framework.events import ClusterEvent
from mooring.framework.pod import GroupKey

TIMEOUT_PERIOD = 30.0  # seconds between two looks for pods that have waited for too long


class Group:
    """The pods refused, and perhaps gated, by the same plugins: an event means the same to all of them."""

    __slots__ = ("gating_plugin", "members", "pods", "rejectors")

    def __init__(self, rejectors: Rejectors, gating_plugin: str) -> None:
        self.rejectors = rejectors
        self.gating_plugin = gating_plugin
        self.pods: dict[str, QueuedPodInfo] = {}
        self.members: dict[GroupKey, dict[str, QueuedPodInfo]] = {}  # those that belong to a PodGroup

    def add(self, queued: QueuedPodInfo) -> None:
        self.pods[queued.pod.key] = queued
        if queued.pod.group is not None:
            self.members.setdefault(queued.pod.group, {})[queued.pod.key] = queued

    def remove(self, queued: QueuedPodInfo) -> None:
        del self.pods[queued.pod.key]
        if queued.pod.group is not None:
            members = self.members[queued.pod.group]
            del members[queued.pod.key]
            if not members:
                del self.members[queued.pod.group]


class UnschedulablePool:
    """Pods out of the race until something happens.

    Kept in groups, so that an event costs nothing for pods whose refusing plugins did not register for it.
    """

    __slots__ = (
        "_age_limit",
        "_registrations",
        "_start",
        "_ticks",
        "_timed",
        "gated",
        "groups",
        "unschedulable",
    )

    def __init__(
        self, registrations: Registrations, tickets: Tickets, start: float, age_limit: float
    ) -> None:
        """Pods older than `age_limit` are found by looks that happen every 30 s from `start` on."""
        self._registrations = registrations
        self._start = start
        self._age_limit = age_limit
        self.groups: dict[tuple[Rejectors, str], Group] = {}
        self._timed = LazyHeap(tickets)  # pods that named a time, by that time
        self._ticks: dict[int, dict[str, QueuedPodInfo]] = {}  # all pods, by the look that finds them too old
        self.unschedulable = 0
        self.gated = 0

    def enter(self, queued: QueuedPodInfo) -> None:
        key = queued.pod.key
        rejectors = self._registrations.rejectors_of(queued)
        group = self.groups.get((rejectors, queued.gating_plugin))
        if group is None:
            group = self.groups[rejectors, queued.gating_plugin] = Group(rejectors, queued.gating_plugin)
        group.add(queued)
        queued.group = group
        queued.timeout_tick = tick = self._tick_after(max(queued.timestamp, queued.flush_timestamp))
        self._ticks.setdefault(tick, {})[key] = queued
        if queued.not_before is not None:
            self._timed.push(queued.not_before, queued)
        if queued.gating_plugin:
            self.gated += 1
        else:
            self.unschedulable += 1
        queued.place = Place.UNSCHEDULABLE

    def leave(self, queued: QueuedPodInfo) -> None:
        key = queued.pod.key
        group = queued.group
        assert group is not None, f"not in the unschedulable pool: {queued}"
        queued.group = None
        group.remove(queued)
        if not group.pods:
            del self.groups[group.rejectors, group.gating_plugin]
        due = self._ticks[queued.timeout_tick]
        del due[key]
        if not due:
            del self._ticks[queued.timeout_tick]
        if queued.ticket:
            self._timed.discard(queued)
        if group.gating_plugin:
            self.gated -= 1
        else:
            self.unschedulable -= 1
        queued.place = Place.OUTSIDE

    def concerned(self, event: ClusterEvent, old: Any, new: Any) -> list[tuple[QueuedPodInfo, Plan]]:
        """The pods that an event may bring back, and how to decide.

        A gated pod would not get past its gating plugin, unless that one registered for the event.
        """
        everyone = event.wildcard
        interested = self._registrations.interested(event)
        pairs: list[tuple[QueuedPodInfo, Plan]] = []
        for group in self.groups.values():
            if group.gating_plugin and group.gating_plugin not in interested and not everyone:
                continue
            plan = group.rejectors.plan(event)
            if plan.futile:
                continue
            keys = plan.groups(old, new)
            if keys is None:
                pairs.extend((queued, plan) for queued in group.pods.values())
            else:
                for key in keys & group.members.keys():
                    pairs.extend((queued, plan) for queued in group.members[key].values())
        return pairs

    def due(self, now: float) -> QueuedPodInfo | None:
        """A pod whose named time has come."""
        queued = self._timed.peek()
        return queued if queued is not None and queued.heap_key <= now else None

    def too_old(self, now: float) -> list[QueuedPodInfo]:
        """The pods that a look at this time finds to have waited for too long."""
        ticks = sorted(tick for tick in self._ticks if self._time_of(tick) <= now)
        return [queued for tick in ticks for queued in self._ticks[tick].values()]

    def next_wake(self) -> float:
        """The earliest time at which a pod is due or too old."""
        timed = self._timed.peek()
        wake = math.inf if timed is None else timed.heap_key
        return min(wake, self._time_of(min(self._ticks))) if self._ticks else wake

    def _time_of(self, tick: int) -> float:
        return self._start + tick * TIMEOUT_PERIOD

    def _tick_after(self, entered: float) -> int:
        """The first look at which a pod that entered then is older than the limit."""
        limit = entered + self._age_limit
        tick = math.floor((limit - self._start) / TIMEOUT_PERIOD) + 1
        return tick if self._time_of(tick) > limit else tick + 1

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (queued for group in self.groups.values() for queued in group.pods.values())

    def validate(self) -> None:
        """Raise AssertionError where a pod is not filed as it should be."""
        pods = list(self)
        for queued in pods:
            group = queued.group
            assert group is not None, f"in the pool without a group: {queued}"
            assert group.pods.get(queued.pod.key) is queued, f"in another group than it says: {queued}"
            assert group.rejectors is self._registrations.rejectors_of(queued), f"wrong rejectors: {queued}"
            assert group.gating_plugin == queued.gating_plugin, f"wrong gate {group.gating_plugin}: {queued}"
            assert queued.pod.key in self._ticks[queued.timeout_tick], f"never times out: {queued}"
            timed = bool(queued.ticket)
            assert timed == (queued.not_before is not None), f"timed={timed} against not_before: {queued}"
        gated = sum(1 for queued in pods if queued.gated)
        assert (self.gated, self.unschedulable) == (gated, len(pods) - gated), "miscounted gated pods"
        assert sum(map(len, self._ticks.values())) == len(pods), f"stray pods in {self._ticks}"
        assert self._timed.size == sum(1 for _ in self._timed), "miscounted timed pods"
        assert all(group.pods for group in self.groups.values()), "an empty group is kept"
        listed = sum(len(m) for group in self.groups.values() for m in group.members.values())
        assert listed == sum(q.pod.group is not None for q in pods), "miscounted members of PodGroups"
