"""InterPodAffinity: place pods near, or away from, other pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from mooring.api.objects import Node, PodAffinity
from mooring.framework.affinity import AffinityTerm
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.handle import Handle
from mooring.framework.nodes import IntArray, Nodes, Verdicts
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import SKIP, Status, skip, unresolvable, unschedulable
from mooring.plugins.args import InterPodAffinityArgs
from mooring.plugins.inter_pod_affinity.preferred_terms import PreferredTerms
from mooring.plugins.inter_pod_affinity.required_terms import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    RequiredTerms,
    first_broken,
)
from mooring.plugins.inter_pod_affinity.terms import Concerns
from mooring.runtime.engine_nodes import engine_nodes

_CONCERNS = StateKey[Concerns]("InterPodAffinity/concerns")
_REQUIRED = StateKey[RequiredTerms]("InterPodAffinity/required")
_PREFERRED = StateKey[PreferredTerms]("InterPodAffinity/preferred")


class InterPodAffinity(Plugin[InterPodAffinityArgs]):
    """Required terms filter, preferred ones score; those of pods on nodes count as well as the pod's own."""

    name = "InterPodAffinity"
    cache_key = CacheKey.NONE

    AFFINITY_NOT_MATCHED = "node(s) didn't match pod affinity rules"
    ANTI_AFFINITY_NOT_MATCHED = "node(s) didn't match pod anti-affinity rules"
    EXISTING_ANTI_AFFINITY_NOT_SATISFIED = "node(s) didn't satisfy existing pods anti-affinity rules"
    _REFUSALS: ClassVar[Mapping[int, Status]] = {
        AFFINITY: unresolvable(AFFINITY_NOT_MATCHED),
        ANTI_AFFINITY: unschedulable(ANTI_AFFINITY_NOT_MATCHED),
        EXISTING_ANTI_AFFINITY: unschedulable(EXISTING_ANTI_AFFINITY_NOT_SATISFIED),
    }

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._statuses = {
            code: self._REFUSALS[first_broken(code)] for code in range(1, sum(self._REFUSALS) + 1)
        }

    def _concerns(self, state: CycleState, shape: Shape) -> Concerns:
        return state.cached(_CONCERNS, lambda: Concerns(shape, self.handle.listers))

    # ---- filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        view = engine_nodes(nodes)
        if not (pod.shape.affinity_terms or view.carried_terms):
            return SKIP  # neither this pod nor any other has terms
        required = state.get_cached(_REQUIRED)
        if required is None:
            required = RequiredTerms(self._concerns(state, pod.shape), pod.shape, self._statuses)
            state.write_cached(_REQUIRED, required)
        required.update(view)
        return SKIP if required.idle else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts:
        return state.read_cached(_REQUIRED).verdicts(engine_nodes(nodes))

    # ---- score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self.args.ignore_preferred_terms_of_existing_pods and not _has_preferences(pod):
            return skip(shape=True)
        view = engine_nodes(nodes)
        if not (pod.shape.affinity_terms or view.carried_terms):
            return SKIP
        preferred = state.get_cached(_PREFERRED)
        if preferred is None:
            hard_weight = self.args.hard_pod_affinity_weight
            preferred = PreferredTerms(self._concerns(state, pod.shape), hard_weight)
            state.write_cached(_PREFERRED, preferred)
        preferred.update(view)
        return SKIP if preferred.idle else None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        return state.read_cached(_PREFERRED).score(engine_nodes(nodes))

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        return state.read_cached(_PREFERRED).normalize(scores)

    # ---- queueing hints

    def events_to_register(self) -> Iterable[EventHint]:
        pod_actions = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        yield requeue_on(Resource.POD, pod_actions, self._after_pod_change)
        yield requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self._after_node_change)

    def _after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        if old is not None and new is not None and new.uid == pod.uid:
            return Hint.QUEUE
        if not all(_placed(other) for other in (old, new) if other is not None):
            return Hint.SKIP
        affinity, anti = _required(pod.shape.affinity_terms)
        # One pod must satisfy all terms of an affinity, so that a change helps only if all match.
        if new is not None and _select_all(affinity, new) and not (old and _select_all(affinity, old)):
            return Hint.QUEUE
        if old is not None and _select_all(anti, old) and not (new and _select_all(anti, new)):
            return Hint.QUEUE
        if old is not None and new is None and _select_all(_required(old.shape.affinity_terms)[1], pod):
            return Hint.QUEUE
        return Hint.SKIP

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        affinity, anti = _required(pod.shape.affinity_terms)
        before = {} if old is None else old.metadata.labels
        after = {} if new is None else new.metadata.labels
        for key in (term.topology_key for term in affinity):
            if key in after and after[key] != before.get(key):
                return Hint.QUEUE
        for key in (term.topology_key for term in anti):
            if old is None or (key in before and before[key] != after.get(key)):
                return Hint.QUEUE
        return Hint.SKIP


def _has_preferences(pod: PodInfo) -> bool:
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    both: Sequence[PodAffinity | None] = (affinity.pod_affinity, affinity.pod_anti_affinity)
    return any(part is not None and part.preferred for part in both)


def _placed(pod: PodInfo) -> bool:
    return bool(pod.node_name or pod.status.nominated_node_name)


def _required(terms: Iterable[AffinityTerm]) -> tuple[list[AffinityTerm], list[AffinityTerm]]:
    """The required terms: affinity, and anti-affinity."""
    required = [term for term in terms if term.required]
    return [term for term in required if not term.anti], [term for term in required if term.anti]


def _select_all(terms: Sequence[AffinityTerm], pod: PodInfo) -> bool:
    """Whether there are terms and all select the pod; hints do not look namespace labels up."""
    return bool(terms) and all(t.selects(pod.namespace, {}, pod.labels) for t in terms)
