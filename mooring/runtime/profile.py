"""A profile at work: its plugins, and running each extension point with kube-scheduler's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import isnan
from typing import Any, cast

import msgspec

from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import StateKey
from mooring.framework.handle import Handle
from mooring.framework.plugin import Plugin, PostFilterResult, PreFilterResult, overrides
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import SUCCESS, Code, Status
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside
from mooring.runtime.engine_nodes import EngineNodes, NodeStatuses
from mooring.runtime.engine_state import EngineState
from mooring.runtime.filtering import Filtering
from mooring.runtime.placements import PlacementRunner
from mooring.runtime.preparation import Preparation, Preparing
from mooring.runtime.runners import FilterRunner, PluginError, ScoreRunner, logger, raised, unexpected
from mooring.runtime.scoring import Scoring
from mooring.runtime.stopwatch import Stopwatch

PREEMPTION = "DefaultPreemption"

Bound = tuple[str, Callable[..., Any]]


class PreFilterOutcome(msgspec.Struct):
    """What the pre_filter plugins said together."""

    status: Status = SUCCESS  # or the rejection of the pod as a whole
    node_names: frozenset[str] | None = None  # the only nodes the pod may go to; None: all
    restricting: list[str] = []  # the plugins that restricted them

    def take(self, name: str, answer: object) -> bool:
        """Take one plugin's answer into account; whether the next is to be asked."""
        if isinstance(answer, PreFilterResult):
            return self._restrict(name, answer.node_names)
        if not isinstance(answer, Status):
            problem = unexpected("pre_filter", answer, "None, a Status or a PreFilterResult")
            raise PluginError(name, f'running PreFilter plugin "{name}": {problem}')
        if answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            self.status = answer.by(name)
            return False
        if answer.code is Code.UNSCHEDULABLE:  # preemption may help, and needs all plugins' state
            self.status = answer.by(name)
        elif not answer.ok:
            raise PluginError(name, f'running PreFilter plugin "{name}": {answer.message}')
        return True

    def _restrict(self, name: str, node_names: frozenset[str]) -> bool:
        if not isinstance(node_names, Set) or not all(isinstance(each, str) for each in node_names):
            raise PluginError(
                name,
                f'running PreFilter plugin "{name}": restricted the nodes to {node_names!r}; '
                "expected a set of node names",
            )
        plugins = self.restricting
        plugins.append(name)
        allowed = frozenset(node_names)
        self.node_names = allowed if self.node_names is None else self.node_names & allowed
        if self.node_names:
            return True
        if len(plugins) == 1:
            reason = f"node(s) didn't satisfy plugin {name}"
        else:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"
        self.status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
        return False


class ShapeCache:
    """What a profile caches for pods of one shape: answers of plugins, and the values that plugins cache.

    `without` names plugins that do not filter, to find out what the others say.
    """

    __slots__ = ("filtering", "pre_filter", "pre_score", "scoring", "values")

    def __init__(self, profile: Profile, without: Set[str] = frozenset()) -> None:
        self.values: dict[StateKey[Any], Any] = {}
        self.pre_filter = Preparation(
            "PreFilter", [p for p in profile.pre_filters if p.plugin not in without]
        )
        self.filtering = Filtering([r for r in profile.filters if r.name not in without])
        self.pre_score = Preparation("PreScore", profile.pre_scores)
        self.scoring = Scoring(profile.scores)


def _is_custom(plugin: Plugin) -> bool:
    return not type(plugin).__module__.startswith("mooring.plugins.")


class Profile:
    """One scheduler name with its plugins at each extension point, in execution order.

    With `reuse` off nothing is kept between cycles: slower, and the same answers. `watch` is for an observer.
    """

    CACHE_BYTES = 256 << 20  # for shape caches, estimated at BYTES_PER_ROW for each row of the table
    BYTES_PER_ROW = 160
    MOST_CACHES = 1024

    def __init__(
        self,
        scheduler_name: str,
        plugins: Mapping[str, Plugin],
        points: Mapping[str, Sequence[str]],
        weights: Mapping[str, int],
        percentage_of_nodes_to_score: int | None = None,
        reuse: bool = True,
        stopwatch: Stopwatch | None = None,
        placement_weights: Mapping[str, int] | None = None,
    ) -> None:
        self.stopwatch = stopwatch
        self.scheduler_name = scheduler_name
        self.plugins = dict(plugins)
        self.custom_plugins = frozenset(name for name, plugin in plugins.items() if _is_custom(plugin))
        self.points = {point: tuple(names) for point, names in points.items()}
        self.weights = dict(weights)
        self.placements = PlacementRunner(
            self.at("placementGenerate"), self.at("placementScore"), placement_weights or {}
        )
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.reuse = reuse
        self.filters = [FilterRunner(p) for p in self.at("filter")]
        self.filters_about_pods = [r for r in self.filters if r.cache_key is not CacheKey.NODE]
        self._wide_filters = {r.name for r in self.filters if r.cache_key is CacheKey.NONE}
        self.scores = [ScoreRunner(p, self.weights.get(p.name) or 1) for p in self.at("score")]
        self._pre_enqueues = self._bound("preEnqueue", "pre_enqueue")
        self.pre_filters = self._preparing("preFilter", "pre_filter")
        self._post_filters = self._bound("postFilter", "post_filter")
        self.pre_scores = self._preparing("preScore", "pre_score")
        self._reserves = self._bound("reserve", "reserve")
        self._unreserves = self._bound("reserve", "unreserve")[::-1]
        self._permits = self._bound("permit", "permit")
        self.pre_binds = self._bound("preBind", "pre_bind")
        self.binds = self._bound("bind", "bind")
        self.post_binds = self._bound("postBind", "post_bind")
        self._caches: dict[Shape, ShapeCache] = {}

    def at(self, point: str) -> list[Plugin]:
        """The plugins of an extension point, in execution order."""
        return [self.plugins[name] for name in self.points.get(point, ())]

    def _bound(self, point: str, method: str) -> list[Bound]:
        """A method of each plugin of an extension point; reserve plugins may lack one of their two."""
        plugins = [plugin for plugin in self.at(point) if overrides(type(plugin), method)]
        return [(plugin.name, getattr(plugin, method)) for plugin in plugins]

    def _preparing(self, point: str, method: str) -> list[Preparing]:
        return [
            Preparing(name, ask, self.plugins[name].cache_key is not CacheKey.NONE)
            for name, ask in self._bound(point, method)
        ]

    def cache_for(self, shape: Shape, rows: int) -> ShapeCache:
        """Return the cache of a shape, creating it if needed; the least recently used are evicted."""
        caches = self._caches
        cache = caches.pop(shape, None)
        if cache is not None:
            caches[shape] = cache
            return cache
        cache = ShapeCache(self)
        if self.reuse:
            caches[shape] = cache
            by_size = self.CACHE_BYTES // (self.BYTES_PER_ROW * max(rows, 1))
            room = max(16, min(by_size, self.MOST_CACHES))
            while len(caches) > room:
                del caches[next(iter(caches))]
        return cache

    def forget(self, shape: Shape) -> None:
        """Drop the cache of a shape."""
        self._caches.pop(shape, None)

    def forget_all(self) -> None:
        """Drop the caches of all shapes."""
        self._caches.clear()

    def filters_are_local(self, state: EngineState) -> bool:
        """Whether every filter of this cycle looks at the node and its pods only."""
        return not self._wide_filters - state.skip_filter

    # ---- queue

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """The first refusal, or success. There is no attempt that an error could be reported with, so it is
        logged."""
        status = self._run_pre_enqueue(pod)
        if status.code is Code.ERROR and status.exception is None:
            logger.error('pod %s: running PreEnqueue plugin "%s": %s', pod.key, status.plugin, status.message)
        return status

    def _run_pre_enqueue(self, pod: PodInfo) -> Status:
        stopwatch = self.stopwatch
        if stopwatch is None:
            return _first_refusal(self._pre_enqueues, "pre_enqueue", pod)
        began = stopwatch.timer()
        asks = self._pre_enqueues
        plugins = stopwatch.pre_enqueue_samples.next()
        if plugins is not None:
            asks = [(name, plugins.timed(name, "PreEnqueue", ask)) for name, ask in asks]
        status = _first_refusal(asks, "pre_enqueue", pod)
        stopwatch.pre_enqueue(status.code, stopwatch.timer() - began)
        return status

    # ---- scheduling cycle

    def pre_filter(
        self, cache: ShapeCache, state: EngineState, pod: PodInfo, nodes: EngineNodes
    ) -> PreFilterOutcome:
        """Run pre_filter; raises PluginError where one fails."""
        outcome = PreFilterOutcome()
        state.skip_filter = cache.pre_filter.run(state, pod, nodes, outcome.take)
        if outcome.status.plugin:  # it rejected the pod: what others would have restricted is of no interest
            outcome.node_names, outcome.restricting = None, []
        return outcome

    def pre_score(self, cache: ShapeCache, state: EngineState, pod: PodInfo, nodes: EngineNodes) -> None:
        """Run pre_score on the feasible nodes; raises PluginError where one does not succeed."""
        state.skip_score = cache.pre_score.run(state, pod, nodes, _must_succeed)

    def post_filter(self, state: EngineState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterResult:
        """Run post_filter until one succeeds; otherwise the reasons of all that refused."""
        if self.stopwatch is None:
            return self._run_post_filter(state, pod, statuses)
        began = self.stopwatch.timer()
        result = self._run_post_filter(state, pod, statuses)
        self.stopwatch.post_filter((result.status or SUCCESS).code, self.stopwatch.timer() - began)
        return result

    def _run_post_filter(self, state: EngineState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterResult:
        reasons: list[str] = []
        last = PostFilterResult()
        for name, ask in self._post_filters:
            result = self._post_filter_one(name, ask, state, pod, statuses)
            status = result.status or SUCCESS
            if status.code in (Code.SUCCESS, Code.ERROR, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                return result
            if not status.rejected:
                message = f'running PostFilter plugin "{name}": unexpected status {status.code.text}'
                return PostFilterResult(None, Status(Code.ERROR, message, plugin=name))
            reasons += status.reasons
            if result.nominated_node is not None:
                last = result
        return last._replace(status=Status(Code.UNSCHEDULABLE, *reasons))

    def _post_filter_one(
        self,
        name: str,
        ask: Callable[..., Any],
        state: EngineState,
        pod: PodInfo,
        statuses: NodeStatuses,
    ) -> PostFilterResult:
        if state.sampling is not None:
            ask = state.sampling.timed(name, "PostFilter", ask)
        if self.stopwatch is not None and name == PREEMPTION:
            self.stopwatch.observer.preemption_attempted()
        try:
            answer = ask(state, pod, statuses)
        except CONTAINED as exc:
            message = f'running PostFilter plugin "{name}": {raised(name, "post_filter", exc)}'
            return PostFilterResult(None, Status(Code.ERROR, message, plugin=name, exception=exc))
        if isinstance(answer, PostFilterResult):
            problem = _post_filter_problem(answer)
            if problem is None:
                return answer
            message = f'running PostFilter plugin "{name}": {problem}'
            return PostFilterResult(None, Status(Code.ERROR, message, plugin=name))
        if answer is not None and not isinstance(answer, Status):
            problem = unexpected("post_filter", answer, "None, a Status or a PostFilterResult")
            message = f'running PostFilter plugin "{name}": {problem}'
            return PostFilterResult(None, Status(Code.ERROR, message, plugin=name))
        return PostFilterResult(None, SUCCESS if answer is None else answer.by(name))

    def reserve(self, state: EngineState, pod: PodInfo, node_name: str) -> Status:
        """Reserve in order; the caller unreserves when this fails."""
        asks = self._reserves
        if state.sampling is not None:
            asks = [(name, state.sampling.timed(name, "Reserve", ask)) for name, ask in asks]
        status = _first_refusal(asks, "reserve", state, pod, node_name)
        return status if status.ok else _failure(status, f'running Reserve plugin "{status.plugin}": ')

    def unreserve(self, state: EngineState, pod: PodInfo, node_name: str) -> None:
        """Give back in reverse order, whatever was reserved."""
        began = 0.0 if self.stopwatch is None else self.stopwatch.timer()
        for name, ask in self._unreserves:
            if state.sampling is not None:
                ask = state.sampling.timed(name, "Unreserve", ask)
            _answer(name, "unreserve", ask, state, pod, node_name)
        if self.stopwatch is not None:
            self.stopwatch.unreserve(Code.SUCCESS, self.stopwatch.timer() - began)

    def permit(
        self, state: EngineState, pod: PodInfo, node_name: str
    ) -> tuple[Status, dict[str, tuple[float, Status]]]:
        """The first refusal or success, and the plugins that want to wait with their timeouts."""
        waits: dict[str, tuple[float, Status]] = {}
        for name, ask in self._permits:
            if state.sampling is not None:
                ask = state.sampling.timed(name, "Permit", ask)
            status = _answer(name, "permit", ask, state, pod, node_name)
            if status.code is Code.WAIT:
                timeout = status.timeout
                if not isinstance(timeout, int | float) or isnan(timeout):
                    message = f'running Permit plugin "{name}": wait({timeout!r}): expected seconds'
                    return Status(Code.ERROR, message, plugin=name), {}
                waits[name] = (min(timeout, 15 * 60), status)
            elif not status.ok:
                return _failure(status, f'running Permit plugin "{name}": '), {}
        return SUCCESS, waits


def _first_refusal(asks: Sequence[Bound], method: str, *args: Any) -> Status:
    """The first answer that is not success, signed by its plugin; success where there is none."""
    for name, ask in asks:
        try:
            answer = ask(*args)
        except CONTAINED as exc:
            return Status(Code.ERROR, str(raised(name, method, exc)), plugin=name, exception=exc)
        if answer is not None:
            status = _checked(name, method, answer)
            if not status.ok:
                return status
    return SUCCESS


def _answer(name: str, method: str, ask: Callable[..., Any], *args: Any) -> Status:
    """One plugin's answer as a signed status, whatever it did."""
    try:
        answer = ask(*args)
    except CONTAINED as exc:
        return Status(Code.ERROR, str(raised(name, method, exc)), plugin=name, exception=exc)
    return SUCCESS if answer is None else _checked(name, method, answer)


def _must_succeed(name: str, answer: object) -> bool:
    if not isinstance(answer, Status):
        raise PluginError(name, f'running PreScore plugin "{name}": {unexpected("pre_score", answer)}')
    status = answer.by(name)
    if not status.ok:
        raise PluginError(name, f'running PreScore plugin "{name}": {status.message}')
    return True


def _checked(name: str, method: str, answer: object) -> Status:
    if not isinstance(answer, Status):
        return Status(Code.ERROR, unexpected(method, answer), plugin=name)
    return answer.by(name)


def _post_filter_problem(result: PostFilterResult) -> str | None:
    """What is wrong with a result that a plugin made."""
    nominated, status, victims, _ = (cast(Any, part) for part in result)
    if not isinstance(nominated, str | None):
        return f"nominated node {nominated!r}; expected a node name or None"
    if not isinstance(status, Status | None):
        return f"status {status!r}; expected a Status or None"
    odd = [victim for victim in victims if not isinstance(victim, PodInfo)]
    return f"victim {odd[0]!r}; expected a PodInfo" if odd else None


def _failure(status: Status, prefix: str) -> Status:
    """A rejection as it is; anything else as an error that says where it happened."""
    if status.rejected:
        return status
    message = status.message or f"unexpected status {status.code.text}"
    return Status(Code.ERROR, prefix + message, plugin=status.plugin, exception=status.exception)


def instantiate(cls: type[Plugin], args: Any, handle: Handle) -> Plugin:
    """Make a plugin; an exception in its constructor names it."""
    try:
        return cls(args, handle)
    except CONTAINED as exc:
        reraise_if_from_outside(exc)
        raise PluginError(cls.name, f'initializing plugin "{cls.name}": {exc}') from exc
