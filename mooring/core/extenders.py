"""Asking extenders in a scheduling cycle: who passes, and what each node is worth to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mooring.core.diagnosis import Diagnosis
from mooring.framework.nodes import BoolArray, IntArray
from mooring.framework.pod import PodInfo
from mooring.framework.status import Code, Status
from mooring.runtime.amounts import wrap_int64
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.extender import SCALE, Extender, ExtenderCallError, Filtered, signature

Parallelize = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]


class ExtenderScores(NamedTuple):
    """What one extender gave to each row of the table, 0 where it was not asked."""

    name: str
    weight: int  # brings its scores to the scale of the plugins', too
    raw: IntArray

    @property
    def weighted(self) -> IntArray:
        return self.raw * wrap_int64(self.weight)


class Extenders(list[Extender]):
    """The extenders of a configuration; the ignorable ones are asked last."""

    def __init__(self, extenders: Iterable[Extender], parallelize: Parallelize) -> None:
        super().__init__(sorted(extenders, key=lambda extender: extender.ignorable))
        self._parallelize = parallelize
        self.prioritizing = 0  # how many are being asked for scores now

    def binding(self, pod: PodInfo) -> list[Extender]:
        """Those that may bind this pod in the place of the bind plugins."""
        return [each for each in self if each.binds and each.is_interested(pod)]

    def narrow(
        self, pod: PodInfo, nodes: EngineNodes, feasible: BoolArray, diagnosis: Diagnosis
    ) -> BoolArray:
        """The feasible rows that every interested extender lets pass; the same array where all of them do.

        One after the other is asked about what the ones before left. Raises ExtenderCallError where one that
        cannot be ignored fails.
        """
        for extender in self:
            if not (extender.filters and extender.is_interested(pod)):
                continue
            candidates = nodes.where(feasible)
            if not len(candidates):
                break
            try:
                answer = extender.filter(pod, candidates)
            except ExtenderCallError:
                if extender.ignorable:
                    continue
                raise
            if len(answer.passed) < len(candidates):
                left = np.zeros(len(feasible), np.bool_)
                left[answer.passed] = True
                diagnosis.explain_later(partial(_explain, extender, feasible & ~left, answer, diagnosis))
                feasible = left
        return feasible

    def scores(self, pod: PodInfo, candidates: EngineNodes, length: int) -> list[ExtenderScores]:
        """What the interested extenders give to the candidates, on a table of that length.

        All are asked at once. Raises ExtenderCallError where one that cannot be ignored fails.
        """
        interested = [each for each in self if each.prioritizes and each.is_interested(pod)]
        self.prioritizing = len(interested)
        try:
            if len(interested) == 1:
                answers = [_prioritize(interested[0], pod, candidates)]
            else:
                answers = self._parallelize(lambda each: _prioritize(each, pod, candidates), interested)
        finally:
            self.prioritizing = 0
        results = []
        for extender, scores in zip(interested, answers, strict=True):
            if scores is not None:
                raw = np.zeros(length, np.int64)
                raw[candidates.rows] = scores
                results.append(ExtenderScores(signature(extender), extender.weight * SCALE, raw))
        return results


def _prioritize(extender: Extender, pod: PodInfo, candidates: EngineNodes) -> IntArray | None:
    try:
        return extender.prioritize(pod, candidates)
    except ExtenderCallError:
        if extender.ignorable:
            return None
        raise


def _explain(extender: Extender, refused: BoolArray, answer: Filtered, diagnosis: Diagnosis) -> None:
    """Put down why an extender refused rows. Where it does not say, there is nothing to count in a message,
    and removing pods is not worth a try."""
    name = signature(extender)
    statuses: dict[tuple[Code, str], Status] = {}
    dropped = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, plugin=name)
    explicit, row_of = diagnosis.explicit, diagnosis.row_of
    explicit.update(dict.fromkeys(np.flatnonzero(refused).tolist(), dropped))
    for code, failures in (
        (Code.UNSCHEDULABLE, answer.failed),
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, answer.unresolvable),  # wins where a row is in both
    ):
        for node_name, reason in failures.items():
            row = row_of.get(node_name)
            if row is not None and refused.item(row):
                status = statuses.get((code, reason))
                if status is None:
                    status = statuses[code, reason] = Status(code, reason, plugin=name)
                explicit[row] = status
