"""PodTopologySpread: spread matching pods evenly over zones, nodes or other topology domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

from mooring.api.meta import KubeObject
from mooring.api.objects import Node
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.handle import Handle
from mooring.framework.nodes import IntArray, Nodes, Verdicts
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Status, skip, unresolvable, unschedulable
from mooring.plugins.args import PodTopologySpreadArgs
from mooring.plugins.pod_topology_spread.constraints import (
    NO_CONSTRAINTS,
    SYSTEM_DEFAULTS,
    Constraint,
    Constraints,
    compile_constraints,
    default_selector,
    own_constraints,
    selector_sources,
)
from mooring.plugins.pod_topology_spread.hard_spread import MISSING_LABEL, TOO_SKEWED, HardSpread
from mooring.plugins.pod_topology_spread.soft_spread import SoftSpread
from mooring.runtime.engine_nodes import engine_nodes
from mooring.runtime.groups import Groups

_HARD = StateKey[HardSpread]("PodTopologySpread/hard")
_SOFT = StateKey[SoftSpread]("PodTopologySpread/soft")
_DEFAULTED = StateKey["_Defaulted"]("PodTopologySpread/defaulted")


class _Defaulted(NamedTuple):
    """The default constraints as they apply to one pod shape, and what that was found from."""

    sources: tuple[type[KubeObject], ...]
    versions: list[int]
    constraints: Constraints


class PodTopologySpread(Plugin[PodTopologySpreadArgs]):
    """Hard constraints filter, soft ones score. Pods without any get the configured defaults, which spread
    what their Services and controllers select."""

    name = "PodTopologySpread"
    cache_key = CacheKey.NONE

    CONSTRAINTS_NOT_MATCHED = "node(s) didn't match pod topology spread constraints"
    NODE_LABEL_MISSING = CONSTRAINTS_NOT_MATCHED + " (missing required label)"
    _STATUSES: ClassVar[Mapping[int, Status]] = {
        MISSING_LABEL: unresolvable(NODE_LABEL_MISSING),
        TOO_SKEWED: unschedulable(CONSTRAINTS_NOT_MATCHED),
    }

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._system_defaulted = args.defaulting_type == "System"
        defaults = SYSTEM_DEFAULTS if self._system_defaulted else args.default_constraints
        self._defaults = compile_constraints(defaults, {})
        self._defaulting = self._defaults != NO_CONSTRAINTS

    # ---- constraints

    def _constraints(self, state: CycleState, shape: Shape) -> Constraints:
        """The pod's constraints; the same object for as long as nothing they follow from changes."""
        if shape.spec.topology_spread_constraints:
            return own_constraints(shape)
        if not self._defaulting:
            return NO_CONSTRAINTS
        cached = state.get_cached(_DEFAULTED)
        sources = selector_sources(shape) if cached is None else cached.sources
        versions = list(map(self.handle.listers.version, sources))
        if cached is not None and cached.versions == versions:
            return cached.constraints
        constraints = self._defaulted(shape)
        if cached is not None and cached.constraints == constraints:
            constraints = cached.constraints
        state.write_cached(_DEFAULTED, _Defaulted(sources, versions, constraints))
        return constraints

    def _defaulted(self, shape: Shape) -> Constraints:
        return self._defaults.with_selector(default_selector(shape, self.handle.listers))

    # ---- filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        shape = pod.shape
        own = bool(shape.spec.topology_spread_constraints)
        if not (own or self._defaults.hard):
            return skip(shape=True)
        constraints = self._constraints(state, shape).hard
        if not constraints:
            return skip(shape=own)
        cached = state.get_cached(_HARD)
        if cached is None or cached.constraints is not constraints:
            state.write_cached(_HARD, HardSpread(constraints, shape, self._STATUSES))
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts:
        return state.read_cached(_HARD).verdicts(engine_nodes(nodes))

    # ---- score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        shape = pod.shape
        own = bool(shape.spec.topology_spread_constraints)
        constraints = self._constraints(state, shape).soft
        if not constraints:
            return skip(shape=own or not self._defaults.soft)
        cached = state.get_cached(_SOFT)
        if cached is None or cached.constraints is not constraints:
            # System defaults spread over hostnames even where nodes have no zone.
            require_all = own or not self._system_defaulted
            cached = state.write_cached(_SOFT, SoftSpread(constraints, shape, require_all))
        cached.look(engine_nodes(nodes))
        return None

    def score_groups(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Groups:
        return state.read_cached(_SOFT).groups()

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        return state.read_cached(_SOFT).score()

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        return state.read_cached(_SOFT).normalize(scores)

    # ---- queueing hints

    def events_to_register(self) -> Iterable[EventHint]:
        pod_actions = Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION | Action.DELETE
        yield requeue_on(Resource.POD, pod_actions, self._after_pod_change)
        node_actions = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        yield requeue_on(Resource.NODE, node_actions, self._after_node_change)

    def _hard_constraints(self, pod: PodInfo) -> tuple[Constraint, ...]:
        if pod.shape.spec.topology_spread_constraints:
            return own_constraints(pod.shape).hard
        return self._defaulted(pod.shape).hard if self._defaults.hard else ()

    def _after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        if not all(_involved(other, pod) for other in (old, new) if other is not None):
            return Hint.SKIP
        constraints = self._hard_constraints(pod)
        before = _matched(constraints, old)
        after = _matched(constraints, new)
        if old is None or new is None:
            return Hint.QUEUE if any(before) or any(after) else Hint.SKIP
        tolerates_more = new.uid == pod.uid and new.spec.tolerations != old.spec.tolerations
        if tolerates_more and any(c.honor_taints for c in constraints):
            return Hint.QUEUE
        return Hint.QUEUE if before != after else Hint.SKIP

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        keys = [c.topology_key for c in self._hard_constraints(pod)]
        before, after = _domains(keys, old), _domains(keys, new)
        if old is None or new is None:
            return Hint.SKIP if before is None and after is None else Hint.QUEUE
        if before != after or (after is not None and old.spec.taints != new.spec.taints):
            return Hint.QUEUE
        return Hint.SKIP


def _involved(other: PodInfo, pod: PodInfo) -> bool:
    """Whether a change of another pod can matter to the spread of this one."""
    if other.uid == pod.uid:
        return True
    placed = other.node_name or other.status.nominated_node_name
    return bool(placed) and other.namespace == pod.namespace


def _matched(constraints: Iterable[Constraint], pod: PodInfo | None) -> list[bool]:
    return [] if pod is None else [c.selector.matches(pod.labels) for c in constraints]


def _domains(keys: Iterable[str], node: Node | None) -> list[str] | None:
    """The node's domain for each key; None where the node lacks a key and so is no part of the spread."""
    if node is None:
        return None
    labels = node.metadata.labels
    return [labels[key] for key in keys] if all(key in labels for key in keys) else None
