"""Depth `core`: an event heap over the scheduler's core, without an API server.

At one instant events happen in a fixed order: departures, node changes, other changes, arrivals in file
order, due timers, then attempts until nothing can be tried. An attempt takes no virtual time unless
`attempt_cost` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, Protocol

import msgspec

from mooring.api import times
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.objects import Node, Pod, PodStatus
from mooring.core.decision import Decision
from mooring.core.effects import Bind, Effect, Evict, PatchPodStatus, Prepare
from mooring.core.memory import AHEAD, MemoryCluster, run_now
from mooring.core.scheduler import Scheduler
from mooring.framework.pod import PodInfo
from mooring.simulate.agenda import Agenda, Order
from mooring.simulate.annotations import annotated_run_time
from mooring.simulate.arrivals import Arrivals, Template
from mooring.simulate.controlled import Controlled, Controller, PodOwner
from mooring.simulate.node_log import NodeLog
from mooring.simulate.pod_log import Outcome, PodLog
from mooring.simulate.templates import template_of

START = 1_893_456_000.0  # 2030-01-01: virtual time 0 on the scheduler's clock
SETTLING = 400.0  # seconds in which every unschedulable pod is retried: five minutes, a look, a backoff


class Clock:
    """Virtual seconds since the start of the run."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return START + self.now


class Listener(Protocol):
    """Hears what a run does, after each instant that had events."""

    def settled(self, run: CoreRun) -> None: ...


class CoreRun:
    """One run: a cluster, its arrivals and the scheduler under test, in virtual time.

    `retry` off removes a pod whose first attempt finds no node. `attempt_cost` is the virtual time that an
    attempt takes. `replaces` off leaves it to the arrivals to replace pods of controllers that are there
    before: a recording has them.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        objects: Iterable[KubeObject],
        arrivals: Arrivals,
        *,
        until: float = inf,
        retry: bool = True,
        attempt_cost: float = 0.0,
        replaces: bool = True,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.scheduler = scheduler
        self.clock = clock
        self.arrivals = arrivals
        self.until = until
        self.retry = retry
        self.replaces = replaces
        self.attempt_cost = attempt_cost
        self.listeners = list(listeners)
        self.log = PodLog()
        self.nodes = NodeLog()
        self.templates: list[Template] = list(arrivals.templates)
        self.attempts = 0
        self.arrived = 0  # arrivals so far
        self.pending = 0
        self.running = 0
        self.pending_seconds = 0.0  # integrals over time, for checks
        self.running_seconds = 0.0
        self.held: Callable[[], bool] | None = None  # whether the scheduler makes no attempt now
        self.overcommitted = False  # by pods that were on nodes from the beginning
        self._controllers: dict[tuple[str, str], Controller] = {}  # by kind and "namespace/name"
        self._owners: dict[int, PodOwner] = {}  # of the pods in these rows
        self._messages: dict[str, str] = {}  # why pods with an owner were last rejected, by uid
        self._rows: dict[str, int] = {}  # "namespace/name" (the uid, too) → row of pods that are there
        self._agenda = Agenda()
        self._afterwards: list[Callable[[], None]] = []
        self._departures: list[tuple[float, int]] = []  # time, row
        self._last_change = 0.0
        self._busy_until = 0.0
        self._cluster = _Cluster(scheduler, self)
        for obj in objects:
            self.apply(obj)

    @property
    def end(self) -> float:
        """The virtual time that the run has reached."""
        return self.clock.now

    # ---- what can be done to the cluster, now or later

    def apply(self, obj: KubeObject) -> None:
        """Add or change an object. Pods get a row, and run for as long as their annotation says."""
        if isinstance(obj, Pod):
            self._adopt(obj)
        elif isinstance(obj, Controlled):
            controller = self._controllers.get((obj.kind, obj.key))
            if controller is None:
                self._controllers[obj.kind, obj.key] = obj.begin(self)
            else:
                controller.change(obj)
        else:
            if isinstance(obj, Node):
                self.nodes.add(obj, self.clock.now)
            self._cluster.apply(obj)
        self._last_change = self.clock.now

    def amend(self, pod: Pod) -> None:
        """Change the metadata and spec of a pod that is there; it keeps its node and phase."""
        current = self._cluster.pods.get(pod.key)
        if current is None:
            return
        metadata = msgspec.structs.replace(pod.metadata, uid=pod.key)
        spec = msgspec.structs.replace(pod.spec, node_name=current.spec.node_name)
        self._cluster.apply(Pod(metadata=metadata, spec=spec, status=current.status))
        self._last_change = self.clock.now

    def delete(self, obj: KubeObject, outcome: Outcome = Outcome.DELETED) -> None:
        """Remove an object; the pods of a node are lost with it."""
        if isinstance(obj, Pod):
            row = self._rows.get(obj.key)
            if row is not None:
                self._end(row, outcome)
        elif isinstance(obj, Controlled):
            controller = self._controllers.pop((obj.kind, obj.key), None)
            if controller is not None:
                controller.stop()
        else:
            if isinstance(obj, Node):
                self._lose_pods(obj.name)
                self.nodes.remove(obj.name, self.clock.now)
            self._cluster.delete(obj)
        self._last_change = self.clock.now

    def remove(self, row: int) -> None:
        """Delete a pod that is there."""
        self._end(row, Outcome.DELETED)

    def at(self, time: float, order: Order, work: Callable[[], None]) -> None:
        """Have something done at a time."""
        self._agenda.add(time, order, work)

    def afterwards(self, work: Callable[[], None]) -> None:
        """Have something done in this instant, after the attempts."""
        self._afterwards.append(work)

    def start_timer(self, time: float, work: Callable[[], None]) -> int:
        """Have something done when pods arrive at a time; the number of the timer."""
        return self._agenda.add(time, Order.ARRIVAL, work)

    def cancel_timer(self, number: int) -> None:
        self._agenda.cancel(number)

    def pod_on(self, node_name: str) -> list[PodInfo]:
        info = self.scheduler.cluster.node(node_name)
        return [] if info is None else list(info.pods)

    def bound_pods(self) -> list[Pod]:
        return [pod for pod in self._cluster.pods.values() if pod.spec.node_name]

    def pods_of(self, node_name: str) -> list[Pod]:
        """The pods on a node, as objects."""
        pods = self._cluster.pods
        return [pods[info.uid] for info in self.pod_on(node_name) if info.uid in pods]

    def drain(self, node: Node) -> None:
        """Evict the pods of a node, and remove it."""
        for pod in self.pod_on(node.name):
            if pod.uid in self._rows:
                self.evicted(pod.uid)
        self.delete(node)

    def unschedulable_pods(self) -> list[Pod]:
        """The pending pods that were tried at least once."""
        attempts, pods = self.log.attempts, self._cluster.pods
        return [
            pods[uid] for uid, row in self._rows.items() if attempts[row] and not pods[uid].spec.node_name
        ]

    def template_of(self, uid: str) -> Template | None:
        """What a pod that is there is made of."""
        row = self._rows.get(uid)
        return None if row is None else self.templates[self.log.template[row]]

    def own(self, row: int, owner: PodOwner) -> None:
        """Have an owner follow a pod."""
        self._owners[row] = owner

    def row_of(self, uid: str) -> int | None:
        return self._rows.get(uid)

    def create(
        self,
        template: int,
        name: str,
        run_time: float,
        replaces: int = -1,
        *,
        labels: Mapping[str, str] | None = None,
        owner: PodOwner | None = None,
    ) -> int:
        """A pod arrives now, with labels in addition to those of its template."""
        row = self.log.add(name, template, run_time, self.clock.now, replaces)
        pod = self.templates[template].pod
        meta = pod.metadata
        uid = f"{meta.namespace}/{name}"
        metadata = ObjectMeta(
            name=name,
            namespace=meta.namespace,
            uid=uid,
            labels=meta.labels if labels is None else {**meta.labels, **labels},
            annotations=meta.annotations,
            owner_references=meta.owner_references,
        )
        self._rows[uid] = row
        if owner is not None:
            self._owners[row] = owner
        self.pending += 1
        self._cluster.apply(Pod(metadata=metadata, spec=pod.spec, status=_PENDING))
        return row

    def _adopt(self, pod: Pod) -> None:
        """A pod of the cluster that is there before, or comes by an event."""
        if pod.key in self._rows:
            self.amend(pod)
            return
        pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=pod.key))
        unbound = msgspec.structs.replace(pod.spec, node_name="")  # what would replace it
        template = template_of(msgspec.structs.replace(pod, spec=unbound))
        template.replaced &= self.replaces
        self.templates.append(template)
        row = self.log.add(pod.name, len(self.templates) - 1, annotated_run_time(pod), self.clock.now)
        self._rows[pod.uid] = row
        reference = pod.metadata.controller()
        if reference is not None:
            controller = self._controllers.get((reference.kind, f"{pod.namespace}/{reference.name}"))
            if controller is not None:
                controller.adopt(row, pod)
        self.pending += 1
        self._cluster.apply(pod)
        if pod.spec.node_name:
            self.overcommitted = True
            self.bound(pod.uid, pod.spec.node_name)

    # ---- the loop

    def run(self, progress: Callable[[CoreRun], None] | None = None) -> None:
        """Run until nothing is left to happen, or to `until`."""
        arrivals = self.arrivals
        starts, shapes, lives, names = arrivals.time, arrivals.template, arrivals.run_time, arrivals.names
        count, step = len(arrivals), 0
        next_arrival = float(starts[0]) if count else inf
        self._settle()
        while True:
            now = self._next(next_arrival)
            if now is None or now > self.until:
                break
            self._pass(now)
            self._depart(now)
            self._agenda.do(now, Order.ARRIVAL)
            while next_arrival <= now:
                i = self.arrived
                self.arrived = i + 1
                self.create(shapes.item(i), names[i], lives.item(i))
                next_arrival = starts.item(i + 1) if i + 1 < count else inf
            self._agenda.do(now, Order.TIMER + 1)
            self.scheduler.tick()
            self._settle()
            while self._afterwards:
                self._afterwards.pop(0)()
                self._settle()
            for listener in self.listeners:
                listener.settled(self)
            step += 1
            if progress is not None and step % 256 == 0:
                progress(self)
        if self.until < inf:
            self._pass(self.until)

    def _pass(self, now: float) -> None:
        """Time passes."""
        passed = now - self.clock.now
        self.pending_seconds += passed * self.pending
        self.running_seconds += passed * self.running
        self.clock.now = now

    def _next(self, next_arrival: float) -> float | None:
        """When something happens next; None: nothing will."""
        now = min(next_arrival, self._agenda.next_time())
        if self._departures:
            now = min(now, self._departures[0][0])
        wake = self.scheduler.next_wake()
        if self._busy_until > self.clock.now:
            now = min(now, self._busy_until)
        if wake is None:
            return now if now < inf else None
        wake = max(wake - START, self.clock.now)
        if now == inf and wake > self._last_change + SETTLING and not self._waits():
            return None
        return min(now, wake)

    def _waits(self) -> bool:
        """Whether a pod waits for a time that a plugin named."""
        queue = self.scheduler.queue
        return any(queued.not_before is not None for queued in queue) or bool(
            self.scheduler.waiting.next_deadline()
        )

    def _depart(self, now: float) -> None:
        departures = self._departures
        while departures and departures[0][0] <= now:
            row = heappop(departures)[1]
            if self.log.outcome[row] == Outcome.RUNNING:
                self._end(row, Outcome.FINISHED)

    def _settle(self) -> None:
        """Try pods until nothing can be tried now."""
        scheduler, cluster, cost = self.scheduler, self._cluster, self.attempt_cost
        if cost:
            self._settle_slowly(cost)
            return
        while True:
            held = self.held is not None and self.held()
            decision = None if held else scheduler.schedule_one()
            if decision is not None:
                self._attempted(decision)
                if decision.result == "scheduled" and len(scheduler.effects) < AHEAD:
                    continue
            elif not scheduler.effects:
                return
            cluster.carry_out(scheduler.take_effects())

    def _settle_slowly(self, cost: float) -> None:
        """One attempt, if the last one is over; the next follows when this one is."""
        if self._busy_until > self.clock.now:
            return
        decision = self.scheduler.schedule_one()
        if decision is not None:
            self._attempted(decision)
            self._busy_until = self.clock.now + cost
        self._cluster.carry_out(self.scheduler.take_effects())

    def _attempted(self, decision: Decision) -> None:
        self.attempts += 1
        pod = decision.pod
        row = self._rows.get(pod)
        if row is None:
            return
        self.log.attempted(row, self.clock.now)
        if decision.result != "scheduled":
            self.log.rejected(row, decision.unschedulable_plugins)
            if not self.retry:
                self._cluster.rejected.append(pod)

    # ---- what the scheduler did

    def bound(self, uid: str, node_name: str) -> None:
        row = self._rows.get(uid)
        if row is None:
            return
        now, log = self.clock.now, self.log
        template = self.templates[log.template[row]]
        started = now + template.start_delay
        log.bind(row, self.nodes.row(node_name), now, started)
        self.pending -= 1
        self.running += 1
        self._last_change = now
        ends = started + log.run_time[row] + template.binding_time(now)
        if ends < inf:
            heappush(self._departures, (ends, row))
        owner = self._owners.get(row)
        if owner is not None:
            owner.changed()
            if started > now:
                self.at(started, Order.DEPARTURE, owner.changed)

    def patched(self, effect: PatchPodStatus) -> None:
        """An API server would show the owner of a pod why it was rejected, if the reason is a new one."""
        owner = self._owners.get(self._rows.get(effect.pod.uid, -1))
        if owner is not None and effect.condition is not None:
            message = effect.condition.message
            if self._messages.get(effect.pod.uid) != message:
                self._messages[effect.pod.uid] = message
                owner.changed()

    def evicted(self, uid: str) -> None:
        self._end(self._rows[uid], Outcome.EVICTED)

    def reject(self, uid: str) -> None:
        """A pod whose only attempt failed leaves; one that was promised a node stays."""
        row = self._rows.get(uid)
        if row is not None and not self.scheduler.queue.nominator.node_of(uid):
            self._end(row, Outcome.REJECTED)

    def _end(self, row: int, outcome: Outcome) -> None:
        log = self.log
        uid = self._uid(row)
        if log.outcome[row] == Outcome.RUNNING:
            self.running -= 1
        else:
            self.pending -= 1
        log.end(row, outcome, self.clock.now)
        del self._rows[uid]
        self._last_change = self.clock.now
        pod = self._cluster.pods.get(uid)
        if pod is not None:
            self._cluster.delete(pod)
        template, owner = log.template[row], self._owners.pop(row, None)
        if owner is not None:
            self._messages.pop(uid, None)
            owner.ended(row, outcome)
        elif self.templates[template].replaced and outcome in (Outcome.EVICTED, Outcome.LOST):
            name = log.names[row]
            base, _, number = name.rpartition("~")
            name = f"{base}~{int(number) + 1}" if base else f"{name}~1"
            self.create(template, name, log.run_time[row], row)

    def _uid(self, row: int) -> str:
        return f"{self.templates[self.log.template[row]].pod.namespace}/{self.log.names[row]}"

    def _lose_pods(self, node_name: str) -> None:
        for pod in self.pod_on(node_name):
            row = self._rows.get(pod.uid)
            if row is not None:
                self._end(row, Outcome.LOST)


_PENDING = PodStatus(phase="Pending")


class _Cluster(MemoryCluster):
    """A cluster in memory that reports to the run. Events and conditions of pods are dropped: no part of a
    simulation reads them."""

    def __init__(self, scheduler: Scheduler, run: CoreRun) -> None:
        super().__init__(scheduler)
        self._run = run
        self.rejected: list[str] = []
        self._start_time = (-1.0, "")

    def bind(self, pod: PodInfo, node_name: str) -> None:
        current = self.pods.get(pod.uid)
        if current is None:
            raise LookupError(f'pods "{pod.name}" not found')
        spec = msgspec.structs.replace(current.spec, node_name=node_name)
        status = PodStatus(phase="Running", start_time=self._now())
        self.apply(Pod(metadata=current.metadata, spec=spec, status=status))
        self._run.bound(pod.uid, node_name)

    def _now(self) -> str:
        now = self._run.clock.now
        if self._start_time[0] != now:
            self._start_time = (now, times.format_time(START + now))
        return self._start_time[1]

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Bind:
                cycle = effect.cycle  # type: ignore[union-attr]
                self.scheduler.bindings.finished(cycle, run_now(cycle.run()))
            elif kind is Prepare:
                cycle = effect.cycle  # type: ignore[union-attr]
                self.scheduler.bindings.groups.prepared(cycle, run_now(cycle.prepare()))
            elif kind is PatchPodStatus:
                self._run.patched(effect)  # type: ignore[arg-type]
                nominated: Any = effect.nominated_node  # type: ignore[union-attr]
                if nominated is not None:
                    self._patch(effect.pod, None, nominated)  # type: ignore[union-attr]
            elif kind is Evict:
                uid = effect.victim.uid  # type: ignore[union-attr]
                if uid in self.pods:
                    self._run.evicted(uid)
        if self.rejected:
            rejected, self.rejected = self.rejected, []
            for uid in rejected:
                self._run.reject(uid)
        if self.scheduler.effects:
            self.carry_out(self.scheduler.take_effects())
