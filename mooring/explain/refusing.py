"""Who refuses which node: every filter, where an attempt asks only until the first one says no."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.core.algorithm import Choice
from mooring.core.decision import RefusedNodes
from mooring.explain.explanation import Closest, Reasons
from mooring.framework.cache_key import CacheKey
from mooring.framework.nodes import BoolArray
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.extender import SIGNED
from mooring.runtime.filtering import FilterColumn
from mooring.runtime.runners import PluginError

EXAMPLES = 3  # nodes that are named of a group
MOST_GROUPS = 8

PROMISED = "pods nominated there"  # stands in the place of a plugin

Rows = npt.NDArray[np.intp]


class Verdict(NamedTuple):
    """One plugin's refusals."""

    plugin: str
    refused: BoolArray
    codes: npt.NDArray[np.int32]  # rows with one code have one reason
    reasons_of: Callable[[int], tuple[str, ...]]  # by row
    by_node: bool  # whether they stand whatever pods are there


class Refusing:
    """All refusals of one rehearsal, by node.

    `rejections` are those of the pod as a whole; `filtered` is what the filters say without them.
    """

    def __init__(
        self,
        pod: PodInfo,
        choice: Choice,
        filtered: Choice,
        rejections: Sequence[Status],
        nodes: EngineNodes,
    ) -> None:
        self._names = nodes.names
        restrictions = list(_restrictions(choice, len(nodes)))
        filters = [*_filters(pod, filtered, nodes), *_outside_the_table(filtered, len(nodes))]
        further = [_everywhere(each, len(nodes)) for each in rejections[1:]]
        self.verdicts = restrictions + further + filters
        refused = [verdict.refused for verdict in self.verdicts]
        self._matrix: BoolArray = np.array(refused, np.bool_).reshape(len(refused), len(nodes))
        if (
            restrictions and filters and not rejections
        ):  # who ruled nodes out beforehand usually refuses them as a filter, too
            self._matrix[0] &= ~self._matrix[1:].any(axis=0)
        self._refusals = self._matrix.sum(axis=0)

    @property
    def by_node(self) -> BoolArray:
        """The rows that are refused for what their Node objects say, whatever pods are there."""
        lasting = [verdict.refused for verdict in self.verdicts if verdict.by_node]
        return np.logical_or.reduce(lasting) if lasting else np.zeros(len(self._names), np.bool_)

    @property
    def by_extenders(self) -> BoolArray:
        """The rows that extenders refuse."""
        refused = [verdict.refused for verdict in self.verdicts if verdict.plugin.startswith(SIGNED)]
        return np.logical_or.reduce(refused) if refused else np.zeros(len(self._names), np.bool_)

    def counted(self) -> list[RefusedNodes]:
        """The reasons that an attempt gives, with the number of nodes and some of their names."""
        groups = [
            RefusedNodes(plugin, list(reasons), len(rows), self.some(rows))
            for plugin, reasons, rows in self._first_refusals()
        ]
        groups.sort(key=lambda each: (-each.nodes, each.plugin, each.reasons))
        rest = sum(each.nodes for each in groups[MOST_GROUPS:])
        return [*groups[:MOST_GROUPS], RefusedNodes("", [], rest)] if rest else groups

    def _first_refusals(self) -> Iterator[tuple[str, tuple[str, ...], Rows]]:
        taken = np.zeros(len(self._names), np.bool_)
        for verdict in self.verdicts:
            yield from self._groups(verdict, np.flatnonzero(verdict.refused & ~taken))
            taken |= verdict.refused

    def _groups(self, verdict: Verdict, rows: Rows) -> Iterator[tuple[str, tuple[str, ...], Rows]]:
        """Rows that a plugin refuses, by reason."""
        codes = verdict.codes[rows]
        for code in np.unique(codes).tolist():
            same = rows[codes == code]
            yield verdict.plugin, verdict.reasons_of(int(same[0])), same

    def alone(self) -> Iterator[tuple[str, tuple[str, ...], Rows]]:
        """The rows that a single plugin stands in the way of, by plugin and reason."""
        lonely = self._refusals == 1
        for verdict, refused in zip(self.verdicts, self._matrix, strict=True):
            yield from self._groups(verdict, np.flatnonzero(refused & lonely))

    def closest(self) -> list[Closest]:
        """The nodes that the fewest plugins refuse, by who they are and what they say."""
        if not len(self._refusals):
            return []
        rows = np.flatnonzero(self._refusals == self._refusals.min())
        codes = np.array([verdict.codes[rows] for verdict in self.verdicts]) * self._matrix[:, rows]
        patterns, group = np.unique(codes, axis=1, return_inverse=True)
        group = group.reshape(-1)
        groups = []
        for i in range(patterns.shape[1]):
            same = rows[group == i]
            who = [self.verdicts[j] for j in np.flatnonzero(patterns[:, i]).tolist()]
            reasons = [Reasons(plugin=v.plugin, reasons=list(v.reasons_of(int(same[0])))) for v in who]
            groups.append(Closest(nodes=len(same), refused_by=reasons, examples=self.some(same)))
        groups.sort(key=lambda each: -each.nodes)
        return groups[:EXAMPLES]

    def some(self, rows: Rows | Sequence[int]) -> list[str]:
        """The names of some of these rows."""
        return [self._names[row] for row in rows[:EXAMPLES]]


def _restrictions(choice: Choice, length: int) -> Iterator[Verdict]:
    """What pre_filter ruled out: the pod as a whole, or all nodes but some."""
    absent, allowed = choice.diagnosis.absent, choice.diagnosis.allowed
    if absent is None:
        return
    outside = np.ones(length, np.bool_) if allowed is None else ~allowed
    yield Verdict(absent.plugin, outside, outside.astype(np.int32), lambda row: absent.reasons, True)


def _everywhere(status: Status, length: int) -> Verdict:
    """A rejection of the pod as a whole."""
    nodes = np.ones(length, np.bool_)
    return Verdict(status.plugin, nodes, nodes.astype(np.int32), lambda row: status.reasons, True)


def _filters(pod: PodInfo, choice: Choice, nodes: EngineNodes) -> Iterator[Verdict]:
    filtering = choice.diagnosis.filtering
    for column in () if filtering is None else filtering.columns:
        runner = column.runner
        if runner.by_node and runner.cache_key is CacheKey.NONE:
            # It was asked only about nodes that others let pass.
            full = FilterColumn(runner, len(nodes))
            try:
                full.put(slice(None), runner.run(choice.state, pod, nodes))
                column = full
            except PluginError:
                pass  # what is known is worth telling
        lasting = runner.cache_key in (CacheKey.NODE, CacheKey.ALL_NODES)
        yield Verdict(runner.name, column.codes != 0, column.codes, _reasons(column), lasting)


def _reasons(column: FilterColumn) -> Callable[[int], tuple[str, ...]]:
    return lambda row: column.statuses[column.codes.item(row)].reasons


def _outside_the_table(choice: Choice, length: int) -> Iterator[Verdict]:
    """Nodes that would do, were it not for the pods nominated to them, or for an extender."""
    filtering = choice.diagnosis.filtering
    by_whom: dict[str, dict[int, Status]] = {}
    for row, status in choice.diagnosis.explicit.items():
        if filtering is not None and filtering.feasible[row]:
            who = status.plugin if status.plugin.startswith(SIGNED) else PROMISED
            by_whom.setdefault(who, {})[row] = status
    for who, refusals in by_whom.items():
        yield _explicit(who, refusals, length)


def _explicit(who: str, refusals: dict[int, Status], length: int) -> Verdict:
    codes = np.zeros(length, np.int32)
    numbers: dict[Status, int] = {}
    for row, status in refusals.items():
        codes[row] = numbers.setdefault(status, len(numbers) + 1)
    lasting = who != PROMISED  # of an extender it is not known what would change its mind
    return Verdict(who, codes != 0, codes, lambda row: refusals[row].reasons, lasting)
