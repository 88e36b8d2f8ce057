"""NodeResourcesFit: a node must have what the pod requests, and a scoring strategy says where it is best."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

import numpy as np

from mooring.api import resources
from mooring.api.devices import IMPLICIT_PREFIX, DeviceClass
from mooring.api.objects import Node
from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended
from mooring.framework.args import Args
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import IntArray, NodeInfo, Nodes, Verdicts
from mooring.framework.placements import PlacementPlan, PodGroupInfo
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Status, unresolvable, unschedulable
from mooring.plugins.args import NodeResourcesFitArgs, ScoringStrategy
from mooring.plugins.dynamic_resources.device_counts import DeviceCounts
from mooring.plugins.node_resources_fit.scoring_strategies import MOST_ALLOCATED, Strategy
from mooring.plugins.resource_columns import ScoredResources, is_tracked, lines_of
from mooring.runtime.amounts import ALLOWED_PODS, pods_line, wrap_int64
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.engine_nodes import EngineNode, EngineNodes, engine_node, engine_nodes
from mooring.runtime.runners import PluginError

TOO_MANY_PODS = "Too many pods"
MOST_RESOURCES = 29  # that one pod can request: a code has 31 bits, two of which say something else


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


class Refusals(dict[int, Status]):
    """Codes of refused rows and what they mean, decoded when someone asks.

    Bit 0: too many pods. Bit i + 1: too little of the i-th requested resource. The bit after those: the
    node would have too little even if it were empty, so that removing pods does not help.
    """

    __slots__ = ("names",)

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names

    def __missing__(self, code: int) -> Status:
        reasons = [TOO_MANY_PODS] if code & 1 else []
        reasons += [insufficient(name) for i, name in enumerate(self.names) if code & 2 << i]
        hopeless = code & 2 << len(self.names)
        status = self[code] = unresolvable(*reasons) if hopeless else unschedulable(*reasons)
        return status


class Requests:
    """What a pod shape must find free on a node."""

    __slots__ = ("_aligned", "amounts", "names", "optional", "refusals")

    def __init__(self, amounts: Mapping[str, int], optional: frozenset[str] = frozenset()) -> None:
        self.optional = optional  # what a node that has none of it may get devices for instead
        self.names = _in_order(amounts)
        self.amounts = [amounts[name] for name in self.names]
        self.refusals = Refusals(self.names)
        self._aligned: Aligned | None = None

    def aligned(self, resources: Sequence[str]) -> Aligned:
        """As lines of the amounts of nodes that have these resources."""
        aligned = self._aligned
        if aligned is None or aligned.resource_count != len(resources):
            aligned = self._aligned = Aligned(self, resources)
        return aligned


class Aligned:
    """Requests of a pod, aligned with the lines of the table's amounts."""

    __slots__ = (
        "_bits",
        "_each",
        "_hopeless",
        "_lines",
        "_missing",
        "_optional",
        "_requests",
        "resource_count",
    )

    def __init__(self, needed: Requests, resources: Sequence[str]) -> None:
        present = [i for i, name in enumerate(needed.names) if name in resources]
        places = [1 + resources.index(needed.names[i]) for i in present]
        amounts = [needed.amounts[i] for i in present]
        bits = [2 << i for i in present]
        self.resource_count = len(resources)
        self._lines = lines_of([ALLOWED_PODS, *places])  # of `Nodes.room`, and of what the nodes have
        self._requests: IntArray = np.array([1, *amounts], np.int64).reshape(-1, 1)
        self._bits: IntArray = np.array([1, *bits], np.int64)
        self._each = [(ALLOWED_PODS, 1, 1), *zip(places, amounts, bits, strict=True)]
        self._hopeless = 2 << len(needed.names)
        optional = [1 + resources.index(name) for name in needed.optional if name in resources]
        self._optional = [i for i, (place, _, _) in enumerate(self._each) if place in optional]
        # No node has a resource without a line in the table, so preemption cannot help.
        missing = [
            i for i, name in enumerate(needed.names) if i not in present and name not in needed.optional
        ]
        absent = sum(2 << i for i in missing)
        self._missing = absent | self._hopeless if absent else 0

    def codes(self, nodes: EngineNodes) -> IntArray | None:
        """The code of each row; None where all of them pass."""
        room = nodes.room
        if not self._missing and room.size:
            lowest = room.argmin(axis=1).tolist()
            for line, amount, _ in self._each:
                if room.item(line, lowest[line]) < amount:
                    break
            else:  # even the rows with the least room have enough
                return None
        short = room[self._lines] < self._requests
        offered = nodes.amounts[self._lines]
        for i in self._optional:
            short[i] &= offered[i] > 0
        hopeless = (short & (offered < self._requests))[1:].any(axis=0)
        return self._bits @ short + hopeless * self._hopeless | self._missing

    def code_of(self, node: EngineNode) -> int:
        """`codes` of one node: the one that the last pod went to is what is asked about most."""
        amounts = node.amounts
        taken = pods_line(len(amounts))
        code = self._missing
        for i, (place, amount, bit) in enumerate(self._each):
            available = amounts[place]
            if not available and i in self._optional:
                continue
            if wrap_int64(available - amounts[taken + place]) < amount:
                code |= bit
                if place and available < amount:
                    code |= self._hopeless
        return code


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

    # ---- filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.write(self.PRE_FILTER_KEY, state.cached(self._requests_key, lambda: self._requests(pod)))
        return None

    def _requests(self, pod: PodInfo) -> Requests:
        requests = pod.shape.requests.items()
        amounts = {name: amount for name, amount in requests if amount and not self._ignored(name)}
        needed = Requests(amounts, frozenset(self._devices.backed(amounts)))
        if len(needed.names) > MOST_RESOURCES:
            problem = f"pod requests {len(needed.names)} resources, at most {MOST_RESOURCES} can be checked"
            raise PluginError(self.name, problem)
        return needed

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
        code = needed.aligned(view.resources).code_of(view)
        return needed.refusals[code] if code else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        needed = state.get(self.PRE_FILTER_KEY) or self._not_written()
        view = engine_nodes(nodes)
        codes = needed.aligned(view.resources).codes(view)
        return None if codes is None else Verdicts(codes.astype(np.int32), needed.refusals)

    # ---- score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None  # what score needs follows from the shape and is cached with it

    def score_cache_key(self, pod: PodInfo) -> CacheKey:
        """Requested amounts do not include devices."""
        return CacheKey.NONE if self._scored_devices(pod) else CacheKey.RESOURCES

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        view = engine_node(node)
        scored = self._scored(state, pod, view.resources)
        return self._strategy.score_one(scored, self._devices.amounts_on(view, scored.device_backed))

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        view = engine_nodes(nodes)
        scored = self._scored(state, pod, view.resources)
        if not scored.each:
            return np.zeros(len(nodes), np.int64)
        return self._strategy.score(scored, view, self._devices.amounts(view, scored.device_backed))

    def _scored(self, state: CycleState, pod: PodInfo, resources: Sequence[str]) -> ScoredResources:
        scored = state.get_cached(self._scored_key)
        if scored is None or scored.resource_count != len(resources):
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
        requests: Counter[str] = Counter()
        for assignment in plan.assignments:
            requests.update(assignment.pod.shape.score_requests)
        amounts = nodes.amounts
        if plan.placement.node_names is not None:
            rows = [row for name in plan.placement.node_names if (row := nodes.index(name)) is not None]
            amounts = amounts[:, rows]
        totals = amounts.sum(axis=1).tolist()
        scored = ScoredResources(self.args.scoring_strategy.resources, requests, nodes.resources)
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
        offered = resources.allocatable(new)
        if not offered.get(PODS, 0) or any(offered.get(name, 0) < n for name, n in requested.items()):
            return Hint.SKIP
        if old is None:
            return Hint.QUEUE
        before = resources.allocatable(old)
        rose = any(offered.get(name, 0) > before.get(name, 0) for name in (PODS, *requested))
        return Hint.QUEUE if rose else Hint.SKIP


def _in_order(amounts: Mapping[str, int]) -> list[str]:
    """The names in the order in which reasons are given."""
    first = [name for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if name in amounts]
    return first + sorted(amounts.keys() - set(first))


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
