"""NodeResourcesFit: a node must have what the pod requests, and a scoring strategy says where it is best."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NoReturn

import numpy as np

from mooring.api import resources
from mooring.api.devices import IMPLICIT_PREFIX, DeviceClass
from mooring.api.objects import Node
from mooring.api.resources import PODS, is_extended
from mooring.framework.args import Args
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import IntArray, NodeInfo, Nodes, Verdicts
from mooring.framework.placements import PlacementPlan, PodGroupInfo
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Status
from mooring.plugins.args import NodeResourcesFitArgs, ScoringStrategy
from mooring.plugins.dynamic_resources.device_counts import DeviceCounts
from mooring.plugins.node_resources_fit.requests import Requests
from mooring.plugins.node_resources_fit.scoring_strategies import MOST_ALLOCATED, Strategy
from mooring.plugins.resource_columns import ScoredResources, is_tracked
from mooring.runtime.amounts import wrap_int64
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.engine_nodes import EngineNode, engine_node, engine_nodes
from mooring.runtime.runners import PluginError


class NodeResourcesFit(Plugin[NodeResourcesFitArgs]):
    """Refuses nodes whose allocatable, less what their pods request, is not enough for the pod."""

    name = "NodeResourcesFit"
    cache_key = CacheKey.RESOURCES
    scores_members = True  # of placements

    PRE_FILTER_KEY = StateKey[Requests]("PreFilterNodeResourcesFit")

    handle: EngineHandle

    def __init__(self, args: NodeResourcesFitArgs, handle: EngineHandle) -> None:
        super().__init__(args, handle)
        _refuse_invalid(args)
        self._strategy = Strategy(args.scoring_strategy)
        self._devices = DeviceCounts(handle)
        self._fullness = Strategy(ScoringStrategy(type=MOST_ALLOCATED))
        # Per instance: they follow from its arguments.
        self._requests_key = StateKey[Requests](f"{self.name}/requests")
        self._left: tuple[PodInfo, tuple[int, ...]] | None = None  # the pod that left last, and what it left
        self._helped: dict[Shape, bool] = {}  # whether that helps members of a shape
        self._scored_key = StateKey[ScoredResources](f"{self.name}/scored")
        self._seen: deque[tuple[Node, dict[str, int]]] = deque(maxlen=2)  # nodes of the last event

    # ---- filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.write(self.PRE_FILTER_KEY, state.cached(self._requests_key, lambda: self._requests(pod)))
        return None

    def _requests(self, pod: PodInfo) -> Requests:
        requests = pod.shape.requests.items()
        amounts = {name: amount for name, amount in requests if amount and not self._ignored(name)}
        return Requests(amounts, frozenset(self._devices.backed(amounts)))

    def _ignored(self, name: str) -> bool:
        if not is_extended(name):
            return not is_tracked(name)
        group = name.partition("/")[0]
        return name in self.args.ignored_resources or group in self.args.ignored_resource_groups

    def _not_written(self) -> NoReturn:
        raise PluginError(self.name, f'error reading "{self.PRE_FILTER_KEY.name}" from cycleState: not found')

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        needed = state.get(self.PRE_FILTER_KEY) or self._not_written()
        view = engine_node(node)
        code = needed.comparison(view.resources).code_of(view)
        return needed.refusals[code] if code else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        needed = state.get(self.PRE_FILTER_KEY) or self._not_written()
        view = engine_nodes(nodes)
        codes = needed.comparison(view.resources).codes(view)
        return None if codes is None else Verdicts(codes, needed.refusals)

    # ---- score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None  # what score needs follows from the shape and is cached with it

    def score_cache_key(self, pod: PodInfo) -> CacheKey:
        """Requested amounts do not include devices."""
        return CacheKey.NONE if self._scored_devices(pod) else CacheKey.RESOURCES

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        view = engine_node(node)
        scored = self._scored(state, pod, view.resources)
        return self._strategy.score_one(scored, self._devices.amounts_on(view, scored))

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        view = engine_nodes(nodes)
        scored = self._scored(state, pod, view.resources)
        if not scored.each:
            return np.zeros(len(nodes), np.int64)
        return self._strategy.score(scored, view, self._devices.amounts(view, scored))

    def _scored(self, state: CycleState, pod: PodInfo, resources: Sequence[str]) -> ScoredResources:
        scored = state.get_cached(self._scored_key)
        if scored is None or scored.resources is not resources:
            specs, requests = self.args.scoring_strategy.resources, pod.shape.score_requests
            scored = ScoredResources(specs, requests, resources, self._scored_devices(pod))
            state.write_cached(self._scored_key, scored)
        return scored

    def _scored_devices(self, pod: PodInfo) -> Sequence[str]:
        """The scored resources that devices may be allocated for."""
        specs, requests = self.args.scoring_strategy.resources, pod.shape.score_requests
        return self._devices.backed(spec.name for spec in specs if requests.get(spec.name, 0))

    def score_placement(self, group: PodGroupInfo, plan: PlacementPlan) -> int:
        """Rate how much of all nodes of a placement is allocated, with the group's pods: fuller is better."""
        nodes = self.handle.snapshot.nodes
        total: Counter[str] = Counter()
        for assignment in plan.assignments:
            total.update(assignment.pod.shape.score_requests)
        requests = {name: wrap_int64(amount) for name, amount in total.items()}
        scored = ScoredResources(self.args.scoring_strategy.resources, requests, nodes.resources)
        amounts = self._devices.amounts(nodes, scored)
        if plan.placement.node_names is not None:
            rows = [row for name in plan.placement.node_names if (row := nodes.index(name)) is not None]
            amounts = amounts[:, rows]
        totals = amounts.sum(axis=1).tolist()
        return self._fullness.score_one(scored, totals)

    # ---- events

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN, self._after_pod_event)
        yield requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, self._after_node_change)
        yield requeue_on(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE, self._after_class_change)

    def _after_pod_event(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        if new is None:
            if pod.group is not None and old.node_name and not self._makes_room(pod, old):
                return Hint.SKIP
            return Hint.QUEUE if old.node_name or old.status.nominated_node_name else Hint.SKIP
        if new.uid == pod.uid:
            return Hint.QUEUE
        before, after = old.shape.used, new.shape.used
        requested = [name for name, amount in pod.shape.used.items() if amount and is_tracked(name)]
        released = bool(new.node_name) and any(before[name] > after[name] for name in requested)
        return Hint.QUEUE if released else Hint.SKIP

    def _makes_room(self, pod: PodInfo, left: PodInfo) -> bool:
        """Whether a member of a group finds enough on a node that a pod has left, or could preempt for it.

        kube-scheduler retries groups by backoff, and pods of their own after any pod that leaves.
        """
        node = self.handle.snapshot.node(left.node_name)
        if node is None:
            return True
        # An event is compared with every group that waits, so the answer is worked out once for each shape.
        amounts = engine_node(node).amounts
        if self._left is None or self._left[0] is not left or self._left[1] is not amounts:
            self._left, self._helped = (left, amounts), {}
        helps = self._helped.get(pod.shape)
        if helps is None:
            helps = self._helped[pod.shape] = self._has_room(pod, node)
        return helps

    def _has_room(self, pod: PodInfo, node: EngineNode) -> bool:
        if self.handle.snapshot.has_pods_below(pod.priority):
            return True
        tracked = {n: a for n, a in pod.shape.requests.items() if is_tracked(n) and not self._ignored(n)}
        free = node.free
        lacking = [name for name, amount in tracked.items() if free[name] < amount]
        return not lacking or len(self._devices.backed(lacking)) == len(lacking)

    def _after_class_change(self, pod: PodInfo, old: DeviceClass | None, new: DeviceClass) -> Hint:
        """A class may stand behind a resource that the pod requests."""
        explicit = new.spec.extended_resource_name
        if old is not None and old.spec.extended_resource_name == explicit:
            return Hint.SKIP
        implicit = IMPLICIT_PREFIX + new.name if old is None else None
        requested = {name for name, amount in pod.shape.requests.items() if amount}
        return Hint.QUEUE if {explicit, implicit} & requested else Hint.SKIP

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        # As in kube-scheduler, the ignored resources are not ignored here.
        requests = pod.shape.requests.items()
        requested = {name: amount for name, amount in requests if amount and is_tracked(name)}
        offered = self._allocatable(new)
        if not offered.get(PODS, 0) or any(offered.get(name, 0) < n for name, n in requested.items()):
            return Hint.SKIP
        if old is None:
            return Hint.QUEUE
        before = self._allocatable(old)
        rose = any(offered.get(name, 0) > before.get(name, 0) for name in (PODS, *requested))
        return Hint.QUEUE if rose else Hint.SKIP

    def _allocatable(self, node: Node) -> dict[str, int]:
        """What a node offers; when that changes, every pod that waits is compared with it."""
        for seen, offered in self._seen:
            if seen is node:
                return offered
        offered = resources.allocatable(node)
        self._seen.append((node, offered))
        return offered


def _refuse_invalid(args: Args) -> None:
    """kube-scheduler checks the arguments of this plugin only here, when it makes the plugin."""
    problems = [
        f"{p.field}: {p.message}"
        if p.value is None
        else f"{p.field}: Invalid value: {json.dumps(p.value)}: {p.message}"
        for p in args.problems()
    ]
    if problems:
        raise ValueError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
