"""One plugin in one cluster, asked directly and listened to closely."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from mooring.api.counts import count
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.config import from_object
from mooring.config.enabling import PluginArgs, config_with
from mooring.core.scheduler import Scheduler
from mooring.framework.nodes import IntArray, Verdicts
from mooring.framework.plugin import Plugin, PreFilterResult, overrides
from mooring.framework.pod import PodInfo
from mooring.framework.status import Code, Status
from mooring.plugins import IN_TREE
from mooring.runtime.engine_nodes import EngineNode, EngineNodes
from mooring.runtime.engine_state import EngineState
from mooring.runtime.filtering import Answer
from mooring.runtime.groups import Groups
from mooring.runtime.registry import Registry
from mooring.runtime.runners import FilterRunner, PluginError
from mooring.testing.answers import Place, check_pre_filter, check_status
from mooring.testing.clock import START, VirtualClock
from mooring.testing.scheduler_cluster import SchedulerCluster

Refusal = tuple[str, tuple[str, ...]]  # the code and the reasons


class Cycle:
    """A cycle up to the point where the plugin's filter, or its score, is to be asked."""

    __slots__ = ("answer", "candidates", "pod", "state")

    def __init__(self, pod: PodInfo, state: EngineState, candidates: EngineNodes) -> None:
        self.pod = pod
        self.state = state
        self.candidates = candidates  # the nodes that it will be asked about
        self.answer: PreFilterResult | Status | None = None  # of pre_filter or pre_score

    @property
    def taking_part(self) -> bool:
        """Whether the plugin will be asked: it neither skipped nor refused the pod as a whole."""
        return not isinstance(self.answer, Status)

    @property
    def skipped(self) -> bool:
        return isinstance(self.answer, Status) and self.answer.code is Code.SKIP


@cache
def _default_plugins() -> Registry:
    return Registry(IN_TREE)


def cluster_for(cls: type[Plugin], args: PluginArgs | None, now: float = START) -> SchedulerCluster:
    """Return a cluster without objects whose scheduler runs the plugin in addition to the default ones.

    `cls` may be a subclass of a registered plugin: it replaces the plugin of the same name."""
    registry = Registry()
    registry.update({**_default_plugins(), cls.name: cls})
    config = from_object(config_with([cls], None if args is None else {cls.name: args}))
    clock = VirtualClock(now)
    pick = random.Random(0).randrange
    return SchedulerCluster(Scheduler(config, clock=clock, pick=pick, registry=registry, record=True), clock)


class Subject:
    """The plugin under test, with a cluster of its own."""

    def __init__(
        self,
        cls: type[Plugin],
        args: PluginArgs | None,
        nodes: Sequence[Node],
        bound: Iterable[Pod],
        objects: Iterable[KubeObject],
        now: float = START,
    ) -> None:
        self.cluster = cluster_for(cls, args, now)
        self.cluster.apply(*nodes, *objects, *bound)
        self.plugin = self.cluster.plugin(cls)
        self.name = cls.name
        self.profile = self.cluster.scheduler.profiles["default-scheduler"]

    def has(self, *methods: str) -> bool:
        """Whether the plugin implements any of these."""
        return any(overrides(type(self.plugin), method) for method in methods)

    @property
    def nodes(self) -> EngineNodes:
        return self.cluster.scheduler.cluster.nodes

    def info(self, pod: Pod) -> PodInfo:
        return self.cluster.scheduler.cluster.info(pod)

    def at(self, method: str, pod: PodInfo, node: str = "", where: str = "") -> Place:
        return Place(self.name, method, pod=pod.key, node=node, where=where)

    def ask(self, place: Place, *args: Any) -> Any:
        """Call a method; what it raises is a complaint."""
        try:
            return getattr(self.plugin, place.method)(*args)
        except Exception as exc:
            raise AssertionError(f"{place}: raised {type(exc).__name__}: {exc}") from exc

    def resumed(self, cycle: Cycle, pod: Pod) -> Cycle:
        """A cycle with what another one's pre_filter and pre_score wrote and answered."""
        resumed_cycle = Cycle(self.info(pod), cycle.state.with_empty_cache(), self.nodes)
        resumed_cycle.answer = cycle.answer
        return resumed_cycle

    # ---- filter

    def before_filter(self, pod: Pod) -> Cycle:
        """Run the plugin's own pre_filter, if it has one."""
        info = self.info(pod)
        cycle = Cycle(info, EngineState(), self.nodes)
        if self.has("pre_filter"):
            place = self.at("pre_filter", info)
            cycle.answer = check_pre_filter(place, self.ask(place, cycle.state, info, self.nodes))
        return cycle

    def refusals(self, method: str, cycle: Cycle, nodes: EngineNodes, where: str = "") -> list[Refusal]:
        """What one form of the filter says about each of the nodes."""
        if method == "filter":
            return [self._filter_one(cycle, node, where) for node in nodes]
        place = self.at(method, cycle.pod, where=where)
        verdicts = self.ask(place, cycle.state, cycle.pod, nodes)
        if verdicts is None:
            return [_refusal(None)] * len(nodes)
        return self._explained(cycle, verdicts, nodes, place)

    def _filter_one(self, cycle: Cycle, node: EngineNode, where: str) -> Refusal:
        place = self.at("filter", cycle.pod, node.name, where)
        return _refusal(check_status(place, self.ask(place, cycle.state, cycle.pod, node)))

    def _explained(self, cycle: Cycle, verdicts: object, nodes: EngineNodes, place: Place) -> list[Refusal]:
        if not isinstance(verdicts, Verdicts):
            place.fail(f"returned {verdicts!r}; expected Verdicts or None")
        _check_array(place, verdicts.codes, len(nodes), "codes")
        refusals = []
        for name, code in zip(nodes.names, verdicts.codes.tolist(), strict=True):
            try:
                status = verdicts.statuses[code] if code else None
            except KeyError:
                place.fail(f"gave node {name} the code {code}, which its statuses do not explain")
            refusals.append(_refusal(check_status(self.at(place.method, cycle.pod, name), status)))
        return refusals

    def supposed(self, cycle: Cycle, view: EngineNodes) -> list[Refusal]:
        """What the filter says about a hypothetical view, asked as preemption asks."""
        try:
            verdicts = FilterRunner(self.plugin).run(cycle.state, cycle.pod, view)
        except PluginError as exc:
            raise AssertionError(f"{self.at('filter', cycle.pod)}: {exc}") from exc
        if verdicts is None:
            return [_refusal(None)] * len(view)
        return [_refusal(verdicts.statuses[code] if code else None) for code in verdicts.codes.tolist()]

    # ---- score

    def before_score(self, pod: Pod, at_most: int | None = None) -> Cycle | None:
        """Run the whole profile's filters, then the plugin's own pre_score; None where no node is left.

        `at_most` goes on with that many of the feasible nodes."""
        info = self.info(pod)
        state = EngineState()
        rows = self._feasible(info, state)[:at_most]
        if not rows:
            return None
        cycle = Cycle(info, state, self.nodes.take(np.array(rows, np.intp)))
        if self.has("pre_score"):
            place = self.at("pre_score", info)
            cycle.answer = check_status(place, self.ask(place, state, info, cycle.candidates))
        return cycle

    def _feasible(self, info: PodInfo, state: EngineState) -> list[int]:
        """The rows that all plugins of the profile let pass."""
        allowed, skipped = set(self.nodes.names), set()
        for plugin in self.profile.at("preFilter"):
            answer = plugin.pre_filter(state, info, self.nodes)
            if isinstance(answer, PreFilterResult):
                allowed &= answer.node_names
            elif answer is not None and answer.code is Code.SKIP:
                skipped.add(plugin.name)
            elif answer is not None and not answer.ok:
                return []
        state.skip_filter = frozenset(skipped)
        passed = Answer(self.profile.filters, state, info, self.nodes).passed.tolist()
        return [row for row, name in enumerate(self.nodes.names) if passed[row] and name in allowed]

    def scores(self, method: str, cycle: Cycle, nodes: EngineNodes, where: str = "") -> list[int]:
        """What one form of the score says about each of the nodes, before normalising."""
        if method == "score":
            return [self._score_one(cycle, node, where) for node in nodes]
        place = self.at(method, cycle.pod, where=where)
        scores = self.ask(place, cycle.state, cycle.pod, nodes)
        _check_array(place, scores, len(nodes), "scores")
        return [int(score) for score in scores]

    def _score_one(self, cycle: Cycle, node: EngineNode, where: str) -> int:
        place = self.at("score", cycle.pod, node.name, where)
        score = self.ask(place, cycle.state, cycle.pod, node)
        if isinstance(score, bool) or not isinstance(score, int | np.integer):
            place.fail(f"returned {score!r}; expected an integer")
        return int(score)

    def normalized(self, cycle: Cycle, scores: Sequence[int], nodes: EngineNodes) -> list[int]:
        """The scores as they go into the total; what they are is checked."""
        place = self.at("score" if self.has("score") else "score_nodes", cycle.pod)
        if self.has("normalize_score"):
            place = self.at("normalize_score", cycle.pod)
            raw: IntArray = np.array(scores, np.int64)
            answer = self.ask(place, cycle.state, cycle.pod, raw, nodes)
            _check_array(place, answer, len(nodes), "scores")
            scores = [int(score) for score in answer]
        for name, score in zip(nodes.names, scores, strict=True):
            if not 0 <= score <= 100:
                place.fail(f"node {name} has {score}; expected 0 to 100 after normalising")
        return list(scores)

    def grouped(self, cycle: Cycle, nodes: EngineNodes) -> tuple[list[int], list[int]]:
        """What score_groups says about each of the nodes, before and after normalising."""
        place = self.at("score_groups", cycle.pod)
        groups = self.ask(place, cycle.state, cycle.pod, nodes)
        if not isinstance(groups, Groups):
            place.fail(f"returned {groups!r}; expected Groups")
        _check_array(place, groups.of, len(nodes.whole), "groups")
        of = groups.of[nodes.rows]
        for scores in (groups.raw, groups.scores):
            _check_array(place, scores, len(groups.scores), "scores by group")
            if of.min(initial=0) < 0 or of.max(initial=-1) >= len(scores):
                place.fail(f"put nodes into groups {sorted(set(of.tolist()))} and has {len(scores)}")
        return groups.raw[of].tolist(), groups.scores[of].tolist()


def _refusal(status: Status | None) -> Refusal:
    return (Code.SUCCESS.text, ()) if status is None else (status.code.text, status.reasons)


def _check_array(place: Place, array: object, length: int, what: str) -> None:
    if not isinstance(array, np.ndarray):
        place.fail(f"gave {array!r} as {what}; expected a NumPy array")
    if array.shape != (length,):
        place.fail(f"gave {what} of shape {array.shape} for {count(length, 'node')}; expected ({length},)")
    if array.dtype.kind not in "iu":
        nan = array.dtype.kind == "f" and bool(np.isnan(array).any())
        place.fail(f"gave {what} of type {array.dtype}{' with NaN' if nan else ''}; expected integers")
