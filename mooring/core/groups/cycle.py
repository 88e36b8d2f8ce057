"""The group cycle: one attempt at all waiting members of a group, and what follows from it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mooring.api.groups import PodGroup
from mooring.api.meta import Condition
from mooring.api.times import format_time
from mooring.core import decision as records
from mooring.core.decision import Decision
from mooring.core.effects import Write
from mooring.core.groups.binding import GroupBinding
from mooring.core.groups.certificates import Certificates
from mooring.core.groups.dialects import DIALECTS, QUORUM_PLUGINS, group_args
from mooring.core.groups.domains import describe_domain
from mooring.core.groups.placements import PlacementPlanner
from mooring.core.groups.plan import (
    GROUP_UNSCHEDULABLE,
    WAITING_ON_PREEMPTION,
    Member,
    Plan,
    Planner,
    not_started,
)
from mooring.core.groups.preemption import GroupPreemption
from mooring.core.groups.reservations import Reservations
from mooring.core.groups.slices import Sliced, finish, guarded
from mooring.core.queue import QueuedPodInfo
from mooring.framework.handle import Client
from mooring.framework.pod import SCHEDULING_GROUP, GroupKey, PodInfo
from mooring.framework.status import Code, Status
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside, text_of
from mooring.runtime.profile import Profile

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

logger = logging.getLogger("mooring.core")

CONDITION = "PodGroupScheduled"
MOST_RESTARTS = 3  # of a plan that events overtake in its pauses
NO_MEMBER = "no member is waiting to be scheduled"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


class Part(msgspec.Struct, eq=False):
    """A group in an attempt: its waiting members, in the order in which they are tried, and their plan."""

    key: GroupKey
    pods: list[QueuedPodInfo]
    plan: Plan


class GroupCycle:
    """Schedules groups: popping one member means popping all of them, and all of the groups that start
    together with theirs."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._planner = Planner(scheduler)
        self._placements = PlacementPlanner(scheduler, self._planner)
        self._certificates = Certificates(scheduler, self._planner)
        self._reservations = Reservations(scheduler, self._planner)
        self._preemption = GroupPreemption(scheduler, self._planner, self._placements)
        self._planned: set[GroupKey] = set()  # groups whose attempt has begun, and may be in a pause
        self._restarts: Counter[GroupKey] = Counter()
        self._by_placement = scheduler.feature_gates.is_enabled("TopologyAwareWorkloadScheduling")
        self._as_units = scheduler.feature_gates.is_enabled("WorkloadAwarePreemption")
        if scheduler.observer is not None and scheduler.cluster.group_of is not None:
            scheduler.observer.groups_enabled()

    def attempt(self, first: QueuedPodInfo, key: GroupKey) -> Sliced[list[Decision]]:
        """Try the group of a popped pod; the decision about each of its members.

        There is none where the group would fail as before, and waits again.
        """
        keys = self._scheduler.members.attempted_with(key)
        if not self._as_units and self._certificates.put_back(first, keys):
            return []
        if not self._planned.isdisjoint(keys):
            self._put_back([first], key)  # it changes the plan, which is therefore made again
            return []
        parts = [Part(each, self._pop_members(first, each), Plan([])) for each in keys]
        pods = [queued for part in parts for queued in part.pods]
        for part in parts:
            names = list(dict.fromkeys(queued.pod.scheduler_name for queued in part.pods))
            if len(names) > 1:
                reason = (
                    "all pods in a single pod group should have the same .spec.schedulerName set, "
                    f'got: "{names[1]}" and "{names[0]}"'
                )
                return [self._fail_alone(queued, Status(Code.ERROR, reason)) for queued in pods]
        for part in parts:
            part.pods = [queued for queued in part.pods if not self._scheduler.skipped(queued)]
        if not any(part.pods for part in parts):
            return []
        try:
            self._planned.update(keys)
            return (yield from self._attempt(parts))
        except CONTAINED as bug:
            reraise_if_from_outside(bug)
            logger.error("scheduling pod group %s", key, exc_info=bug)
            for profile in self._scheduler.profiles.values():
                profile.forget_all()
            broken = Status(Code.ERROR, text_of(bug))
            return [self._fail_alone(queued, broken) for queued in pods if queued.in_flight]
        finally:
            self._planned.difference_update(keys)

    def _put_back(self, pods: Sequence[QueuedPodInfo], key: GroupKey) -> None:
        """Return popped members to the queue as if they had not been tried."""
        for queued in pods:
            if self._scheduler.intake.pod(queued.pod.uid) is None:
                self._scheduler.queue.done(queued.pod.uid)
                continue
            queued.attempts -= 1
            queued.refused_by((), {DIALECTS[key.api_group].plugin})
            self._scheduler.queue.add_unschedulable_if_not_present(queued, self._scheduler.clock())

    def would_fail(self, key: GroupKey) -> bool:
        """Whether an attempt at a group that waits would fail as before, as far as that is known."""
        if self._as_units:
            return False
        return any(map(self._certificates.hold, self._scheduler.members.attempted_with(key)))

    def _pop_members(self, first: QueuedPodInfo, key: GroupKey) -> list[QueuedPodInfo]:
        """All members that wait in the queue, in the order in which they are tried."""
        scheduler = self._scheduler
        pods = [first] if first.pod.group == key else []
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

    def _attempt(self, parts: Sequence[Part]) -> Sliced[list[Decision]]:
        nominator = self._scheduler.queue.nominator
        pods = [queued for part in parts for queued in part.pods]
        nominations = {queued.pod.uid: nominator.node_of(queued.pod.uid) for queued in pods}
        for queued in pods:  # members are not in each other's way
            nominator.delete(queued.pod.uid)
        observer = self._scheduler.observer
        began = 0.0 if observer is None else observer.timer()
        self._plan(parts)
        if observer is not None:
            observer.group_planned(observer.timer() - began)
        units = self._as_units and parts[0].key.api_group == SCHEDULING_GROUP
        lacks_room = units and any(part.plan.status.code is Code.UNSCHEDULABLE for part in parts)
        if lacks_room and not (yield from self._make_room_in_slices(parts, nominations)):
            self._restart(parts)
            return []
        if len(parts) > 1:
            self._hold(parts)
        else:
            self._reserve(parts[0], nominations)
        for part in parts:
            for queued, member in zip(part.pods, part.plan.members, strict=False):
                if member.nominate is None and nominations[queued.pod.uid]:
                    nominator.add(queued.pod, nominations[queued.pod.uid])
        decisions = self._follow(parts)
        for part in parts:
            if part.plan.kept_until is not None:
                for uid in part.plan.nodes or ():
                    nominator.keep(uid, part.plan.kept_until)
        self._note(parts, began)
        return decisions

    def _make_room_in_slices(self, parts: Sequence[Part], nominations: Mapping[str, str]) -> Sliced[bool]:
        """Look for victims, with pauses unless those have made it begin again too often; whether there is a
        decision."""
        first, pods = parts[0].key, [queued for part in parts for queued in part.pods]
        search = self._make_room(parts)
        if self._restarts[first] >= MOST_RESTARTS:
            is_decided = finish(search)
        else:
            is_decided = yield from guarded(
                search,
                pause=lambda: self._nominate(pods, nominations),
                resume=lambda: self._nominate(pods, {}),
            )
        if is_decided:
            del self._restarts[first]
        return is_decided

    def _note(self, parts: Sequence[Part], began: float) -> None:
        """Note what came of an attempt: what the groups wait for, conditions and metrics."""
        waiting = self._waiting(parts)
        observer = self._scheduler.observer
        for part in parts:
            if part.plan.status.ok:
                self._scheduler.group_waits.started(part.key)
            else:
                if part.pods:
                    certified = waiting.certified([part.plan for part in parts])
                    self._scheduler.group_waits.failed(self._profile(part), part.key, certified)
                self._patch_condition(part.key, part.plan.status)
            if observer is not None and part.pods:
                seconds = observer.timer() - began
                observer.group_attempted(self._profile(part).scheduler_name, part.plan.result, seconds)

    def _profile(self, part: Part) -> Profile:
        return self._scheduler.profiles[part.pods[0].pod.scheduler_name]

    # ---- planning

    def _plan(self, parts: Sequence[Part], *, preempt: bool = True) -> None:
        """Plan the groups. Their plans are in force where all of them are successful.

        A group that finds no place after others is planned before them instead.
        """
        order, moved = list(parts), set[GroupKey]()
        while True:
            misfit = self._plan_in_order(order, preempt)
            if misfit is None or misfit is order[0] or misfit.key in moved:
                return
            moved.add(misfit.key)
            order.remove(misfit)
            order.insert(0, misfit)

    def _plan_in_order(self, parts: Sequence[Part], preempt: bool) -> Part | None:
        """Plan one group after another, each on the state that the ones before it leave; the first that has
        no place."""
        in_force: list[Plan] = []
        misfit: Part | None = None
        try:
            for part in parts:
                part.plan = self._plan_one(part, preempt=preempt)
                if part.plan.waiting_on_preemption and len(parts) > 1:
                    self._planner.redo(part.plan)
                if part.plan.status.ok or part.plan.waiting_on_preemption:
                    in_force.append(part.plan)
                elif misfit is None:
                    misfit = part
        except BaseException:
            self._undo(in_force)
            raise
        if not all(part.plan.status.ok for part in parts):
            self._undo(in_force)
        return misfit

    def _undo(self, plans: Sequence[Plan]) -> None:
        for plan in reversed(plans):
            self._planner.undo(plan)

    def _plan_one(self, part: Part, *, preempt: bool) -> Plan:
        """The plan for a group. It is in force where its status is success."""
        if not part.pods:
            return Plan([], Status(Code.UNSCHEDULABLE, GROUP_UNSCHEDULABLE, NO_MEMBER))
        if self._by_placement:
            return self._placements.plan(self._profile(part), part.key, part.pods, preempt=preempt)
        plan = self._planner.plan(self._profile(part), part.pods, preempt=preempt)
        if not plan.status.ok:
            self._planner.undo(plan)
        return plan

    # ---- what follows

    def _hold(self, parts: Sequence[Part]) -> None:
        """Have groups that have places wait for the others that start together with them."""
        if all(part.plan.status.ok for part in parts):
            return
        placed = [part for part in parts if part.plan.status.ok or part.plan.waiting_on_preemption]
        if len(placed) == len(parts):
            for part in parts:
                part.plan.status = Status(Code.UNSCHEDULABLE, GROUP_UNSCHEDULABLE, WAITING_ON_PREEMPTION)
                part.plan.waiting_on_preemption = True
            return
        others = [f'"{part.key.name}"' for part in parts if part not in placed]
        reason = f"waiting for pod group {', '.join(others)} of the same workload to be scheduled"
        for part in placed:
            part.plan.status = Status(Code.UNSCHEDULABLE, GROUP_UNSCHEDULABLE, reason)
            part.plan.waiting_on_preemption, part.plan.held = False, True

    def _reserve(self, part: Part, nominations: Mapping[str, str]) -> None:
        """Choose nodes that are kept for a group that has waited for too long."""
        plan, profile = part.plan, self._profile(part)
        waits_for_room = plan.status.rejected and not plan.waiting_on_preemption
        if waits_for_room and self._scheduler.group_waits.has_starved(profile, part.key):
            plan.nodes = self._reservations.choose(profile, part.pods, nominations)
            plan.kept_until = self._reservations.last_end(plan.nodes.values())

    def _nominate(self, pods: Sequence[QueuedPodInfo], nodes: Mapping[str, str]) -> None:
        """Keep these nodes for members while their plan is not finished."""
        nominator = self._scheduler.queue.nominator
        for queued in pods:
            if nodes.get(queued.pod.uid):
                nominator.add(queued.pod, nodes[queued.pod.uid])
            else:
                nominator.delete(queued.pod.uid)

    def _restart(self, parts: Sequence[Part]) -> None:
        """Have a plan made again that was overtaken by events; if that goes on, without pauses."""
        self._restarts[parts[0].key] += 1
        for part in parts:
            self._put_back(part.pods, part.key)
        for part in parts:
            pods = self._scheduler.members.pods(part.key)
            self._scheduler.queue.activate([pod for pod in pods if not pod.node_name])

    def _make_room(self, parts: Sequence[Part]) -> Sliced[bool]:
        """Look for victims in the whole cluster that would let the groups in, and evict them. Whether it was
        decided: the cluster may have changed too much in a pause."""

        def plan() -> Plan:
            trial = [Part(part.key, part.pods, Plan([])) for part in parts]
            self._plan(trial, preempt=False)
            refused = next((part.plan for part in trial if not part.plan.status.ok), trial[0].plan)
            if len(trial) == 1:
                return refused
            return Plan([member for part in trial for member in part.plan.members], refused.status)

        lacking = next(part for part in parts if part.plan.status.code is Code.UNSCHEDULABLE)
        if not lacking.pods:
            return True
        entries = [(part.key, part.pods) for part in parts]
        result = yield from self._preemption.run(self._profile(lacking), entries, plan)
        if result is None:
            return False
        for part in parts if result.status.ok else [lacking]:
            status, part.plan.nodes = result.status, result.nodes
            if status.ok:
                part.plan.waiting_on_preemption = True
            elif status.code is Code.ERROR:
                part.plan.status = status
            else:
                part.plan.status = Status(part.plan.status.code, *part.plan.status.reasons, *status.reasons)
        return True

    def _follow(self, parts: Sequence[Part]) -> list[Decision]:
        if all(part.plan.status.ok for part in parts):
            return self._commit(parts)
        decisions = []
        waiting = self._waiting(parts)
        for part in parts:
            plan = part.plan
            evicts = plan.waiting_on_preemption or (
                not plan.held and bool(part.pods) and self._evicts_in_any_case(part.pods[0])
            )
            for i, queued in enumerate(part.pods):
                if i >= len(plan.members):
                    decisions.append(self._fail_alone(queued, plan.status))
                    continue
                member = plan.members[i]
                if member.preemption is not None and member.preemption.victims and evicts:
                    self._scheduler.evictions.preempt(queued.pod, member.preemption)
                decisions.append(self._fail(member, plan, waiting))
        return decisions

    def _waiting(self, parts: Sequence[Part]) -> _Waiting:
        profiles = self._scheduler.profiles
        plans = [part.plan for part in parts]
        names = {member.queued.pod.scheduler_name for plan in plans for member in plan.members}
        plugin = DIALECTS[parts[0].key.api_group].plugin
        enabled = any(plugin in profiles[name].plugins for name in names)
        backs_off = any(group_args(profiles[name], parts[0].key).group_retry == "Backoff" for name in names)
        return _Waiting(plugin if enabled else "", plans, backs_off)

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
            elif plan.held:
                status, diagnosis, nominate = plan.status, None, ""
            elif not plan.waiting_on_preemption:
                status = Status(Code.UNSCHEDULABLE, not_started(member, waiting.misfit))
                diagnosis, nominate = None, ""
        elif self._by_placement and status.rejected:
            status = self._in_domain(member.queued.pod, status)
        if plan.nodes is not None:
            nominate = plan.nodes.get(member.queued.pod.uid, "")
        self._scheduler.fail(
            member.queued,
            status,
            nominate,
            member.decision,
            diagnosis,
            waits_for=waiting.plugins(member),
            backs_off=waiting.backs_off,
        )
        return member.decision

    def _in_domain(self, pod: PodInfo, status: Status) -> Status:
        """The status of a member without a place, with what its topology constraint has to do with that."""
        profile, key = self._scheduler.profiles[pod.scheduler_name], pod.group
        if key is None or group_args(profile, key).preempts_as_kube_scheduler:
            return status
        note = describe_domain(self._scheduler, key, pod)
        return Status(status.code, f"{status.message.removesuffix('.')}. {note}.") if note else status

    def _commit(self, parts: Sequence[Part]) -> list[Decision]:
        """Start the members that have a place; the others fail by themselves."""
        members = [member for part in parts for member in part.plan.members]
        started = [member for member in members if member.cycle is not None]
        cycles = [member.cycle for member in started if member.cycle is not None]

        def opened() -> None:
            for part in parts:
                self._patch_condition(part.key, part.plan.status)

        binding = GroupBinding(cycles, {part.key: self._needed(part) for part in parts}, opened)
        if binding.is_open:
            binding.opened()
        for member in started:
            assert member.cycle is not None
            member.cycle.group = binding
            member.decision.node, member.decision.result = member.cycle.node_name, "scheduled"
            waits = {name: wait for name, wait in member.waits.items() if name not in QUORUM_PLUGINS}
            self._scheduler.bindings.start(member.cycle, waits)
        waiting = self._waiting(parts)
        for part in parts:
            for member in part.plan.members:
                if member.cycle is None:
                    self._fail(member, part.plan, waiting)
        return [member.decision for member in members]

    def _needed(self, part: Part) -> int:
        """How many members of a group that starts must be ready before any is bound."""
        if DIALECTS[part.key.api_group].plugin not in self._profile(part).plugins:
            return 0
        placed = sum(member.cycle is not None for member in part.plan.members)
        members = self._scheduler.members
        return members.minimum(part.key) - (members.scheduled(part.key) - placed)

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

    def __init__(self, quorum_plugin: str, plans: Sequence[Plan], backs_off: bool) -> None:
        self.misfit = plans[0].misfit
        self.backs_off = backs_off
        self._gang = frozenset({quorum_plugin}) if quorum_plugin else frozenset()
        members = [(member, plan) for plan in plans for member in plan.members]
        diagnoses = [member.diagnosis for member, _ in members if member.diagnosis is not None]
        self._refusing = frozenset(
            p for d in diagnoses for p in (*d.unschedulable_plugins, *d.pending_plugins)
        )
        waiting = [member for member, plan in members if not plan.status.ok or member.cycle is None]
        self._shapes = {id(member.queued.pod.shape): member for member in reversed(waiting)}

    def certified(self, plans: Sequence[Plan]) -> frozenset[str]:
        """The plugins whose events retry the group, where only these and no time does."""
        diagnoses = [member.diagnosis for plan in plans for member in plan.members]
        timed = any(each is not None and each.not_before() is not None for each in diagnoses)
        rejected = all(plan.status.rejected for plan in plans)
        certain = rejected and not timed and not self.backs_off
        return self._refusing | self._gang if certain else frozenset()

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
