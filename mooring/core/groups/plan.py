"""Planning a group: where each member would go, decided on the state as the members before it leave it.

Members are tried in order like single pods, assumed and reserved one after another. The plan is a
transaction: it stays in force when it is committed, and `undo` takes everything back otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from mooring.api.groups import PodGroup
from mooring.core import decision as records
from mooring.core.algorithm import NO_NODES, Choice
from mooring.core.binding import BindingCycle
from mooring.core.decision import Decision
from mooring.core.diagnosis import DiagnosedStatuses, Diagnosis
from mooring.core.groups.dialects import DIALECTS, QUORUM_PLUGINS, AnyPodGroup, group_args
from mooring.core.groups.room import alike, measure
from mooring.core.groups.search import search_for
from mooring.core.queue import QueuedPodInfo
from mooring.framework.nodes import BoolArray
from mooring.framework.plugin import PostFilterResult
from mooring.framework.pod import COSCHEDULING_GROUP, GroupKey, PodInfo
from mooring.framework.status import SUCCESS, Code, Status
from mooring.plugins.gang_scheduling import PERMIT_TIMEOUT, GangScheduling
from mooring.runtime.profile import Profile
from mooring.runtime.runners import PluginError

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

logger = logging.getLogger("mooring.core")

DEFAULT_PREEMPTION = "DefaultPreemption"
GROUP_UNSCHEDULABLE = "pod group is unschedulable"
WAITING_ON_PREEMPTION = "pod group is waiting for preemption to complete"
ASKED_TO_WAIT = "one or more plugins asked to wait and no plugin rejected pod"
_FOR_LOWER_PRIORITIES = frozenset(("DynamicResources", DEFAULT_PREEMPTION))
"""Plugins whose post_filter finds a node only where pods of lower priority leave, or acts on claims only."""

Waits = Mapping[str, tuple[float, Status]]


class Member(msgspec.Struct, eq=False):
    """One pod of a group and what the plan has for it."""

    queued: QueuedPodInfo
    decision: Decision
    status: Status = SUCCESS  # its own: why it has no node
    diagnosis: Diagnosis | None = None
    nominate: str | None = ""  # what its failure does to its nomination
    preemption: PostFilterResult | None = None
    cycle: BindingCycle | None = None  # where it has a place, perhaps only after preemption
    waits: Waits = {}  # the permit plugins that are to be waited for

    @property
    def has_place(self) -> bool:
        return self.cycle is not None or bool(self.waits)

    @property
    def requires_preemption(self) -> bool:
        return self.cycle is not None and not self.status.ok

    @property
    def permit_message(self) -> str:
        """What permit said, as kube-scheduler words it for a group that does not start."""
        reasons = [status.message for _, status in self.waits.values()]
        return ", ".join([GROUP_UNSCHEDULABLE, *reasons, *([ASKED_TO_WAIT] if reasons else [])])


class Plan(msgspec.Struct, eq=False):
    """What planning a group came to. The status is success where the quorum has a place now."""

    members: list[Member]
    status: Status = Status(Code.UNSCHEDULABLE, GROUP_UNSCHEDULABLE)
    waiting_on_preemption: bool = False
    held: bool = False  # it has a place, and one that starts together with it has none
    nodes: Mapping[str, str] | None = None  # by uid: those kept for members until victims have left
    kept_until: float | None = None  # when the last pod on nodes kept for a starving gang has to end

    @property
    def result(self) -> str:
        """As kube-scheduler's metrics name it."""
        if self.status.ok:
            return "scheduled"
        if not self.status.rejected:
            return "error"
        return "waiting_on_preemption" if self.waiting_on_preemption else "unschedulable"

    @property
    def misfit(self) -> PodInfo | None:
        """The first member that has no place."""
        return next((member.queued.pod for member in self.members if not member.has_place), None)


class Planner:
    """Makes and undoes plans."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._in_full = False  # whether decisions are recorded in full
        self._as_units = scheduler.feature_gates.is_enabled("WorkloadAwarePreemption")
        self._by_placement = scheduler.feature_gates.is_enabled("TopologyAwareWorkloadScheduling")

    def plan(
        self,
        profile: Profile,
        pods: Sequence[QueuedPodInfo],
        within: BoolArray | None = None,
        parts: Sequence[BoolArray] = (),
        *,
        preempt: bool = True,
        whole: bool = True,
    ) -> Plan:
        """Find a place for each pod and leave those that have one assumed there.

        Of the rows `within` which they are placed, members prefer the first of the `parts` that takes them.
        A plan that is not needed `whole` ends where the quorum is out of reach.
        """
        self._in_full = self._scheduler.records_all()
        verdict = self._verdict(profile, pods, within, preempt)
        if verdict is not None:
            return verdict
        enough = 0 if whole else self.missing(profile, pods[0].pod)
        plan = self._in_order(profile, pods, within, parts, preempt, enough=enough)
        if plan.status.code is Code.UNSCHEDULABLE:
            return self._searched(profile, pods, within, plan)
        return plan

    def _searched(
        self, profile: Profile, pods: Sequence[QueuedPodInfo], within: BoolArray | None, plan: Plan
    ) -> Plan:
        """The plan with places that were searched for, where the members in order did not have enough."""
        key = pods[0].pod.group
        steps = 0 if key is None else group_args(profile, key).planning_steps
        infos = [queued.pod for queued in pods]
        self.undo(plan)
        search = search_for(self._scheduler, profile, infos, within, steps)
        places = None if search is None else search.find(infos)
        if search is not None and places is not None:
            rows = np.arange(len(self._scheduler.cluster.table))
            only = {uid: rows == row for uid, row in places.items()}
            searched = self._in_order(profile, pods, within, (), False, only)
            if searched.status.ok:
                logger.info("pod group %s: greedy failed, places found in %d steps", key, search.steps)
                return searched
            self.undo(searched)
        self.redo(plan)
        return plan

    def _in_order(
        self,
        profile: Profile,
        pods: Sequence[QueuedPodInfo],
        within: BoolArray | None,
        parts: Sequence[BoolArray],
        preempt: bool,
        only: Mapping[str, BoolArray] | None = None,
        enough: int = 0,
    ) -> Plan:
        """Try one member after another, while `enough` of them may get a place; `only` says on which row each
        of them goes."""
        total = len(self._scheduler.cluster.table.nodes)
        plan = Plan([])
        requires_preemption = False
        may_fail = len(pods) - enough
        try:
            for queued in pods:
                member = Member(queued, records.start(queued.pod, queued.attempts, total))
                plan.members.append(member)
                part = self._part(profile, queued.pod, parts) if parts else None
                if only is not None:
                    part = only[queued.pod.uid]
                self._try(profile, member, within if part is None else part, preempt)
                if member.cycle is None:
                    may_fail -= 1
                    if member.status.rejected and may_fail >= 0:
                        continue
                    if member.status.rejected:
                        break
                    reason = f"failed to schedule other pod from a pod group: {member.status.message}"
                    plan.status, plan.waiting_on_preemption = Status(Code.ERROR, reason), False
                    break
                requires_preemption |= member.requires_preemption
                if not QUORUM_PLUGINS.isdisjoint(member.waits):
                    continue
                if requires_preemption:
                    plan.status = Status(Code.UNSCHEDULABLE, GROUP_UNSCHEDULABLE, WAITING_ON_PREEMPTION)
                    plan.waiting_on_preemption = True
                else:
                    plan.status = SUCCESS
        except BaseException:
            self.undo(plan)
            raise
        return plan

    def _part(self, profile: Profile, pod: PodInfo, parts: Sequence[BoolArray]) -> BoolArray | None:
        """The first part that takes a pod."""
        try:
            feasible = self._scheduler.algorithm.filtered(profile, pod).feasible
        except PluginError:
            return None  # the attempt that follows reports it
        return None if feasible is None else next((part for part in parts if (feasible & part).any()), None)

    def _verdict(
        self, profile: Profile, pods: Sequence[QueuedPodInfo], within: BoolArray | None, preempt: bool
    ) -> Plan | None:
        """The plan for equal members whose quorum has no place, made without placing any of them; None where
        that cannot be said beforehand.

        Whichever nodes the members that have a place would go to, in the end all nodes are full, so the
        others' diagnosis is the same.
        """
        first = pods[0].pod
        if not self.may_judge_beforehand(profile, first, preempt):
            return None
        missing = self.missing(profile, first)
        if missing <= 1 or not alike([queued.pod for queued in pods]):
            return None
        room = measure(self._scheduler, profile, first)
        if room is None:
            return None
        capacities = room.capacities() if within is None else np.where(within, room.capacities(), 0)
        places = int(np.minimum(capacities, missing).sum())
        if places >= missing:
            return None
        plan, cluster = Plan([]), self._scheduler.cluster
        total = len(cluster.table.nodes)
        for queued in pods:
            plan.members.append(Member(queued, records.start(queued.pod, queued.attempts, total)))
        waits = {GangScheduling.name: (PERMIT_TIMEOUT, GangScheduling.WAITING)}
        for member in plan.members[:places]:
            member.waits = waits
        with cluster.filled(first.shape, capacities):
            self._try_one_for_all(profile, plan.members[places:], within, preempt)
        return plan

    def _try_one_for_all(
        self, profile: Profile, members: Sequence[Member], within: BoolArray | None, preempt: bool
    ) -> None:
        first = members[0]
        self._try(profile, first, within, preempt)
        assert first.cycle is None
        for member in members[1:]:
            member.queued.began = first.queued.began
            member.status, member.diagnosis, member.nominate = first.status, first.diagnosis, first.nominate
            member.decision.refused, member.decision.post_filter = (
                first.decision.refused,
                first.decision.post_filter,
            )

    def may_judge_beforehand(self, profile: Profile, pod: PodInfo, preempt: bool) -> bool:
        """Whether a plan may be judged without placing members: their nodes are not recorded, and none of
        them may make room for itself."""
        if self._scheduler.records_all() or pod.group is None:
            return False
        return not preempt or not self.may_preempt(profile, pod, pod.group)

    def may_preempt(self, profile: Profile, pod: PodInfo, group: GroupKey) -> bool:
        """Whether a member may make room for itself, or be nominated to a node that it has now."""
        named = self._as_units and group_args(profile, group).preempts_as_kube_scheduler
        return named or self._preempts_by_pod(profile, pod)

    def _preempts_by_pod(self, profile: Profile, pod: PodInfo) -> bool:
        """Whether post_filter may find a node for a member that fits nowhere."""
        plugins = profile.points.get("postFilter", ())
        if _FOR_LOWER_PRIORITIES.issuperset(plugins) and not (
            plugins and self._scheduler.cluster.has_pods_below(pod.priority)
        ):
            return False
        group = self._group(pod)
        if not isinstance(group, PodGroup):
            return True
        constrained = group.spec.scheduling_constraints is not None
        return not (self._as_units or (self._by_placement and constrained))

    def missing(self, profile: Profile, pod: PodInfo) -> int:
        """How many more members must have a place for the gang to start."""
        group = self._group(pod)
        if group is None or pod.group is None or DIALECTS[pod.group.api_group].plugin not in profile.plugins:
            return 0
        return (group.min_count or 0) - self._scheduler.members.scheduled(pod.group)

    def _group(self, pod: PodInfo) -> AnyPodGroup | None:
        return None if pod.group is None else self._scheduler.members.group(pod.group)

    def undo(self, plan: Plan) -> None:
        """Take back what the plan assumed and reserved, last first."""
        for member in reversed(plan.members):
            if member.cycle is not None:
                self._scheduler.bindings.undo(member.cycle)

    def redo(self, plan: Plan) -> None:
        """Assume and reserve again what `undo` took back."""
        for member in plan.members:
            cycle = member.cycle
            if cycle is None:
                continue
            self._scheduler.cluster.assume(cycle.pod, cycle.node_name)
            status = cycle.profile.reserve(cycle.state, cycle.pod, cycle.node_name)
            if not status.ok:
                self._scheduler.bindings.undo(cycle)
                member.cycle, member.status = None, status

    def _try(self, profile: Profile, member: Member, within: BoolArray | None, preempt: bool) -> None:
        scheduler, queued = self._scheduler, member.queued
        if profile.stopwatch is not None:
            queued.began = profile.stopwatch.timer()
            profile.stopwatch.laps = [queued.began]
        try:
            choice = scheduler.algorithm.choose(profile, queued.pod, scheduler.record, within)
            if choice.failure is not None:
                raise choice.failure
        except PluginError as failure:
            if profile.stopwatch is not None:
                profile.stopwatch.failed()
            member.status = Status(Code.ERROR, str(failure), plugin=failure.plugin)
            return
        scheduler.record_choice(member.decision, choice, self._in_full)
        node_name = choice.node_name
        if choice.row is None:
            node_name = self._no_node(profile, member, choice, preempt)
        if node_name:
            self._assume(profile, member, choice, node_name)

    def _no_node(self, profile: Profile, member: Member, choice: Choice, preempt: bool) -> str:
        """Note why a pod fits nowhere; the node that preemption would make room on, or ""."""
        diagnosis, stopwatch = choice.diagnosis, profile.stopwatch
        if diagnosis.total == 0:
            if stopwatch is not None:
                stopwatch.no_node()
            member.status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_NODES)
            return ""
        member.diagnosis, suffix = diagnosis, ""
        if stopwatch is not None:
            stopwatch.no_fit(choice.state, diagnosis.pre_filter)
        if preempt and profile.points.get("postFilter"):
            pod = member.queued.pod
            result = profile.post_filter(choice.state, pod, DiagnosedStatuses(diagnosis))
            member.preemption, member.nominate = result, result.nominated_node
            suffix = "" if result.status is None else result.status.message
            self._scheduler.record_post_filter(member.decision, result, self._in_full)
        if stopwatch is not None:
            stopwatch.no_node()
        member.status = Status(Code.UNSCHEDULABLE, diagnosis.message(suffix))
        return member.nominate or ""

    def _assume(self, profile: Profile, member: Member, choice: Choice, node_name: str) -> None:
        """Count a member on its node, reserve what it needs, and ask for permission."""
        scheduler, pod = self._scheduler, member.queued.pod
        placed = pod.placed_on(node_name)
        scheduler.cluster.assume(placed, node_name)
        scheduler.queue.nominator.delete(pod.uid)
        cycle = member.cycle = BindingCycle(profile, choice.state, member.queued, placed, node_name)
        cycle.evaluated_nodes, cycle.feasible_nodes = member.decision.nodes, member.decision.feasible_nodes
        if scheduler.extenders:
            cycle.binders = scheduler.extenders.binding(pod)
        stopwatch = profile.stopwatch
        status = profile.reserve(cycle.state, placed, node_name)
        if status.ok:
            if stopwatch is not None:
                stopwatch.laps.append(stopwatch.timer())
            status, member.waits = profile.permit(cycle.state, placed, node_name)
        if status.ok:
            if stopwatch is not None:
                cycle.laps = stopwatch.laps
                cycle.laps.append(stopwatch.timer())
            return
        if stopwatch is not None:
            stopwatch.refused(status.code, cycle.state)
        scheduler.bindings.undo(cycle)
        member.cycle, member.nominate = None, ""
        if not status.rejected:
            member.status, member.diagnosis = status, None
            return
        member.diagnosis = refused_on(node_name, status)
        member.status = Status(Code.UNSCHEDULABLE, member.diagnosis.message())


def not_started(member: Member, misfit: PodInfo | None) -> str:
    """Why a member with a place does not start; a group of Coscheduling names one that has none."""
    pod = member.queued.pod
    if pod.group is None or pod.group.api_group != COSCHEDULING_GROUP:
        return member.permit_message
    if misfit is None:
        return f"pre-filter pod {pod.name} cannot find enough sibling pods in the queue"
    return (
        f"PodGroup {pod.group} gets rejected due to Pod {misfit.name} is unschedulable even after PostFilter"
    )


def refused_on(node_name: str, status: Status) -> Diagnosis:
    """The diagnosis of a pod that reserve or permit refused: a refusal over one node."""
    diagnosis = Diagnosis({node_name: 0})
    diagnosis.explicit[0] = status
    diagnosis.finish()
    return diagnosis
