"""A profile at work: its plugins, and running each extension point with kube-scheduler's rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from mooring.framework.cycle_state import CycleState
from mooring.framework.evaluation import Filtering, Scoring
from mooring.framework.events import EventHint
from mooring.framework.handle import Handle
from mooring.framework.nodes import Nodes, NodeStatuses
from mooring.framework.plugin import Plugin, PostFilterResult, PreFilterResult, overrides
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.runners import FilterRunner, PluginError, ScoreRunner, raised
from mooring.framework.status import SUCCESS, Code, Status

Bound = tuple[str, Callable[..., Any]]


class PreFilterOutcome:
    """What the pre_filter plugins said together."""

    __slots__ = ("node_names", "restricting", "status")

    def __init__(
        self,
        status: Status = SUCCESS,
        node_names: frozenset[str] | None = None,
        restricting: frozenset[str] = frozenset(),
    ) -> None:
        self.status = status  # a rejection of the pod as a whole, or success
        self.node_names = node_names  # the only nodes the pod may go to; None: all
        self.restricting = restricting  # the plugins that restricted them


class ShapeMemory:
    """What a profile keeps for pods of one shape between their cycles."""

    __slots__ = ("filtering", "memory", "scoring")

    def __init__(self, filters: Sequence[FilterRunner], scores: Sequence[ScoreRunner]) -> None:
        self.memory: dict[Hashable, Any] = {}
        self.filtering = Filtering(filters)
        self.scoring = Scoring(scores)


class Profile:
    """One scheduler name with its plugins at each extension point, in execution order.

    With `reuse` off nothing is kept between cycles: slower, and the same answers.
    """

    MEMORY_BYTES = 256 << 20  # for shape memories, estimated at BYTES_PER_ROW for each row of the table
    BYTES_PER_ROW = 160

    def __init__(
        self,
        scheduler_name: str,
        plugins: Mapping[str, Plugin],
        points: Mapping[str, Sequence[str]],
        weights: Mapping[str, int],
        percentage_of_nodes_to_score: int | None = None,
        reuse: bool = True,
    ) -> None:
        self.scheduler_name = scheduler_name
        self.plugins = dict(plugins)
        self.points = {point: tuple(names) for point, names in points.items()}
        self.weights = dict(weights)
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.reuse = reuse
        self.filters = [FilterRunner(p) for p in self.at("filter")]
        self.scores = [ScoreRunner(p, self.weights.get(p.name) or 1) for p in self.at("score")]
        self._pre_filters = self._bound("preFilter", "pre_filter")
        self._pre_scores = self._bound("preScore", "pre_score")
        self._memories: dict[Shape, ShapeMemory] = {}

    def at(self, point: str) -> list[Plugin]:
        """The plugins of an extension point, in execution order."""
        return [self.plugins[name] for name in self.points.get(point, ())]

    def _bound(self, point: str, method: str) -> list[Bound]:
        return [(plugin.name, getattr(plugin, method)) for plugin in self.at(point)]

    def memory_of(self, shape: Shape, rows: int) -> ShapeMemory:
        """The memory for a shape, most recently used last; the oldest make room."""
        memory = self._memories.pop(shape, None) if self.reuse else None
        if memory is None:
            memory = ShapeMemory(self.filters, self.scores)
        if self.reuse:
            self._memories[shape] = memory
            room = max(16, self.MEMORY_BYTES // (self.BYTES_PER_ROW * max(rows, 1)))
            while len(self._memories) > room:
                del self._memories[next(iter(self._memories))]
        return memory

    # ---- queue

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """The first refusal, or success."""
        for name, ask in self._bound("preEnqueue", "pre_enqueue"):
            status = _answer(name, "PreEnqueue", ask, pod)
            if not status.ok:
                return status
        return SUCCESS

    def hints(self) -> dict[str, list[EventHint] | None]:
        """What each plugin registered; None for one that declares nothing."""
        registered: dict[str, list[EventHint] | None] = {}
        for name, plugin in self.plugins.items():
            declares = overrides(type(plugin), "events_to_register")
            registered[name] = list(plugin.events_to_register()) if declares else None
        return registered

    # ---- scheduling cycle

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterOutcome:
        """Run pre_filter; raises PluginError where one fails."""
        skipped: list[str] = []
        names: frozenset[str] | None = None
        restricting: list[str] = []
        rejection: Status | None = None
        for name, ask in self._pre_filters:
            try:
                answer = ask(state, pod, nodes)
            except Exception as exc:
                answer = Status(Code.ERROR, str(raised(name, "pre_filter", exc)), exception=exc)
            if answer is None:
                continue
            if isinstance(answer, Status):
                code = answer.code
                if code is Code.SKIP:
                    skipped.append(name)
                elif code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    state.skip_filter = frozenset(skipped)
                    return PreFilterOutcome(answer.by(name))
                elif code is Code.UNSCHEDULABLE:
                    rejection = answer.by(name)
                elif code is not Code.SUCCESS:
                    raise PluginError(name, f'running PreFilter plugin "{name}": {answer.message}')
            elif isinstance(answer, PreFilterResult):
                restricting.append(name)
                names = answer.node_names if names is None else names & answer.node_names
                if not names:
                    state.skip_filter = frozenset(skipped)
                    status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, _unsatisfied(restricting))
                    return PreFilterOutcome(status, names, frozenset(restricting))
            else:
                raise PluginError(
                    name,
                    f'running PreFilter plugin "{name}": answered {answer!r}; '
                    "expected None, a Status or a PreFilterResult",
                )
        state.skip_filter = frozenset(skipped)
        if rejection is not None:
            return PreFilterOutcome(rejection)
        return PreFilterOutcome(SUCCESS, names, frozenset(restricting))

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Run pre_score on the feasible nodes; raises PluginError where one does not succeed."""
        skipped = []
        for name, ask in self._pre_scores:
            status = _answer(name, "PreScore", ask, state, pod, nodes)
            if status.code is Code.SKIP:
                skipped.append(name)
            elif status.code is not Code.SUCCESS:
                raise PluginError(name, f'running PreScore plugin "{name}": {status.message}')
        state.skip_score = frozenset(skipped)

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterResult:
        """Run post_filter until one succeeds; otherwise the reasons of all that refused."""
        reasons: list[str] = []
        last = PostFilterResult()
        for name, ask in self._bound("postFilter", "post_filter"):
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
        state: CycleState,
        pod: PodInfo,
        statuses: NodeStatuses,
    ) -> PostFilterResult:
        try:
            answer = ask(state, pod, statuses)
        except Exception as exc:
            failure = raised(name, "post_filter", exc)
            return PostFilterResult(None, Status(Code.ERROR, str(failure), plugin=name, exception=exc))
        if isinstance(answer, PostFilterResult):
            return answer
        return PostFilterResult(None, _checked(name, answer))

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Reserve in order; the caller unreserves when this fails."""
        for name, ask in self._reserving("reserve"):
            status = _answer(name, "Reserve", ask, state, pod, node_name)
            if not status.ok:
                return _failure(status, f'running Reserve plugin "{name}": ')
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give back in reverse order, whatever was reserved."""
        for name, ask in reversed(list(self._reserving("unreserve"))):
            _answer(name, "Unreserve", ask, state, pod, node_name)

    def _reserving(self, method: str) -> Iterator[Bound]:
        for plugin in self.at("reserve"):
            if overrides(type(plugin), method):
                yield plugin.name, getattr(plugin, method)

    def permit(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status, dict[str, tuple[float, Status]]]:
        """The first refusal or success, and the plugins that want to wait with their timeouts."""
        waits: dict[str, tuple[float, Status]] = {}
        for name, ask in self._bound("permit", "permit"):
            status = _answer(name, "Permit", ask, state, pod, node_name)
            if status.code is Code.WAIT:
                waits[name] = (min(status.timeout, 15 * 60), status)
            elif not status.ok:
                return _failure(status, f'running Permit plugin "{name}": '), {}
        return SUCCESS, waits


def _answer(name: str, point: str, ask: Callable[..., Any], *args: Any) -> Status:
    """One plugin's answer as a signed status, whatever it did."""
    try:
        answer = ask(*args)
    except Exception as exc:
        return Status(Code.ERROR, str(raised(name, point, exc)), plugin=name, exception=exc)
    return SUCCESS if answer is None else _checked(name, answer)


def _checked(name: str, answer: object) -> Status:
    if answer is None:
        return SUCCESS
    if not isinstance(answer, Status):
        return Status(Code.ERROR, f"answered {answer!r}; expected None or a Status", plugin=name)
    return answer.by(name)


def _failure(status: Status, prefix: str) -> Status:
    """A rejection as it is; anything else as an error that says where it happened."""
    if status.rejected:
        return status
    message = status.message or f"unexpected status {status.code.text}"
    return Status(Code.ERROR, prefix + message, plugin=status.plugin, exception=status.exception)


def _unsatisfied(plugins: Sequence[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"


def instantiate(cls: type[Plugin], args: Any, handle: Handle) -> Plugin:
    """Make a plugin; an exception in its constructor names it."""
    try:
        return cls(args, handle)
    except Exception as exc:
        raise PluginError(cls.name, f'initializing plugin "{cls.name}": {exc}') from exc
