"""NodeAffinity: which nodes a pod asks for by label or name, and which it would rather have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from mooring.api import objects
from mooring.api.objects import Node, PodSpec, PreferredSchedulingTerm
from mooring.api.selectors import (
    NodeTerm,
    SelectorError,
    compile_node_term,
    parse_node_term,
    parse_problem,
)
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.handle import Handle
from mooring.framework.nodes import IntArray, Nodes, Verdicts
from mooring.framework.plugin import Plugin, PreFilterResult
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Status, error, skip, unresolvable
from mooring.plugins.args import NodeAffinityArgs
from mooring.plugins.arithmetic import default_normalize
from mooring.plugins.matching import (
    match_any,
    match_compiled,
    match_required,
    named_nodes,
    required_matches,
)


class Preference(NamedTuple):
    """A preferred term, compiled."""

    weight: int
    term: NodeTerm


class NodeAffinity(Plugin[NodeAffinityArgs]):
    """Refuses nodes that spec.nodeSelector, required node affinity or the profile's addedAffinity exclude,
    and prefers those that preferred terms name. Works per distinct value of the labels asked about."""

    name = "NodeAffinity"
    cache_key = CacheKey.NODE

    NOT_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
    NOT_MATCHED = "node(s) didn't match Pod's node affinity/selector"
    CONFLICT = "pod affinity terms conflict"

    _STATUSES = {1: unresolvable(NOT_MATCHED), 2: unresolvable(NOT_ENFORCED)}

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.added_affinity or objects.NodeAffinity()
        required = added.required
        self._added_required: Sequence[NodeTerm] | None = (
            None if required is None else [compile_node_term(term) for term in required.node_selector_terms]
        )
        self._added_preferred = _preferences(added.preferred or ())
        self._preferences_key = StateKey[list[Preference]](self.name)  # per instance, as the arguments are

    # ---- filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        required = _affinity(pod.spec).required
        if required is None and pod.spec.node_selector is None and self._added_required is None:
            return skip(shape=True)
        names = named_nodes(pod.shape)
        if names is None:
            return None
        return PreFilterResult(names) if names else unresolvable(self.CONFLICT)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        codes = (~match_required(nodes, pod.shape)).astype(np.int32)
        if self._added_required is not None:
            codes[~match_any(nodes, self._added_required)] = 2
        return Verdicts(codes, self._STATUSES)

    # ---- score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if _affinity(pod.spec).preferred is None and not self._added_preferred:
            return skip(shape=True)
        try:
            self._preferences_of(state, pod)
        except SelectorError as problem:
            return error(str(problem))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        scores = np.zeros(len(nodes), np.int64)
        for weight, term in self._preferences_of(state, pod):
            scores += weight * match_compiled(nodes, term)
        return scores

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        return default_normalize(scores)

    def _preferences_of(self, state: CycleState, pod: PodInfo) -> list[Preference]:
        """The pod's preferences and the profile's; raises SelectorError for a term that does not parse."""

        def make() -> list[Preference]:
            return self._added_preferred + _preferences(_affinity(pod.spec).preferred or ())

        return state.cached(self._preferences_key, make)

    # ---- events

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self._after_node_change)

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        added = self._added_required
        if added is not None and not any(term.matches(new.metadata.labels, new.name) for term in added):
            return Hint.SKIP
        if not required_matches(pod.shape, new):
            # What an invalid term would match is unknown: kube-scheduler retries.
            return Hint.QUEUE if _selected(pod.spec, new) and _is_unreadable(pod.shape) else Hint.SKIP
        return Hint.QUEUE if old is None or not required_matches(pod.shape, old) else Hint.SKIP


def _affinity(spec: PodSpec) -> objects.NodeAffinity:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return affinity or _NO_AFFINITY


_NO_AFFINITY = objects.NodeAffinity()


def _preferences(terms: Iterable[PreferredSchedulingTerm]) -> list[Preference]:
    """The terms that count: those with a weight and something in them."""
    return [
        Preference(each.weight, parse_node_term(each.preference))
        for each in terms
        if each.weight and (each.preference.match_expressions or each.preference.match_fields)
    ]


# ---- one node at a time, for events


def _selected(spec: PodSpec, node: Node) -> bool:
    """Whether spec.nodeSelector matches."""
    labels = node.metadata.labels
    return all(labels.get(key) == value for key, value in (spec.node_selector or {}).items())


def _is_unreadable(shape: Shape) -> bool:
    """Whether a required term does not parse."""
    answer: bool | None = shape.derived.get(_is_unreadable)
    if answer is None:
        required = _affinity(shape.spec).required
        terms = () if required is None else required.node_selector_terms
        answer = shape.derived[_is_unreadable] = any(parse_problem(term) for term in terms)
    return answer
