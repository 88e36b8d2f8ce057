"""Pods on their way from a chosen node to their binding: reserve, permit, and what failed after that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mooring.core import decision as records
from mooring.core.binding import BindingCycle
from mooring.core.decision import Decision
from mooring.core.effects import Bind, EmitEvent, Prepare
from mooring.core.event_map import ASSIGNED_POD_DELETE
from mooring.core.groups.binding import GroupBindings
from mooring.core.groups.plan import refused_on
from mooring.core.waiting import HeldPod
from mooring.framework.cycle_state import PODS_TO_ACTIVATE
from mooring.framework.status import Code, Status
from mooring.runtime.stopwatch import Stopwatch

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler


class Bindings:
    """Starts binding cycles, and ends those that fail. Members of groups wait for each other in `groups`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.groups = GroupBindings(scheduler)

    def hand_over(self, cycle: BindingCycle, decision: Decision) -> None:
        """Reserve, ask for permission, and have it bound or wait."""
        profile, state, pod, node_name = cycle.profile, cycle.state, cycle.pod, cycle.node_name
        cycle.evaluated_nodes, cycle.feasible_nodes = decision.nodes, decision.feasible_nodes
        stopwatch = profile.stopwatch
        status = profile.reserve(state, pod, node_name)
        waits: dict[str, tuple[float, Status]] = {}
        if status.ok:
            if stopwatch is not None:
                stopwatch.laps.append(stopwatch.timer())
            status, waits = profile.permit(state, pod, node_name)
        if stopwatch is not None:
            if status.ok and not waits:
                cycle.laps = stopwatch.laps
                cycle.laps.append(stopwatch.timer())
            else:
                stopwatch.refused(Code.WAIT if waits else status.code, state)
        if not status.ok:
            self.undo(cycle)
            self._refused_late(cycle, status, decision)
            return
        self.start(cycle, waits)

    def start(self, cycle: BindingCycle, waits: Mapping[str, tuple[float, Status]]) -> None:
        """Have a pod that has its place bound, or wait for permit plugins."""
        self._activate_stashed(cycle)
        if waits:
            self._scheduler.waiting.add(HeldPod(cycle, waits, self._scheduler.clock(), self._permit_decided))
        else:
            self._start_binding(cycle)

    def _start_binding(self, cycle: BindingCycle) -> None:
        self._scheduler.queue.done(cycle.pod.uid)
        waits = cycle.group is not None and not cycle.group.is_open
        self._scheduler.effects.append(Prepare(cycle) if waits else Bind(cycle))

    def withdraw(self, cycle: BindingCycle, status: Status) -> None:
        """Put a member back that is not bound because its group has lost its quorum."""
        held = self._scheduler.waiting.get(cycle.pod.uid)
        if held is not None:
            self._scheduler.waiting.remove(cycle.pod.uid)
            held.cancel()
        self.undo(cycle)
        decision = self._late(cycle)
        # Retried after a backoff, as the one that failed is.
        self._scheduler.fail(cycle.queued, status, "", decision)
        self._keep(cycle, decision)

    def _permit_decided(self, held: HeldPod, status: Status) -> None:
        self._scheduler.waiting.remove(held.pod.uid)
        if self._scheduler.observer is not None:
            self._scheduler.observer.permit_waited(status.code, self._scheduler.clock() - held.since)
        if status.ok:
            self._start_binding(held.cycle)
            return
        self.undo(held.cycle)
        self.groups.left(held.cycle)
        decision = self._late(held.cycle)
        self._refused_late(held.cycle, status, decision)
        self._keep(held.cycle, decision)

    def abandon(self, uid: str) -> None:
        """Revert the reservation of a waiting pod that another scheduler has bound."""
        held = self._scheduler.waiting.get(uid)
        if held is not None:
            self._scheduler.waiting.remove(uid)
            held.cancel()
            self.undo(held.cycle)
            self.groups.left(held.cycle)
            self._scheduler.queue.done(uid)

    def finished(self, cycle: BindingCycle, status: Status, *, bound_elsewhere: bool = False) -> None:
        """A driver reports how a binding cycle went; `bound_elsewhere`: another scheduler has bound the pod,
        although that may not have been seen yet."""
        pod = cycle.pod
        if status.ok:
            note = f"Successfully assigned {pod.key} to {cycle.node_name}"
            self._scheduler.effects.append(EmitEvent(pod, "Normal", "Scheduled", "Binding", note))
            if cycle.profile.stopwatch is not None:
                self._observe_scheduled(cycle.profile.stopwatch, cycle)
            self._activate_stashed(cycle)
        elif bound_elsewhere or not self.groups.retries(cycle):
            self.fail(cycle, status, bound_elsewhere=bound_elsewhere)

    def fail(self, cycle: BindingCycle, status: Status, *, bound_elsewhere: bool = False) -> None:
        """End a binding cycle that failed: what the pod took is free again."""
        group = cycle.pod.group
        self.undo(cycle)
        if group is not None:
            self._scheduler.intake.check_group(group)
        self._scheduler.queue.move_all(ASSIGNED_POD_DELETE, cycle.pod, None)
        decision = self._late(cycle)
        self._scheduler.fail(cycle.queued, status, "", decision, bound_elsewhere=bound_elsewhere)
        self._keep(cycle, decision)
        if group in self._scheduler.members.broken:
            self._scheduler.queue.activate([cycle.pod])

    def _observe_scheduled(self, stopwatch: Stopwatch, cycle: BindingCycle) -> None:
        queued, laps = cycle.queued, cycle.laps
        first = queued.initial_attempt_timestamp
        since_first = 0.0 if first is None else self._scheduler.clock() - first
        observe = stopwatch.scheduled.get(len(laps))
        if observe is not None:
            observe(laps, queued.began, queued.attempts, since_first, cycle.state)
        if queued.was_flushed:
            stopwatch.observer.scheduled_after_flush()

    def _activate_stashed(self, cycle: BindingCycle) -> None:
        """Pods that plugins want tried now, left in the cycle's state."""
        stashed = cycle.state.get(PODS_TO_ACTIVATE)
        if stashed:
            self._scheduler.queue.activate(list(stashed.values()))
            stashed.clear()

    def _late(self, cycle: BindingCycle) -> Decision:
        """The record of an attempt that found a node and fails only now."""
        decision = records.start(cycle.pod, cycle.queued.attempts, len(self._scheduler.cluster.table))
        decision.node = cycle.node_name
        return decision

    def _keep(self, cycle: BindingCycle, decision: Decision) -> None:
        if self._scheduler.log is not None:
            self._scheduler.log.add(cycle.pod, decision, self._scheduler.clock())

    def undo(self, cycle: BindingCycle) -> None:
        cycle.profile.unreserve(cycle.state, cycle.pod, cycle.node_name)
        self._scheduler.cluster.forget(cycle.pod.uid)

    def _refused_late(self, cycle: BindingCycle, status: Status, decision: Decision) -> None:
        """Reserve or permit said no: a refusal over one node, or an error."""
        pod = cycle.pod
        if not status.rejected:
            self._scheduler.queue.move_all(ASSIGNED_POD_DELETE, pod, None)
            self._scheduler.fail(cycle.queued, status, "", decision)
            return
        diagnosis = refused_on(cycle.node_name, status)
        refusal = Status(Code.UNSCHEDULABLE, diagnosis.message())
        self._scheduler.fail(cycle.queued, refusal, "", decision, diagnosis)
        self._scheduler.queue.move_all(ASSIGNED_POD_DELETE, pod, None, lambda other: other.uid != pod.uid)
