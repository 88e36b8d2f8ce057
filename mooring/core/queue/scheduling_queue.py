"""The scheduling queue: a state machine without I/O, threads or a clock of its own.

    add ──▶ active ──pop──▶ in flight ──▶ done
              ▲  ▲             │
              │  │             │ add_unschedulable_if_not_present
              │  └─ backoff ◀──┤   (an error, or a refusal that an event meanwhile may have lifted)
              │        ▲       ▼
              └────────┴── unschedulable (an event, a named time, or five minutes bring it back)

Whatever enters active or backoff passes the pre_enqueue plugins; a pod that one of them refuses waits in
the unschedulable pool as gated. Pods are known by namespace/name while they queue and by UID while they are
in flight, so a pod that is deleted and created again under its name is not confused with the old one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

from mooring.core.event_map import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_POD_UPDATE,
    UNSCHEDULABLE_TIMEOUT,
    pod_update_events,
)
from mooring.core.nominator import Nominator
from mooring.core.queue.backoff import Backoff
from mooring.core.queue.hints import ProfileHints, Registrations, Strategy, TimeHint
from mooring.core.queue.in_flight import InFlight
from mooring.core.queue.lazy_heap import LazyHeap, Tickets
from mooring.core.queue.queued_pod import NO_PLUGINS, Place, QueuedPodInfo
from mooring.core.queue.sorting import SortKey
from mooring.core.queue.unschedulable import UnschedulablePool
from mooring.framework.events import ClusterEvent
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status

PreEnqueue = Callable[[PodInfo], Status | None]
Observe = Callable[[str, str], None]

# What metrics call the reasons to enter a queue that are no cluster events.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
NOT_BEFORE = "NotBefore"
_ADDED = UNSCHEDULABLE_POD_ADD.name
_UPDATED = UNSCHEDULABLE_POD_UPDATE.name
_ACTIVATED = FORCE_ACTIVATE.name

_ACTIVE = Place.ACTIVE
_BACKOFF = Place.BACKOFF
_ERROR_BACKOFF = Place.ERROR_BACKOFF
_UNSCHEDULABLE = Place.UNSCHEDULABLE
_IN_FLIGHT = Place.IN_FLIGHT
_OUTSIDE = Place.OUTSIDE


class SchedulingQueue:
    """The pods to be scheduled, in order, and those that wait for a better time.

    `pre_enqueue` and `hints` are by profile (the pods' schedulerName); `hints` has the registrations by
    plugin. `observe(queue, event)` is called for each pod that enters the active, backoff or unschedulable
    queue; `time_hint(plugin, event, hint)` may wrap a plugin's hint. A pod that is `still_refused`, whatever
    its plugins hope for, stays where it is after an event.
    """

    def __init__(
        self,
        sort_key: SortKey,
        *,
        clock: Callable[[], float],
        pre_enqueue: Mapping[str, PreEnqueue] | None = None,
        hints: Mapping[str, ProfileHints] | None = None,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_in_unschedulable: float = 300.0,
        nominator: Nominator | None = None,
        observe: Observe | None = None,
        time_hint: TimeHint | None = None,
        still_refused: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        self.nominator = Nominator() if nominator is None else nominator
        self.scheduling_cycle = 0  # how many pods have been popped
        self._sort_key = sort_key
        self._clock = clock
        self._pre_enqueue = dict(pre_enqueue or {})
        self._registrations = Registrations(hints or {}, time_hint)
        self._backoff = Backoff(initial_backoff, max_backoff)
        self._observe = observe
        self._still_refused = still_refused
        self._queued: dict[str, QueuedPodInfo] = {}  # all but those in flight
        tickets = Tickets()
        self._active = LazyHeap(tickets)
        self._backing_off = LazyHeap(tickets)
        self._error_backing_off = LazyHeap(tickets)
        self._pool = UnschedulablePool(self._registrations, tickets, clock(), max_in_unschedulable)
        self._in_flight = InFlight()

    # ---- pods come, change and go

    def add(self, pod: PodInfo) -> None:
        """A pending pod appeared. One that is known already, as after a new list, is an update."""
        if pod.key in self._queued or pod.uid in self._in_flight.pods:
            self.update(None, pod)
        else:
            self._admit(pod, _ADDED)

    def update(self, old: PodInfo | None, new: PodInfo) -> None:
        """A pending pod's object changed; one that the queue has never seen is added."""
        flying = self._in_flight.pods.get(new.uid)
        if flying is not None:
            # It may come back refused, and then this change may be what it waits for.
            before = flying.pod if old is None else old
            self._in_flight.record_for(new.uid, pod_update_events(before, new), before, new)
            self.nominator.refresh(new)
            return
        queued = self._queued.get(new.key)
        if queued is None:
            self._admit(new, _UPDATED)
            return
        before = queued.pod if old is None else old
        self.nominator.update(before, new)
        if queued.place is _UNSCHEDULABLE:
            self._update_unschedulable(queued, before, new)
        else:
            self._update_in_heap(queued, new)

    def delete(self, pod: PodInfo) -> None:
        """A pending pod is gone or has a node. One in flight stays so until it is done.

        A late event of a deleted pod must not remove the new pod of that name.
        """
        self.nominator.delete(pod.uid)
        queued = self._queued.get(pod.key)
        if queued is not None and queued.pod.uid == pod.uid:
            self._take_out(queued)
            del self._queued[pod.key]

    def _admit(self, pod: PodInfo, label: str) -> None:
        now = self._clock()
        queued = QueuedPodInfo(pod, now)
        self._queued[pod.key] = queued
        if self._to_active(queued, label, now) and pod.pod.status.nominated_node_name:
            self.nominator.add(pod)

    def _update_in_heap(self, queued: QueuedPodInfo, new: PodInfo) -> None:
        """Replace a pod in the active or a backoff queue, where it may now come earlier or later."""
        queued.pod = new
        heap, key = self._heap_and_key(queued)
        if key != queued.heap_key:
            heap.discard(queued)
            heap.push(key, queued)

    def _update_unschedulable(self, queued: QueuedPodInfo, old: PodInfo, new: PodInfo) -> None:
        """Replace a waiting pod, and bring it back if the change is what a refusing plugin waits for."""
        if new.scheduler_name == old.scheduler_name and new.group == queued.pod.group:
            queued.pod = new
        else:  # created again under its name, for another profile or group, which waits for other events
            self._pool.leave(queued)
            queued.pod = new
            self._pool.enter(queued)
        now = self._clock()
        for event in pod_update_events(old, new):
            strategy = self._registrations.rejectors_of(queued).plan(event).decide(new, old, new)
            if strategy is not Strategy.SKIP:
                self._pool.leave(queued)
                if self._requeue(queued, strategy, event.name, now, waited=True) is not _UNSCHEDULABLE:
                    return

    # ---- scheduling

    def pop(self) -> QueuedPodInfo | None:
        """The next pod to schedule; it is in flight until `done` or `add_unschedulable_if_not_present`.

        With nothing active, a refused pod is tried before its backoff ends: backoff is there to let others
        go first. A pod that failed with an error waits, as what failed may need the time.
        """
        flying = self._in_flight.pods
        while True:
            queued = self._active.pop()
            if queued is None:
                queued = self._backing_off.pop()
                if queued is None:
                    return None
                if self._observe is not None:
                    self._observe("active", POP_FROM_BACKOFF)
            pod = queued.pod
            if pod.uid in flying:  # the same pod twice: this one is of no use
                del self._queued[pod.key]
                queued.place = _OUTSIDE
                continue
            self._start(queued)
            return queued

    def peek(self) -> QueuedPodInfo | None:
        """The pod that `pop` would return."""
        return self._active.peek() or self._backing_off.peek()

    def pop_specific(self, pod: PodInfo) -> QueuedPodInfo | None:
        """Pop this pod from any of the queues; None if it is not queued or pre_enqueue keeps it out."""
        queued = self._queued.get(pod.key)
        if queued is None or queued.pod.uid != pod.uid:
            return None
        self.activate((pod,))
        if queued.place is not _ACTIVE:
            return None
        self._active.discard(queued)
        self._start(queued)
        return queued

    def _start(self, queued: QueuedPodInfo) -> None:
        """Put a pod that left the active queue in flight."""
        del self._queued[queued.pod.key]
        queued.attempts += 1
        queued.unschedulable_plugins = queued.pending_plugins = NO_PLUGINS
        queued.not_before = None
        queued.place = _IN_FLIGHT
        self.scheduling_cycle += 1
        self._in_flight.start(queued)

    def reorder(self, pods: Iterable[PodInfo]) -> None:
        """Sort pods in again whose place in the order has changed."""
        for pod in pods:
            queued = self._queued.get(pod.key)
            if queued is not None and queued.place is not _UNSCHEDULABLE:
                self._update_in_heap(queued, queued.pod)

    def done(self, uid: str) -> None:
        """Finish a popped pod that does not return to the queue: it is being bound, or was deleted."""
        queued = self._in_flight.done(uid)
        if queued is not None:
            queued.place = _OUTSIDE

    def add_unschedulable_if_not_present(self, queued: QueuedPodInfo, now: float) -> Place | None:
        """Take back a pod whose attempt failed, and say where to; see `QueuedPodInfo.refused_by`.

        None if a pod of that name is already in the queue: it was deleted and created again.
        """
        pod = queued.pod
        if pod.key in self._queued:
            self.done(pod.uid)
            return None
        if queued.unschedulable_plugins or queued.pending_plugins:
            queued.unschedulable_count += 1
            queued.consecutive_errors = 0
        else:
            queued.consecutive_errors += 1
            queued.not_before = None
        queued.timestamp = now
        queued.backoff_expiry = None
        queued.was_flushed = queued.activated = False
        queued.flush_timestamp = 0.0
        queued.gating_plugin = ""
        strategy = self._strategy_after_attempt(queued)
        self.done(pod.uid)
        self._queued[pod.key] = queued
        if strategy is Strategy.SKIP:
            self._to_pool(queued, SCHEDULE_ATTEMPT_FAILURE, now)
            return _UNSCHEDULABLE
        return self._requeue(queued, strategy, SCHEDULE_ATTEMPT_FAILURE, now)

    def also_wait_for(self, queued: QueuedPodInfo, plugins: Set[str]) -> None:
        """Have events of these plugins requeue a gated pod, too."""
        self._pool.leave(queued)
        queued.unschedulable_plugins |= plugins
        self._pool.enter(queued)

    def _strategy_after_attempt(self, queued: QueuedPodInfo) -> Strategy:
        """Whether something happened during the attempt that makes another one worth while."""
        if not queued.unschedulable_plugins and not queued.pending_plugins:
            return Strategy.AFTER_BACKOFF
        events = self._in_flight.since_popped(queued.pod.uid)
        if events is None:  # it was declared done before it failed, so what happened since is not known
            return Strategy.AFTER_BACKOFF
        rejectors = self._registrations.rejectors_of(queued)
        best = Strategy.IMMEDIATELY if queued.pending_plugins else Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for event, old, new in events:
            strategy = max(strategy, rejectors.plan(event).decide(queued.pod, old, new))
            if strategy is best:
                break
        return strategy

    # ---- what brings pods back

    def move_all(
        self,
        event: ClusterEvent,
        old: Any = None,
        new: Any = None,
        predicate: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """Something happened in the cluster: requeue the waiting pods that it may have helped.

        `predicate` leaves waiting pods out; for pods in flight the event counts in any case.
        """
        if not self._pool.groups and not self._in_flight.pods:
            return
        if not self._registrations.interested(event) and not event.wildcard:
            return
        concerned = self._pool.concerned(event, old, new) if self._pool.groups else ()
        if concerned:
            now, label = self._clock(), event.name
            for queued, plan in concerned:
                if predicate is not None and not predicate(queued.pod):
                    continue
                strategy = plan.decide(queued.pod, old, new)
                if strategy is Strategy.SKIP:
                    continue
                if self._still_refused is not None and not queued.gated and self._still_refused(queued.pod):
                    continue
                self._pool.leave(queued)
                self._requeue(queued, strategy, label, now)
        if self._in_flight.pods:
            self._in_flight.record(event, old, new)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Make waiting pods active without regard to their backoff; those in flight after their return."""
        now = self._clock()
        for pod in pods:
            queued = self._queued.get(pod.key)
            if queued is None:
                self._in_flight.record_for(pod.uid, (FORCE_ACTIVATE,), None, pod)
                continue
            queued.activated = True
            if queued.place is not _ACTIVE:
                waited = queued.place is _UNSCHEDULABLE
                self._take_out(queued)
                if not waited:
                    self._push_active(queued, _ACTIVATED, now)
                else:
                    self._to_active(queued, _ACTIVATED, now, waited=True)

    def flush(self, now: float) -> None:
        """Do what is due: ended backoffs, times that plugins named, pods that waited for too long."""
        for heap in (self._backing_off, self._error_backing_off):
            while (queued := heap.peek()) is not None and self._backoff.expiry(queued) + 1 <= now:
                heap.discard(queued)
                self._push_active(queued, BACKOFF_COMPLETE, now)
        while (queued := self._pool.due(now)) is not None:
            self._pool.leave(queued)
            queued.not_before = None
            self._requeue(queued, Strategy.IMMEDIATELY, NOT_BEFORE, now)
        too_old = self._pool.too_old(now)
        for queued in too_old:
            self._pool.leave(queued)
            queued.was_flushed = True
            queued.flush_timestamp = now
            self._requeue(queued, Strategy.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.name, now)
        if too_old and self._in_flight.pods:
            self._in_flight.record(UNSCHEDULABLE_TIMEOUT)

    def next_wake(self, now: float) -> float | None:
        """The earliest time, not before `now`, at which `flush` would do something; None: never."""
        wake = self._pool.next_wake()
        for heap in (self._backing_off, self._error_backing_off):
            queued = heap.peek()
            if queued is not None:
                wake = min(wake, self._backoff.expiry(queued) + 1)
        return None if wake == math.inf else max(wake, now)

    # ---- moving a pod that is in none of the queues into one

    def _requeue(
        self, queued: QueuedPodInfo, strategy: Strategy, label: str, now: float, *, waited: bool = False
    ) -> Place:
        if strategy is Strategy.AFTER_BACKOFF and self._backoff.holds(queued, now):
            self._to_backoff(queued, label, now, waited=waited)
        else:
            self._to_active(queued, label, now, waited=waited)
        return queued.place

    def _to_active(self, queued: QueuedPodInfo, label: str, now: float, *, waited: bool = False) -> bool:
        """Whether the pod passed pre_enqueue and is active; `waited`: it was in the pool until now."""
        if self._is_gated(queued):
            self._to_pool(queued, label, now, waited=waited)
            return False
        self._push_active(queued, label, now)
        return True

    def _push_active(self, queued: QueuedPodInfo, label: str, now: float) -> None:
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = now
        self._active.push(self._sort_key(queued), queued)
        queued.place = _ACTIVE
        if self._observe is not None:
            self._observe("active", label)

    def _to_backoff(self, queued: QueuedPodInfo, label: str, now: float, *, waited: bool) -> None:
        if self._is_gated(queued):
            self._to_pool(queued, label, now, waited=waited)
            return
        refused = queued.unschedulable_plugins or queued.pending_plugins
        queued.place = _BACKOFF if refused else _ERROR_BACKOFF
        heap, key = self._heap_and_key(queued)
        heap.push(key, queued)
        if self._observe is not None:
            self._observe("backoff", label)

    def _to_pool(self, queued: QueuedPodInfo, label: str, now: float, *, waited: bool = False) -> None:
        if queued.not_before is not None and queued.not_before <= now:
            # Passed already. Not at once, lest a plugin that always names the past keep us spinning.
            queued.not_before = math.floor(now) + 1.0
        self._pool.enter(queued)
        if self._observe is not None and not waited:
            self._observe("unschedulable", label)

    def _is_gated(self, queued: QueuedPodInfo) -> bool:
        """Ask the pre_enqueue plugins, and note who refused."""
        pre_enqueue = self._pre_enqueue.get(queued.pod.scheduler_name)
        status = None if pre_enqueue is None else pre_enqueue(queued.pod)
        if status is None or status.ok:
            queued.gating_plugin = ""
            return False
        if not status.plugin:
            raise ValueError(
                f"pre_enqueue refused pod {queued.pod.key} without naming the plugin: {status!r}"
            )
        queued.gating_plugin = status.plugin
        queued.unschedulable_plugins |= {status.plugin}
        if status.not_before is not None:
            queued.not_before = status.not_before
        return True

    def _heap_and_key(self, queued: QueuedPodInfo) -> tuple[LazyHeap, Any]:
        """The heap of a pod's place, and its key there."""
        if queued.place is _ACTIVE:
            return self._active, self._sort_key(queued)
        expiry = self._backoff.expiry(queued)
        if queued.place is _BACKOFF:
            return self._backing_off, (expiry, self._sort_key(queued))
        return self._error_backing_off, expiry

    def _take_out(self, queued: QueuedPodInfo) -> None:
        if queued.place is _UNSCHEDULABLE:
            self._pool.leave(queued)
        elif queued.place is _ACTIVE:
            self._active.discard(queued)
        elif queued.place is _BACKOFF:
            self._backing_off.discard(queued)
        else:
            self._error_backing_off.discard(queued)
        queued.place = _OUTSIDE

    # ---- looking in

    def get(self, key: str) -> QueuedPodInfo | None:
        """The queued pod of that "namespace/name"; those in flight are not in the queue."""
        return self._queued.get(key)

    def __len__(self) -> int:
        """The number of pods in the queue, without those in flight."""
        return len(self._queued)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """The pods in the queue, in no particular order."""
        return iter(self._queued.values())

    def in_flight(self) -> Iterable[QueuedPodInfo]:
        """The pods that are being scheduled, first popped first."""
        return self._in_flight.pods.values()

    @property
    def parked(self) -> int:
        """The number of pods that wait for events."""
        return self._pool.unschedulable + self._pool.gated

    def counts(self) -> dict[str, int]:
        """The number of pods by queue, as the metric pending_pods has them."""
        return {
            "active": self._active.size,
            "backoff": self._backing_off.size + self._error_backing_off.size,
            "unschedulable": self._pool.unschedulable,
            "gated": self._pool.gated,
        }

    def refusal_counts(self) -> dict[tuple[str, str], int]:
        """The refused pods by plugin and profile, as the metric unschedulable_pods has them: until a pod is
        tried again, it counts for every plugin that refused it."""
        counts: Counter[tuple[str, str]] = Counter()
        for group in self._pool.groups.values():
            profile = next(iter(group.pods.values())).pod.scheduler_name
            rejectors = group.rejectors
            for plugin in rejectors.unschedulable | rejectors.pending:
                counts[plugin, profile] += len(group.pods)
        for heap in (self._active, self._backing_off):
            for queued in heap:
                for plugin in queued.unschedulable_plugins | queued.pending_plugins:
                    counts[plugin, queued.pod.scheduler_name] += 1
        return dict(counts)

    def in_flight_counts(self) -> dict[str, int]:
        """The events kept for pods in flight by label, as the metric inflight_events has them."""
        return self._in_flight.counts()

    def backoff_ends(self, queued: QueuedPodInfo) -> float | None:
        """When a pod's backoff is over; None if it has none."""
        expiry = self._backoff.expiry(queued)
        return None if math.isinf(expiry) else expiry + 1

    def awaited(self, queued: QueuedPodInfo) -> dict[str, list[ClusterEvent]]:
        """The events that may bring a refused pod back, by the plugin that refused it."""
        return self._registrations.awaited(queued)

    def validate(self) -> None:
        """Raise AssertionError, with the story of the pod, where the queue contradicts itself."""
        held = {
            _ACTIVE: list(self._active),
            _BACKOFF: list(self._backing_off),
            _ERROR_BACKOFF: list(self._error_backing_off),
            _UNSCHEDULABLE: list(self._pool),
        }
        for place, pods in held.items():
            for queued in pods:
                assert queued.place is place, f"found in {place.value}: {queued}"
                assert self._queued.get(queued.pod.key) is queued, f"in {place.value} but unknown: {queued}"
        total = sum(map(len, held.values()))
        assert total == len(self._queued), f"{len(self._queued)} pods known, {total} found: {list(self)}"
        for uid, queued in self._in_flight.pods.items():
            assert queued.place is _IN_FLIGHT, f"in flight under {uid}: {queued}"
            assert self._queued.get(queued.pod.key) is not queued, f"in flight and queued: {queued}"
        for heap, place in (
            (self._active, _ACTIVE),
            (self._backing_off, _BACKOFF),
            (self._error_backing_off, _ERROR_BACKOFF),
        ):
            assert heap.size == len(held[place]), f"{place.value}: {heap.size} counted, {held[place]}"
        self._pool.validate()
        self.nominator.validate()
