"""DefaultPreemption: when a pod fits nowhere, make room by evicting pods of lower priority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mooring.api.groups import PodGroup
from mooring.api.workloads import PodDisruptionBudget
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import NodeInfo
from mooring.framework.plugin import Plugin, PostFilterResult
from mooring.framework.pod import SCHEDULING_GROUP, GroupKey, PodInfo
from mooring.framework.status import Code, Status, error, unresolvable, unschedulable
from mooring.plugins.args import DefaultPreemptionArgs
from mooring.plugins.default_preemption.extenders import ask_extenders
from mooring.plugins.default_preemption.victims import NO_VICTIMS, Candidate, DryRun, try_rows
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.engine_nodes import Mark, NodeStatuses
from mooring.runtime.extender import ExtenderCallError


class PreemptionDetail(NamedTuple):
    """How a preemption was decided, for explanations."""

    candidates: dict[str, Candidate]
    best: tuple[str, ...]  # the nodes among which nothing but chance decides


class _Hopeless(NamedTuple):
    """The result where preemption helps on none of these rows of the node table."""

    rows: list[int]
    result: PostFilterResult


class _Remembered(NamedTuple):
    """Dry runs of earlier pods of the same shape, with what they rest on."""

    mark: Mark
    budgets: int
    dry_run: DryRun


_DRY_RUNS = StateKey[_Remembered]("DefaultPreemption/dry-runs")


class DefaultPreemption(Plugin[DefaultPreemptionArgs]):
    """Finds the node where evicting lower-priority pods hurts least, and nominates the pod to it."""

    name = "DefaultPreemption"
    handle: EngineHandle

    NOT_HELPFUL = "Preemption is not helpful for scheduling"
    NEVER = unschedulable("preemption: not eligible due to preemptionPolicy=Never.")
    TERMINATING = unschedulable("preemption: not eligible due to a terminating pod on the nominated node.")
    NONE_LEFT = unschedulable("preemption: no candidate node for preemption")
    EVICTING = unresolvable("waiting for the preemption for this pod to be finished")
    GROUP_EVICTING = unresolvable("waiting for the preemption for this pod group to be finished")
    NO_GROUP = unschedulable("preemption: pod group for pod not found")
    BY_PLACEMENT = unschedulable(
        "preemption: not eligible due to placement-based pod group scheduling limitation"
    )
    BY_GROUP = unschedulable("preemption: not eligible due to workload aware preemption enabled")

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if pod.group is None:
            return self.EVICTING if self.handle.is_preempting(pod.uid) else None
        return self._group_evicting(pod.group)

    def _group_evicting(self, key: GroupKey) -> Status | None:
        """Hold the members of a group until the victims of all of them are gone."""
        if not self.handle.any_preempting():
            return None
        for each in self.handle.groups.together(key):
            group = self.handle.groups.group(each)
            if group is not None and self.handle.is_preempting(group.uid):
                return self.GROUP_EVICTING
            if any(self.handle.is_preempting(pod.uid) for pod in self.handle.groups.pods(each)):
                return self.EVICTING
        return None

    def events_to_register(self) -> Iterable[EventHint]:
        # Never by itself: a preemptor comes back through the plugins that refused it.
        return [requeue_on(Resource.POD, Action.DELETE, lambda pod, old, new: Hint.SKIP)]

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> PostFilterResult:
        assert isinstance(statuses, NodeStatuses)
        refusal = self._not_eligible(pod, statuses)
        if refusal is not None:
            return PostFilterResult(None, refusal)
        if not self.handle.snapshot.has_pods_below(pod.priority):
            return self._without_victims(statuses.count_with(Code.UNSCHEDULABLE))
        rows = statuses.rows_with(Code.UNSCHEDULABLE).tolist()
        dry_run = self._valid_dry_run(state)
        own = self.handle.snapshot.nodes.index(self.handle.nominated_node(pod.uid))
        if own is not None:  # its own nomination is in the way of the others of its shape, not of itself
            dry_run.forget(own)
        result = self._try(state, pod, rows, dry_run)
        if own is not None:
            dry_run.forget(own)
        return result

    def _try(self, state: CycleState, pod: PodInfo, rows: list[int], dry_run: DryRun) -> PostFilterResult:
        start = self._start(len(rows))
        hopeless: _Hopeless | None = dry_run.conclusion
        if hopeless is not None and hopeless.rows == rows:
            return hopeless.result
        candidates = self._candidates(state, pod, rows, start, dry_run)
        if candidates:
            result = self._decide(pod, candidates)
        else:
            result = self._hopeless(rows, dry_run)
            dry_run.conclusion = _Hopeless(rows, result)
        dry_run.forget_failures()
        return result

    def _not_eligible(self, pod: PodInfo, statuses: Mapping[str, Status]) -> Status | None:
        if pod.group is not None:
            refusal = self._not_eligible_in_group(pod.group)
            if refusal is not None:
                return refusal
        if pod.spec.preemption_policy == "Never":
            return self.NEVER
        nominated = pod.status.nominated_node_name
        node = self.handle.snapshot.node(nominated) if nominated else None
        if node is None:
            return None
        status = statuses.get(nominated)
        if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        return self.TERMINATING if _making_room(node, pod) else None

    def _not_eligible_in_group(self, key: GroupKey) -> Status | None:
        """Groups that are tried in several placements, or that preempt as a whole, do not preempt by pod."""
        if key.api_group != SCHEDULING_GROUP:
            return None
        if self.handle.feature_enabled("TopologyAwareWorkloadScheduling"):
            group = self.handle.listers.get(PodGroup, key.name, key.namespace)
            if group is None:
                return self.NO_GROUP
            if group.spec.scheduling_constraints is not None:
                return self.BY_PLACEMENT
        return self.BY_GROUP if self.handle.feature_enabled("WorkloadAwarePreemption") else None

    def _start(self, potential: int) -> int:
        """Return the position of the first node to try: a random one, unless all are tried."""
        return self.handle.random_below(potential) if self._enough_candidates(potential) < potential else 0

    def _without_victims(self, potential: int) -> PostFilterResult:
        """Return what trying every node would come to where no pod has a lower priority."""
        self._start(potential)  # so that the choices that follow do not depend on this shortcut
        counts = {NO_VICTIMS.message: potential} if potential else {}
        return self._no_candidates(counts, potential)

    def _candidates(
        self, state: CycleState, pod: PodInfo, rows: list[int], start: int, dry_run: DryRun
    ) -> list[Candidate]:
        """Try the nodes from `start` on, until there are enough candidates to choose from."""
        enough = self._enough_candidates(len(rows))
        order = rows[start:] + rows[:start]
        candidates_found: list[Candidate] = []
        harmless = False
        position = 0
        while position < len(order) and not (len(candidates_found) >= enough and harmless):
            batch = order[position : position + max(enough - len(candidates_found), 16)]
            position += len(batch)
            refusals, candidates = dry_run.refusals, dry_run.candidates
            fresh = [row for row in batch if row not in refusals and row not in candidates]
            if fresh:
                try_rows(self.handle, state, pod, fresh, dry_run)
            if candidates:
                for candidate in filter(None, map(candidates.get, batch)):
                    candidates_found.append(candidate)
                    harmless = harmless or candidate.pdb_violations == 0
        return candidates_found

    def _valid_dry_run(self, state: CycleState) -> DryRun:
        """Dry runs that still hold: of pods of this shape, on nodes that have not changed since."""
        nodes = self.handle.snapshot.nodes
        budgets = self.handle.listers.version(PodDisruptionBudget)
        if not self.handle.filters_are_local(state):
            return DryRun()
        remembered = state.get_cached(_DRY_RUNS)
        dry_run = DryRun()
        if remembered is not None and remembered.budgets == budgets:
            changed = nodes.changed_since(remembered.mark)
            if remembered.mark.length == len(nodes) and changed[0] is not None and changed[1] is not None:
                dry_run = remembered.dry_run
                for row in {*changed[0], *changed[1]}:
                    dry_run.forget(row)
        state.write_cached(_DRY_RUNS, _Remembered(nodes.mark, budgets, dry_run))
        return dry_run

    def _enough_candidates(self, potential: int) -> int:
        share = potential * self.args.min_candidate_nodes_percentage // 100
        return min(potential, max(share, self.args.min_candidate_nodes_absolute))

    def _hopeless(self, rows: list[int], dry_run: DryRun) -> PostFilterResult:
        refusals = [dry_run.refusals[row] for row in rows]
        distinct = {id(refusal): refusal for refusal in refusals}  # the same few, on many nodes
        failures = {refusal.message: None for refusal in distinct.values() if refusal.code is Code.ERROR}
        if failures:
            message = next(iter(failures)) if len(failures) == 1 else f"[{', '.join(failures)}]"
            return PostFilterResult(None, error(f"preemption: {message}"))
        counts: Counter[str] = Counter()
        for identity, count in Counter(map(id, refusals)).items():
            for reason in distinct[identity].reasons:
                counts[reason] += count
        return self._no_candidates(counts, len(rows))

    def _no_candidates(self, counts: dict[str, int], potential: int) -> PostFilterResult:
        """Return the result where no node helps, with the reasons of those that were tried."""
        total = len(self.handle.snapshot.nodes)
        if total > potential:
            counts[self.NOT_HELPFUL] = counts.get(self.NOT_HELPFUL, 0) + total - potential
        histogram = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        message = f"preemption: 0/{total} nodes are available: {histogram}."
        return PostFilterResult("", unschedulable(message))

    def _decide(self, pod: PodInfo, candidates: list[Candidate]) -> PostFilterResult:
        try:
            candidates = ask_extenders(self.handle, pod, candidates)
        except ExtenderCallError as failure:
            return PostFilterResult(None, error(f"preemption: {failure}"))
        return self._nominate(candidates) if candidates else PostFilterResult(None, self.NONE_LEFT)

    def _nominate(self, candidates: list[Candidate]) -> PostFilterResult:
        least = min(candidate.badness for candidate in candidates)
        best = [candidate for candidate in candidates if candidate.badness == least]
        chosen = best[self.handle.random_below(len(best))] if len(best) > 1 else best[0]
        detail = PreemptionDetail(
            {c.node_name: c for c in candidates}, tuple(sorted(c.node_name for c in best))
        )
        return PostFilterResult(chosen.node_name, None, chosen.victims, detail)


def _making_room(node: NodeInfo, pod: PodInfo) -> bool:
    """Whether a victim of an earlier preemption is still leaving this node."""
    return any(p.terminating and p.priority < pod.priority and _preempted(p) for p in node.pods)


def _preempted(pod: PodInfo) -> bool:
    condition: Any = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return (
        condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"
    )
