"""The loop that drives a scheduler on a live cluster.

Informers hand in what changed, attempts are made in short turns so that nothing else waits long, and effects
become requests. Scheduling runs ahead of the binding requests by a bounded number of pods: an API server that
is slow, or away, slows the scheduler down instead of making it promise ever more. All this happens on one
event loop, except for the attempts, see `aside`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from mooring.api.kinds import PODS
from mooring.api.meta import KubeObject
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.backoff import Backoff
from mooring.client.clocks import real_seconds
from mooring.client.event_recorder import EventRecorder
from mooring.client.port import Cluster
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.client.wake import Wake
from mooring.core.binding import BindingCycle
from mooring.core.decision import Decision
from mooring.core.effects import Bind, Effect, EmitEvent, Evict, PatchPodStatus, Prepare, Write
from mooring.core.intake import kinds_of_plugins
from mooring.core.scheduler import Scheduler
from mooring.framework.pod import PodInfo
from mooring.framework.status import Code, Status
from mooring.process.aside import Aside, InPlace, Workplace, at_rest
from mooring.process.client import BoundElsewhereError, LiveClient
from mooring.process.logs import failed, verbose
from mooring.process.status_writer import StatusWriter

log = logging.getLogger("mooring.scheduler")

T = TypeVar("T")

AHEAD = 128  # pods that may be on their way to the API server
STEP = 16  # pods for which there has to be room before the next turn, so that turns are worth their cost
TURN = 0.004  # seconds of scheduling before others get a word in
BUG_PAUSE = 1.0  # seconds after a bug, so that it does not flood the log
MANY = 100  # pods that wait: what happens to them takes long from here on
GRACE = 15.0  # seconds for what is on its way when the driver is stopped
LAST_ATTEMPT = 1.0  # seconds for an attempt that is under way then


class Turn:
    """What came of some attempts."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.effects: list[Effect] = []
        self.bindings = 0  # among the effects
        self.more = False  # whether there may be more to do at once
        self.wake_at: float | None = None  # otherwise: when there will be
        self.bug: Exception | None = None

    def take(self, effects: list[Effect]) -> None:
        self.effects += effects
        self.bindings += sum(isinstance(effect, Bind | Prepare) for effect in effects)


class Driver:
    """Carries events in and, while it runs, effects out: a standby only watches. `may_bind` is asked right
    before each binding request; where the answer is no, nothing else is done either."""

    def __init__(
        self,
        scheduler: Scheduler,
        cluster: Cluster,
        recorder: EventRecorder,
        *,
        may_bind: Callable[[], bool] = lambda: True,
        on_decision: Callable[[Decision], None] | None = None,
        turn: float = TURN,
        wall_clock: Callable[[], float] | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.cluster = cluster
        self._wake = Wake()
        # A binding that waits makes room for one more on its way.
        self.client = LiveClient(cluster, may_bind, kinds_of_plugins(scheduler), self._wake.set)
        self._may_bind = may_bind
        scheduler.client = self.client
        self._recorder = recorder
        self.statuses = StatusWriter(cluster, wall_clock or scheduler.clock, self._is_ours)
        self._on_decision = on_decision
        self._seconds = 0.0 if scheduler.extenders else turn  # changes come between attempts that are slow
        self._cycles: set[asyncio.Task[None]] = set()
        self._writes: set[asyncio.Task[None]] = set()
        self._eviction_backoff = Backoff(first=1.0, limit=10.0)
        self._stopping = False
        self._allowed: int | None = None  # attempts that may be made while paused; None: not paused
        self._attempt_timeout: asyncio.Timeout | None = None
        self._abandoned = False  # the core may be busy forever
        # Custom plugins may block wherever they are called, also in pre_enqueue, hints and pre_bind.
        self._may_block = not isinstance(asyncio.get_running_loop(), VirtualTimeLoop) and any(
            profile.custom_plugins for profile in scheduler.profiles.values()
        )
        self._core = self._workplace()

    def _workplace(self) -> Workplace:
        """Where there are extenders, the loop does not wait for attempts at all."""
        virtual = isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        if virtual and not self.scheduler.extenders:
            return InPlace()
        return Aside(2 * self._seconds)

    @property
    def _takes_long(self) -> bool:
        """Whether changes may take long: each may be compared with all pods that wait."""
        return self._may_block or self.scheduler.queue.parked > MANY

    def _do(self, change: Callable[[], None]) -> None:
        self._core.do(change, may_take_long=self._takes_long)

    # ---- events in: the sink of the informers

    def apply(self, obj: KubeObject) -> None:
        if self._core.busy or self._takes_long:
            self._do(partial(self.scheduler.apply, obj))
        else:
            self.scheduler.apply(obj)
        self._changed()

    def delete(self, obj: KubeObject) -> None:
        self._do(partial(self.scheduler.delete, obj))
        self._changed()

    def _changed(self) -> None:
        if self._core.busy or not self.scheduler.is_idle:
            self._wake.set()

    async def ask(self, question: Callable[[], T]) -> T:
        """Evaluate a question about the core while it does not change; it may ask extenders."""
        return await self._core.run(question)

    # ---- the loop

    async def run(self) -> None:
        """Schedule until stopped, and then until what is on its way has arrived."""
        turn = Turn()
        try:
            while not self._stopping:
                try:
                    turn = await self._make_turn(least_room=1 if turn.more else STEP)
                    if turn.more:
                        await asyncio.sleep(0)
                    else:
                        await self._wake.wait(self._patience(turn.wake_at))
                except Exception as bug:  # the pods that it does not concern have to be scheduled on
                    log.error("scheduling failed", exc_info=bug)
                    await asyncio.sleep(BUG_PAUSE)
            await self._finish()
        finally:
            for task in self._tasks():
                task.cancel()
            self._core.close()

    def stop(self) -> None:
        """Take no more pods. An attempt under way that does not end soon is abandoned, without effect."""
        self._wake.set()
        if self._attempt_timeout is not None and not self._stopping:
            self._attempt_timeout.reschedule(asyncio.get_running_loop().time() + LAST_ATTEMPT)
        self._stopping = True

    # ---- attempts one by one

    @property
    def paused(self) -> bool:
        return self._allowed is not None

    def pause(self) -> None:
        """Make no more attempts. The queue goes on: backoffs end, and events move pods."""
        self._allowed = 0

    def step(self) -> None:
        """Allow one attempt, and pause after it."""
        self._allowed = (self._allowed or 0) + 1
        self._wake.set()

    def resume(self) -> None:
        self._allowed = None
        self._wake.set()

    def _count(self, decision: Decision) -> None:
        """Report an attempt; while paused, it uses up a step."""
        if self._allowed:
            self._allowed -= 1
        self._report(decision)

    async def _finish(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while tasks := self._tasks():
                    await asyncio.wait(tasks)
                    if not self._abandoned:
                        self._carry_out(await self._core.run(self.scheduler.take_effects))
                await self.statuses.flush()

    def _tasks(self) -> set[asyncio.Task[None]]:
        return self._cycles | self._writes

    async def _make_turn(self, least_room: int) -> Turn:
        """Make attempts for a short while, and carry out what they decide."""
        room = AHEAD - self._ahead()
        room = room if room >= least_room else 0
        try:
            async with asyncio.timeout(None) as self._attempt_timeout:
                if self._core.busy or self._takes_long or self._has_work(room):
                    turn = await self._core.run(partial(self._attempts, room, self._allowed))
                else:
                    turn = self._finished(Turn())
                self._carry_out(turn.effects)
                await self._core.rest()  # reports look things up
        except TimeoutError:
            log.warning("a scheduling attempt does not end; stopping without it")
            self._abandoned = True
            self._core.close()  # bindings do not wait for its rest any more
            return Turn()
        finally:
            self._attempt_timeout = None
        for decision in turn.decisions:
            self._count(decision)
        if turn.bug is not None:
            raise turn.bug
        return turn

    def _has_work(self, room: int) -> bool:
        self.scheduler.tick()
        return room > 0 and self._allowed != 0 and self.scheduler.has_next

    def _attempts(self, room: int, allowed: int | None) -> Turn:
        """Make as many attempts as are allowed, until the time is over or there is no room for bindings."""
        scheduler, turn = self.scheduler, Turn()
        try:
            scheduler.tick()
            end = time.perf_counter() + self._seconds
            while turn.bindings < room and len(turn.decisions) != allowed:
                decision = scheduler.schedule_slice()
                turn.take(scheduler.take_effects())
                if decision is None:
                    turn.more = scheduler.is_paused
                    break
                turn.decisions.append(decision)
                if time.perf_counter() >= end:
                    turn.more = True
                    break
        except Exception as bug:  # what was decided before has to be carried out
            turn.bug = bug
        return self._finished(turn)

    def _finished(self, turn: Turn) -> Turn:
        """Note what is left to do. There is no `tick` before: a pod whose backoff it ends would wait for the
        next event."""
        turn.take(self.scheduler.take_effects())
        if not turn.more:
            turn.wake_at = self.scheduler.next_wake()
        return turn

    def _ahead(self) -> int:
        return len(self._cycles) - self.client.waiting

    def _patience(self, wake_at: float | None) -> float | None:
        clock = self.scheduler.clock
        return None if wake_at is None else real_seconds(clock, max(0.0, wake_at - clock()))

    def speed_changed(self) -> None:
        """Wait again, after the clock became faster or slower."""
        self._wake.set()

    def _report(self, decision: Decision) -> None:
        if self._on_decision is not None:
            self._on_decision(decision)
        if decision.result == "scheduled":
            return
        verbose(
            log, 2, "Unable to schedule pod", pod=decision.pod, reason=decision.reason, err=decision.message
        )

    # ---- effects out

    def _carry_out(self, effects: list[Effect]) -> None:
        if not self._may_bind():
            return  # another may know better already what becomes of these pods
        for effect in effects:
            if isinstance(effect, Bind | Prepare):
                work = self._bind if isinstance(effect, Bind) else self._prepare
                task = asyncio.create_task(work(effect.cycle))
                self._cycles.add(task)
                task.add_done_callback(self._task_done)
            elif isinstance(effect, EmitEvent):
                self._emit(effect)
            elif isinstance(effect, PatchPodStatus):
                self.statuses.put(effect)
            else:
                writing = self._write(effect) if isinstance(effect, Write) else self._evict(effect)
                write = asyncio.create_task(writing)
                self._writes.add(write)
                write.add_done_callback(self._task_done)

    def _is_ours(self, uid: str) -> bool:
        """Whether a pod is still to be scheduled, by this replica."""
        return self._may_bind() and self.scheduler.cluster.placed(uid) is None

    def _emit(self, effect: EmitEvent) -> None:
        about, profile = effect.regarding, effect.profile
        if isinstance(about, PodInfo):
            profile = profile or about.scheduler_name
            about = about.pod.reference("Pod", "v1")
        self._recorder.emit(
            about,
            effect.type,
            effect.reason,
            effect.action,
            effect.note,
            profile if profile in self.scheduler.profiles else "",
        )

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._cycles.discard(task)
        self._writes.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("binding, eviction or write failed", exc_info=task.exception())
        self._wake.set()

    async def _prepare(self, cycle: BindingCycle) -> None:
        """Run pre_bind of a member of a group, which is not bound before others have come as far."""
        try:
            cycle.call = self._core.run if self._may_block else None
            status = await at_rest(cycle.prepare(), self._core)
        except asyncio.CancelledError:
            stopping = Status(Code.ERROR, "the scheduler is stopping")
            self._do(partial(self.scheduler.bindings.groups.prepared, cycle, stopping))
            raise
        self._do(partial(self.scheduler.bindings.groups.prepared, cycle, status))

    async def _bind(self, cycle: BindingCycle) -> None:
        try:
            await self.statuses.settled(cycle.pod.uid)  # no older failure is written after the binding
            cycle.call = self._core.run if self._may_block else None
            status = await at_rest(cycle.run(), self._core)
        except asyncio.CancelledError:
            stopping = Status(Code.ERROR, "the scheduler is stopping")
            self._do(partial(self.scheduler.bindings.finished, cycle, stopping))
            raise
        elsewhere = isinstance(status.exception, BoundElsewhereError)
        self._do(partial(self.scheduler.bindings.finished, cycle, status, bound_elsewhere=elsewhere))
        pod, node_name = cycle.pod.key, cycle.node_name
        if status.ok:
            verbose(
                log,
                2,
                "Successfully bound pod to node",
                pod=pod,
                node=node_name,
                evaluatedNodes=cycle.evaluated_nodes,
                feasibleNodes=cycle.feasible_nodes,
            )
        elif _failed_before(cycle.pod, status.message):
            verbose(log, 2, "Failed to bind pod again", pod=pod, node=node_name, err=status.message)
        else:
            failed(log, "Failed to bind pod", pod=pod, node=node_name, err=status.message)

    async def _write(self, effect: Write) -> None:
        await at_rest(effect.work(self.client), self._core)

    async def _evict(self, effect: Evict) -> None:
        """Mark the victim, then delete it. That it is gone, or going, comes back as an event."""
        victim = effect.victim
        try:
            await self.statuses.write(PatchPodStatus(victim, effect.condition))
            if not self._may_bind():
                return
            await self.cluster.delete(PODS, victim.name, victim.namespace, uid=victim.uid)
            if effect.event is not None:
                self._emit(effect.event)
        except ClusterError as failure:
            if isinstance(failure, ApiError) and (failure.not_found or failure.conflict):
                self._do(partial(self.scheduler.evictions.done, victim.uid))
            else:
                preemptor = effect.preemptor
                failed(log, "Failed to preempt pod", pod=victim.key, preemptor=preemptor.key, err=failure)
                asyncio.get_running_loop().call_later(
                    self._eviction_backoff.wait(), self._eviction_failed, preemptor
                )

    def _eviction_failed(self, preemptor: PodInfo) -> None:
        self._do(partial(self.scheduler.evictions.failed, preemptor))
        self._wake.set()


def _failed_before(pod: PodInfo, message: str) -> bool:
    """Whether the pod's last attempt ended in the same words."""
    return any(c.type == "PodScheduled" and c.message == message for c in pod.status.conditions)
