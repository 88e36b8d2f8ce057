"""The group cycle: one attempt at all waiting members of a group, and what follows from it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mooring.api.groups import PodGroup
from mooring.api.meta import Condition
from mooring.api.times import format_time
from mooring.core import decision as records
from mooring.core.decision import Decision
from mooring.core.effects import Write
from mooring.core.groups.binding import GroupBinding
from mooring.core.groups.dialects import DIALECTS, QUORUM_PLUGINS
from mooring.core.groups.placements import PlacementPlanner
from mooring.core.groups.plan import Member, Plan, Planner, not_started
from mooring.core.groups.preemption import GroupPreemption
from mooring.core.groups.reservations import Reservations
from mooring.core.queue import QueuedPodInfo
from mooring.framework.handle import Client
from mooring.framework.pod import SCHEDULING_GROUP, GroupKey
from mooring.framework.status import Code, Status
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside
from mooring.runtime.profile import Profile

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

logger = logging.getLogger("mooring.core")

CONDITION = "PodGroupScheduled"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


class GroupCycle:
    """Schedules groups: popping one member means popping all of them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._planner = Planner(scheduler)
        self._placements = PlacementPlanner(scheduler, self._planner)
        self._reservations = Reservations(scheduler, self._planner)
        self._preemption = GroupPreemption(scheduler, self._planner, self._placements)
        self._by_placement = scheduler.feature_gates.is_enabled("TopologyAwareWorkloadScheduling")
        self._as_units = scheduler.feature_gates.is_enabled("WorkloadAwarePreemption")
        if scheduler.observer is not None and scheduler.cluster.group_of is not None:
            scheduler.observer.groups_enabled()

    def attempt(self, first: QueuedPodInfo, key: GroupKey) -> list[Decision]:
        """Try the group of a popped pod; the decision about each of its members."""
        pods = self._pop_members(first, key)
        names = list(dict.fromkeys(queued.pod.scheduler_name for queued in pods))
        if len(names) > 1:
            reason = (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{names[1]}" and "{names[0]}"'
            )
            return [self._fail_alone(queued, Status(Code.ERROR, reason)) for queued in pods]
        pods = [queued for queued in pods if not self._scheduler.skipped(queued)]
        if not pods:
            return []
        profile = self._scheduler.profiles[names[0]]
        try:
            return self._attempt(profile, key, pods)
        except CONTAINED as bug:
            reraise_if_from_outside(bug)
            logger.error("scheduling pod group %s", key, exc_info=bug)
            profile.forget_all()
            broken = Status(Code.ERROR, f"{type(bug).__name__}: {bug}")
            return [self._fail_alone(queued, broken) for queued in pods if queued.in_flight]

    def _pop_members(self, first: QueuedPodInfo, key: GroupKey) -> list[QueuedPodInfo]:
        """All members that wait in the queue, in the order in which they are tried."""
        scheduler = self._scheduler
        pods = [first]
        for pod in list(scheduler.members.pods(key)):
            if pod.uid != first.pod.uid and scheduler.cluster.placed(pod.uid) is None:
                queued = scheduler.queue.pop_specific(pod)
                if queued is not None:
                    pods.append(queued)
        return sorted(pods, key=trial_order)

    def _fail_alone(self, queued: QueuedPodInfo, status: Status) -> Decision:
        decision = records.start(queued.pod, queued.attempts, len(self._scheduler.cluster.table.nodes))
        self._scheduler.fail(queued, status, "", decision)
        return decision

    def _attempt(self, profile: Profile, key: GroupKey, pods: list[QueuedPodInfo]) -> list[Decision]:
        nominator = self._scheduler.queue.nominator
        nominations = {queued.pod.uid: nominator.node_of(queued.pod.uid) for queued in pods}
        for queued in pods:  # members are not in each other's way
            nominator.delete(queued.pod.uid)
        observer = self._scheduler.observer
        began = 0.0 if observer is None else observer.timer()
        plan = self._plan(profile, key, pods)
        if observer is not None:
            observer.group_planned(observer.timer() - began)
        units = self._as_units and key.api_group == SCHEDULING_GROUP
        if units and plan.status.code is Code.UNSCHEDULABLE:
            plan = self._make_room(profile, key, pods, plan)
        waits_for_room = plan.status.rejected and not plan.waiting_on_preemption
        if waits_for_room and self._scheduler.group_waits.has_starved(profile, key):
            plan.nodes = self._reservations.choose(profile, pods, nominations)
        for queued, member in zip(pods, plan.members, strict=False):
            if member.nominate is None and nominations[queued.pod.uid]:
                nominator.add(queued.pod, nominations[queued.pod.uid])
        decisions = self._follow(key, pods, plan)
        if plan.status.ok:
            self._scheduler.group_waits.started(key)
        else:
            self._scheduler.group_waits.failed(profile, key)
            self._patch_condition(key, plan.status)
        if observer is not None:
            observer.group_attempted(profile.scheduler_name, plan.result, observer.timer() - began)
        return decisions

    # ---- planning

    def _plan(
        self, profile: Profile, key: GroupKey, pods: Sequence[QueuedPodInfo], *, preempt: bool = True
    ) -> Plan:
        """The plan for the group. It is in force where its status is success."""
        if self._by_placement:
            return self._placements.plan(profile, key, pods, preempt=preempt)
        plan = self._planner.plan(profile, pods, preempt=preempt)
        if not plan.status.ok:
            self._planner.undo(plan)
        return plan

    # ---- what follows

    def _make_room(self, profile: Profile, key: GroupKey, pods: Sequence[QueuedPodInfo], plan: Plan) -> Plan:
        """Look for victims in the whole cluster that would let the group in, and evict them."""
        result = self._preemption.run(
            profile, key, pods, lambda: self._plan(profile, key, pods, preempt=False)
        )
        status, plan.nodes = result.status, result.nodes
        if status.ok:
            plan.waiting_on_preemption = True
        elif status.code is Code.ERROR:
            plan.status = status
        else:
            plan.status = Status(plan.status.code, *plan.status.reasons, *status.reasons)
        return plan

    def _follow(self, key: GroupKey, pods: Sequence[QueuedPodInfo], plan: Plan) -> list[Decision]:
        if plan.status.ok:
            return self._commit(key, plan)
        decisions = []
        evicts = plan.waiting_on_preemption or self._evicts_in_any_case(pods[0])
        waiting = self._waiting(key, plan)
        for i, queued in enumerate(pods):
            if i >= len(plan.members):
                decisions.append(self._fail_alone(queued, plan.status))
                continue
            member = plan.members[i]
            if member.preemption is not None and member.preemption.victims and evicts:
                self._scheduler.evictions.preempt(queued.pod, member.preemption)
            decisions.append(self._fail(member, plan, waiting))
        return decisions

    def _waiting(self, key: GroupKey, plan: Plan) -> _Waiting:
        profiles = self._scheduler.profiles
        names = {member.queued.pod.scheduler_name for member in plan.members}
        plugin = DIALECTS[key.api_group].plugin
        return _Waiting(plugin if any(plugin in profiles[name].plugins for name in names) else "", plan)

    def _evicts_in_any_case(self, queued: QueuedPodInfo) -> bool:
        plugin = self._scheduler.profiles[queued.pod.scheduler_name].plugins.get("GangScheduling")
        return plugin is not None and plugin.args.evict_for_unschedulable_groups

    def _fail(self, member: Member, plan: Plan, waiting: _Waiting) -> Decision:
        """Put a member of a group that does not start back into the queue."""
        status, diagnosis, nominate = member.status, member.diagnosis, member.nominate
        if plan.status.code is Code.ERROR:
            status, diagnosis, nominate = plan.status, None, ""
            if member.status.code is Code.ERROR:
                status = member.status
        elif member.has_place:
            if plan.waiting_on_preemption and member.status.ok:
                status = plan.status
                nominate = "" if member.cycle is None else member.cycle.node_name
            elif not plan.waiting_on_preemption:
                status = Status(Code.UNSCHEDULABLE, not_started(member, waiting.misfit))
                diagnosis, nominate = None, ""
        if plan.nodes is not None:
            nominate = plan.nodes.get(member.queued.pod.uid, "")
        self._scheduler.fail(
            member.queued, status, nominate, member.decision, diagnosis, waits_for=waiting.plugins(member)
        )
        return member.decision

    def _commit(self, key: GroupKey, plan: Plan) -> list[Decision]:
        """Start the members that have a place; the others fail by themselves."""
        started = [member for member in plan.members if member.cycle is not None]
        cycles = [member.cycle for member in started if member.cycle is not None]
        group = self._scheduler.members.group(key)
        gang = DIALECTS[key.api_group].plugin in cycles[0].profile.plugins
        minimum = (group.min_count or 0) if group is not None and gang else 0
        already = self._scheduler.members.scheduled(key) - len(cycles)
        binding = GroupBinding(
            cycles, minimum - already, opened=lambda: self._patch_condition(key, plan.status)
        )
        if binding.is_open:
            binding.opened()
        for member in started:
            assert member.cycle is not None
            member.cycle.group = binding
            member.decision.node, member.decision.result = member.cycle.node_name, "scheduled"
            waits = {name: wait for name, wait in member.waits.items() if name not in QUORUM_PLUGINS}
            self._scheduler.bindings.start(member.cycle, waits)
        waiting = self._waiting(key, plan)
        for member in plan.members:
            if member.cycle is None:
                self._fail(member, plan, waiting)
        return [member.decision for member in plan.members]

    def _patch_condition(self, key: GroupKey, status: Status) -> None:
        """Write the condition of the PodGroup. Once it is True it stays so."""
        group = self._scheduler.members.group(key)
        if group is None:
            logger.warning("pod group %s: not found; its condition is not written", key)
            return
        if not isinstance(group, PodGroup):  # that of Coscheduling has a phase instead of conditions
            return
        if status.ok:
            condition = Condition(type=CONDITION, status="True", reason="Scheduled")
        else:
            reason = "Unschedulable" if status.rejected else "SchedulerError"
            condition = Condition(type=CONDITION, status="False", reason=reason, message=status.message)
        current = next((c for c in group.status.conditions if c.type == CONDITION), None)
        if current is not None and current.status == "True":
            return
        fields = ("status", "reason", "message")
        if current is not None and all(getattr(current, f) == getattr(condition, f) for f in fields):
            return
        now = format_time(self._scheduler.clock())
        same_status = current is not None and current.status == condition.status
        condition.last_transition_time = current.last_transition_time if current and same_status else now
        condition.observed_generation = group.metadata.generation
        others = [c for c in group.status.conditions if c.type != CONDITION]
        conditions = [msgspec.to_builtins(each) for each in (*others, condition)]
        for each in conditions:
            each.setdefault("message", "")  # required, even where it is empty

        async def write(client: Client) -> None:
            try:
                await client.patch(group, {"status": {"conditions": conditions}}, "status")
            except Exception as failure:
                logger.error("pod group %s: failed to update its status: %s", key, failure)

        self._scheduler.effects.append(Write(write))


class _Waiting:
    """Which plugins' events retry the group after a failed attempt.

    One member of each shape stands for its equals: the events of all plugins that refused members retry it,
    and with it the group. The others wait for members and the PodGroup only.
    """

    def __init__(self, quorum_plugin: str, plan: Plan) -> None:
        self.misfit = plan.misfit
        self._gang = frozenset({quorum_plugin}) if quorum_plugin else frozenset()
        diagnoses = [member.diagnosis for member in plan.members if member.diagnosis is not None]
        self._refusing = frozenset(
            p for d in diagnoses for p in (*d.unschedulable_plugins, *d.pending_plugins)
        )
        waiting = [member for member in plan.members if not plan.status.ok or member.cycle is None]
        self._shapes = {id(member.queued.pod.shape): member for member in reversed(waiting)}

    def plugins(self, member: Member) -> frozenset[str]:
        stands_for_shape = self._shapes[id(member.queued.pod.shape)] is member
        return self._refusing | self._gang if stands_for_shape or not self._gang else self._gang


def trial_order(queued: QueuedPodInfo) -> tuple[int, str, int, str]:
    """Higher priority first, then older, then by index of an indexed Job, then by name."""
    meta = queued.pod.metadata
    index = meta.labels.get(COMPLETION_INDEX, "")
    return (
        -queued.pod.priority,
        meta.creation_timestamp or "",
        int(index) if index.isdecimal() else 0,
        meta.name,
    )
