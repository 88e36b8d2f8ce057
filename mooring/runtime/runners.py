"""Calling plugins: the two grains of filter and score made one, answers checked, exceptions contained."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from mooring.api.counts import count
from mooring.framework.cache_key import CacheKey
from mooring.framework.nodes import BoolArray, IntArray, Verdicts
from mooring.framework.plugin import Plugin, overrides
from mooring.framework.pod import PodInfo
from mooring.framework.status import Code, Status
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside, shown, text_of
from mooring.runtime.engine_nodes import EngineNode, EngineNodes
from mooring.runtime.engine_state import EngineState
from mooring.runtime.groups import Groups, has_key_for_shape, scores_by_shape, scores_groups

logger = logging.getLogger("mooring.framework")

EXPECTED_STATUS = 'None or a Status, such as unschedulable("reason")'

_NONE = Status(Code.SUCCESS)
_REFUSALS = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


class PluginError(Exception):
    """A plugin failed or answered what it must not; the attempt it happened in is an error."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.plugin = plugin


class FilterError(PluginError):
    """A filter failed."""

    def __init__(self, plugin: str, problem: object) -> None:
        super().__init__(plugin, f'running "{plugin}" filter plugin: {problem}')
        self.problem = str(problem)


def raised(plugin: str, where: str, exc: BaseException) -> PluginError:
    """Turn what a plugin raised into an error of the attempt, with the traceback in the log."""
    if isinstance(exc, PluginError):
        return exc
    reraise_if_from_outside(exc)
    logger.error("plugin %s raised in %s", plugin, where, exc_info=exc)
    return PluginError(plugin, text_of(exc))


def unexpected(method: str, value: object, expected: str = EXPECTED_STATUS) -> str:
    """Return the message for a method that returned a value of the wrong type."""
    return f"{method} returned {shown(value)}; expected {expected}"


def check_refusal(plugin: str, status: object) -> None:
    """A filter's answer other than success must be a refusal."""
    if not isinstance(status, Status):
        raise PluginError(plugin, unexpected("filter", status))
    if status.code not in _REFUSALS:
        raise PluginError(plugin, status.message or f"unexpected status {status.code.text}")


class StatusCodes:
    """The statuses that a filter answered node by node, numbered."""

    __slots__ = ("_codes", "_plugin", "statuses")

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin
        self._codes: dict[Status, int] = {}
        self.statuses: dict[int, Status] = {}

    def code(self, status: Status | None) -> int:
        """The code of a status; 0 for success."""
        if status is None or (isinstance(status, Status) and status.code is Code.SUCCESS):
            return 0
        check_refusal(self._plugin, status)
        code = self._codes.get(status)
        if code is None:
            code = self._codes[status] = len(self._codes) + 1
            self.statuses[code] = status.by(self._plugin)
        return code


class FilterRunner:
    """One filter plugin, asked about many nodes at once whichever grain it implements."""

    def __init__(self, plugin: Plugin) -> None:
        cls = type(plugin)
        self.plugin = plugin
        self.name = plugin.name
        self.cache_key = plugin.cache_key
        self.by_node = not overrides(cls, "filter_nodes")
        self._has_both = not self.by_node and overrides(cls, "filter")
        self.sees_refused_nodes = not self.by_node or self.cache_key is not CacheKey.NONE
        self._extended = overrides(cls, "add_pod") or overrides(cls, "remove_pod")
        self._status_codes = StatusCodes(self.name)  # shared by all cached verdicts
        self._fine: Verdicts | None = None  # the last verdicts whose codes were checked
        self._signed: dict[int, tuple[Status, Status]] = {}

    def signed(self, status: Status) -> Status:
        """Return the status with the plugin's name; one object per status, so that the statuses of
        thousands of nodes can be compared by identity."""
        pair = self._signed.get(id(status))
        if pair is None or pair[0] is not status:
            if len(self._signed) > 4096:
                self._signed.clear()
            pair = self._signed[id(status)] = (status, status.by(self.name))
        return pair[1]

    def run(
        self, state: EngineState, pod: PodInfo, nodes: EngineNodes, alive: BoolArray | None = None
    ) -> Verdicts | None:
        """The plugin's verdicts; rows that are not `alive` may be left out of the question."""
        if state.sampling is not None:
            return state.sampling.run(self.name, "Filter", state, self.run, state, pod, nodes, alive)
        try:
            if nodes.hypothetical and self._extended:
                return self._adjusted(state, pod, nodes)
            if self.by_node:
                return self._each(state, pod, nodes, alive)
            verdicts = self.plugin.filter_nodes(state, pod, nodes)
            return None if verdicts is None else self._checked(verdicts, len(nodes))
        except CONTAINED as exc:
            error = raised(self.name, "filter", exc)
            raise FilterError(self.name, error) from exc

    def run_one(
        self, state: EngineState, pod: PodInfo, node: EngineNode, view: EngineNodes
    ) -> Verdicts | None:
        """`run` for one node, in the quicker of the forms that the plugin has."""
        if state.sampling is not None:
            return state.sampling.run(self.name, "Filter", state, self.run_one, state, pod, node, view)
        if self._has_both:
            try:
                status = self.plugin.filter(state, pod, node)
            except CONTAINED as exc:
                error = raised(self.name, "filter", exc)
                raise FilterError(self.name, error) from exc
            if status is None:
                return None
        return self.run(state, pod, view)

    def _each(
        self, state: EngineState, pod: PodInfo, nodes: EngineNodes, alive: BoolArray | None
    ) -> Verdicts:
        codes = np.zeros(len(nodes), np.int32)
        status_codes = StatusCodes(self.name) if self.cache_key is CacheKey.NONE else self._status_codes
        for i in range(len(nodes)) if alive is None else np.flatnonzero(alive).tolist():
            codes[i] = status_codes.code(self.plugin.filter(state, pod, nodes[i]))
        return Verdicts(codes, status_codes.statuses)

    def _adjusted(self, state: EngineState, pod: PodInfo, nodes: EngineNodes) -> Verdicts:
        """Ask row by row, with what pre_filter wrote adjusted by the plugin's own add_pod and remove_pod."""
        codes = np.zeros(len(nodes), np.int32)
        status_codes = StatusCodes(self.name)
        for i in range(len(nodes)):
            node, view = nodes[i], nodes.part(np.array([i]))
            adjusted = state.clone()
            removed, added = nodes.changes(i)
            for change, pods in ((self.plugin.remove_pod, removed), (self.plugin.add_pod, added)):
                for other in pods:
                    failed = change(adjusted, pod, other, node)
                    if failed is not None and not isinstance(failed, Status):
                        raise PluginError(self.name, unexpected(change.__name__, failed))
                    if failed is not None and not failed.ok:
                        raise PluginError(self.name, failed.message)
            if self.by_node:
                status = self.plugin.filter(adjusted, pod, node)
            else:
                answer = self.plugin.filter_nodes(adjusted, pod, view)
                one = None if answer is None else self._checked(answer, 1)
                status = one.statuses[int(one.codes[0])] if one is not None and one.codes[0] else None
            codes[i] = status_codes.code(status)
        return Verdicts(codes, status_codes.statuses)

    def _checked(self, verdicts: Verdicts, length: int) -> Verdicts:
        if not isinstance(verdicts, Verdicts):
            raise PluginError(self.name, unexpected("filter_nodes", verdicts, "Verdicts or None"))
        codes = verdicts.codes
        if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iu":
            raise PluginError(self.name, "filter_nodes gave codes that are not an integer array")
        if codes.shape != (length,):
            raise PluginError(self.name, f"filter_nodes gave {codes.shape} codes for {count(length, 'node')}")
        if not isinstance(verdicts.statuses, Mapping):
            raise PluginError(
                self.name, f"filter_nodes gave statuses {shown(verdicts.statuses)}; expected a mapping"
            )
        if verdicts is not self._fine and type(verdicts.statuses) is dict:
            self._check_codes(verdicts)
            self._fine = verdicts
        return verdicts

    def _check_codes(self, verdicts: Verdicts) -> None:
        """Every code that occurs must have a status, and the status must be a refusal."""
        statuses = verdicts.statuses
        codes = verdicts.codes.astype(np.int64, copy=False)
        highest = int(codes.view(np.uint64).max()) if len(codes) else 0  # of a negative one: huge
        occurring = range(1, highest + 1)
        if highest > 64 or any(statuses.get(code, _NONE).code not in _REFUSALS for code in occurring):
            occurring = np.unique(codes[codes != 0]).tolist()
        for code in occurring:
            if code not in statuses:
                raise PluginError(self.name, f"filter_nodes gave code {code}, which has no status")
            if statuses[code].code is not Code.ERROR:  # counts if no earlier filter refuses the row
                check_refusal(self.name, statuses[code])


class ScoreRunner:
    """One score plugin with its weight, asked about many nodes at once."""

    def __init__(self, plugin: Plugin, weight: int) -> None:
        cls = type(plugin)
        self.plugin = plugin
        self.name = plugin.name
        self.weight = weight
        self.cache_key = plugin.cache_key
        self.normalizes = overrides(cls, "normalize_score")
        self._by_node = not overrides(cls, "score_nodes")
        self._has_both = not self._by_node and overrides(cls, "score")
        self.by_groups = scores_groups(cls)
        self._by_shape = scores_by_shape(cls)
        self._has_key_for_shape = has_key_for_shape(cls)
        self.reuses = self.cache_key is not CacheKey.NONE

    def scores_shape(self, pod: PodInfo) -> bool:
        """Whether pods of this shape can get any score but 0."""
        return not self._by_shape or self.plugin.scores_shape(pod)  # type: ignore[attr-defined]

    def cache_key_for(self, pod: PodInfo) -> CacheKey:
        """What the scores of pods of this shape are cached by."""
        if not self._has_key_for_shape:
            return self.cache_key
        key: CacheKey = self.plugin.score_cache_key(pod)  # type: ignore[attr-defined]
        return key

    def run(self, state: EngineState, pod: PodInfo, nodes: EngineNodes) -> IntArray:
        if state.sampling is not None:
            return state.sampling.run(self.name, "Score", state, self.run, state, pod, nodes)
        try:
            if self._by_node:
                return self._each(state, pod, nodes)
            return self._checked(self.plugin.score_nodes(state, pod, nodes), len(nodes), "score_nodes")
        except CONTAINED as exc:
            raise self._failed("score", exc) from exc

    def run_one(self, state: EngineState, pod: PodInfo, node: EngineNode, view: EngineNodes) -> int:
        """`run` for one node, in the quicker of the forms that the plugin has."""
        if state.sampling is not None:
            return state.sampling.run(self.name, "Score", state, self.run_one, state, pod, node, view)
        if not self._has_both:
            return int(self.run(state, pod, view)[0])
        try:
            return self._integer(self.plugin.score(state, pod, node), node)
        except CONTAINED as exc:
            raise self._failed("score", exc) from exc

    def normalize(self, state: EngineState, pod: PodInfo, scores: IntArray, nodes: EngineNodes) -> IntArray:
        if state.sampling is not None:
            point, ask = "ScoreExtensionNormalize", self.normalize
            return state.sampling.run(self.name, point, state, ask, state, pod, scores, nodes)
        try:
            normalized = self.plugin.normalize_score(state, pod, scores, nodes)
            return self._checked(normalized, len(nodes), "normalize_score")
        except CONTAINED as exc:
            raise self._failed("normalize_score", exc) from exc

    def groups(self, state: EngineState, pod: PodInfo, nodes: EngineNodes, rows: int) -> Groups:
        """`run` and `normalize` in one; `rows` is how many the table has."""
        try:
            groups: Groups = self.plugin.score_groups(state, pod, nodes)  # type: ignore[attr-defined]
            if not isinstance(groups, Groups):
                raise PluginError(self.name, unexpected("score_groups", groups, "Groups"))
            if groups.of.shape != (rows,):
                raise PluginError(self.name, f"score_groups put {groups.of.shape} rows of {rows} into groups")
            self._checked(groups.raw, len(groups.scores), "score_groups")
            self._checked(groups.scores, len(groups.scores), "score_groups")
            return groups
        except CONTAINED as exc:
            raise self._failed("score_groups", exc) from exc

    def spread(self, by_group: IntArray, groups: Groups) -> IntArray:
        """What each row of the table has by its group."""
        try:
            return by_group.take(groups.of)
        except CONTAINED as exc:
            raise self._failed("score_groups", exc) from exc

    def check_range(self, scores: IntArray) -> None:
        """After normalising, every score is within 0..100."""
        if outside_range(scores):
            worst = int(scores[(scores < 0) | (scores > 100)][0])
            raise PluginError(
                self.name,
                f'applying score defaultWeights on Score plugins: plugin "{self.name}" returns an invalid '
                f"score {worst}, it should in the range of [0, 100] after normalizing",
            )

    def _failed(self, where: str, exc: BaseException) -> PluginError:
        error = raised(self.name, where, exc)
        return PluginError(self.name, f'running Score plugins: plugin "{self.name}" failed with: {error}')

    def _each(self, state: EngineState, pod: PodInfo, nodes: EngineNodes) -> IntArray:
        scores = [self._integer(self.plugin.score(state, pod, node), node) for node in nodes]
        return np.array(scores, np.int64)

    def _integer(self, score: object, node: EngineNode) -> int:
        if type(score) is int:
            return score
        if isinstance(score, np.integer):
            return int(score)
        where = f"score for node {node.name}"
        raise PluginError(self.name, unexpected(where, score, "an integer"))

    def _checked(self, scores: IntArray, length: int, method: str) -> IntArray:
        if not isinstance(scores, np.ndarray):
            raise PluginError(
                self.name, f"{method} returned a {type(scores).__name__}; expected a NumPy array"
            )
        if scores.shape != (length,):
            raise PluginError(self.name, f"{method} gave {scores.shape} scores for {count(length, 'node')}")
        if scores.dtype.kind not in "iu":
            nan = scores.dtype.kind == "f" and bool(np.isnan(scores).any())
            kind = "NaN" if nan else f"{scores.dtype} values"
            raise PluginError(self.name, f"{method} gave {kind}; expected integers")
        return scores


def outside_range(scores: IntArray) -> bool:
    """Whether any score is below 0 or above 100; on a few rows much quicker than with min() and max()."""
    if not len(scores):
        return False
    return scores.item(scores.argmax()) > 100 or scores.item(scores.argmin()) < 0


def same_statuses(a: Mapping[int, Status], b: Mapping[int, Status]) -> bool:
    """Whether two verdicts' codes mean the same, so that rows of both can stand in one column."""
    return a is b or (type(a) is dict and a == b)
