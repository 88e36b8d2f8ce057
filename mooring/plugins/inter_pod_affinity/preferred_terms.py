"""Preferred terms: nodes near pods that the pod likes, or that like the pod, score higher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mooring.framework.affinity import AffinityTerm
from mooring.framework.nodes import IntArray, PodPredicate
from mooring.plugins.arithmetic import MAX_SCORE
from mooring.plugins.inter_pod_affinity.terms import Concerns, Tallies, Tally, group_by_key
from mooring.plugins.predicates import CarriesWithWeight, SelectedWithWeight
from mooring.runtime.engine_nodes import EngineNodes

Rows = npt.NDArray[np.intp]
T = TypeVar("T")


class PreferredTerms:
    """What preferences say about one pod shape, as of the last call.

    `hard_weight` is what the required affinity of pods on nodes counts for when it selects the pod.
    """

    def __init__(self, concerns: Concerns, hard_weight: int) -> None:
        self._concerns = concerns
        self._hard_weight = hard_weight
        self._tallies = Tallies()
        self._version: int | None = None
        self._by_key: dict[str, _KeyScore] = {}
        self._whole: IntArray | None = None  # the scores of all rows of the table
        self._rows: Rows | None = None  # of which these were asked for last; None: all
        self._raw: IntArray | None = None
        self._normalized: IntArray | None = None

    def update(self, nodes: EngineNodes) -> None:
        """Take in what changed in the cluster."""
        concerns = self._concerns
        concerns.update(nodes)
        if self._tallies.stale(nodes) or self._version != concerns.version:
            self._version = None  # to start again if this fails half-way
            self._start(nodes.whole)
            self._version = concerns.version
        for score in self._by_key.values():
            if score.refresh():
                self._whole = None

    @property
    def idle(self) -> bool:
        """Whether no preference meets any pod; valid after `update`."""
        return not any(tally.some for score in self._by_key.values() for _, tally in score.signed)

    def _start(self, whole: EngineNodes) -> None:
        self._by_key = {}
        for key, predicate, sign in self._preferences(whole):
            score = self._by_key.get(key)
            if score is None:
                score = self._by_key[key] = _KeyScore(whole, key)
            score.signed.append((sign, self._tallies.get(whole, predicate, key)))
        self._whole = None

    def _preferences(self, whole: EngineNodes) -> Iterator[tuple[str, PodPredicate, int]]:
        """The weighted counts of each topology key, and whether they are added (1) or subtracted (-1)."""
        for key, own in group_by_key(self._concerns.preferred, whole).items():
            for sign in (1, -1):
                selected = _sum_up((each.pods, each.weight * sign) for each in own)
                if selected:
                    yield key, SelectedWithWeight(selected), sign
        for key, terms in group_by_key(self._concerns.attracting, whole).items():
            for sign in (1, -1):
                carried = _sum_up((term, self._weight(term) * sign) for term in terms)
                if carried:
                    yield key, CarriesWithWeight(carried), sign

    def _weight(self, term: AffinityTerm) -> int:
        weight = self._hard_weight if term.required else term.weight
        return -weight if term.anti else weight

    def score(self, nodes: EngineNodes) -> IntArray:
        """The raw scores of the rows; the same object until something changes. Valid after `update`."""
        if self._whole is None:
            first, *more = (score.of_rows() for score in self._by_key.values())
            self._whole = sum(more, first)
            self._raw = None
        rows = None if nodes.whole is nodes else nodes.rows
        if self._raw is None or not _same(rows, self._rows):
            self._rows = rows
            self._raw = self._whole if rows is None else self._whole.take(rows)
            self._normalized = None
        return self._raw

    def normalize(self, scores: IntArray) -> IntArray:
        """The lowest becomes 0, the highest 100; all 0 where they are equal."""
        if scores is not self._raw:
            return _normalize(scores)
        if self._normalized is None:
            self._normalized = _normalize(scores)
        return self._normalized


def _sum_up(weights: Iterable[tuple[T, int]]) -> dict[T, int]:
    """The positive weights, those of the same thing added up."""
    total: dict[T, int] = {}
    for thing, weight in weights:
        if weight > 0:
            total[thing] = total.get(thing, 0) + weight
    return total


def _same(rows: Rows | None, others: Rows | None) -> bool:
    return rows is others or (rows is not None and others is not None and np.array_equal(rows, others))


def _normalize(scores: IntArray) -> IntArray:
    lowest, highest = int(scores.min()), int(scores.max())
    if lowest == highest:
        return np.zeros_like(scores)
    return (MAX_SCORE * ((scores - lowest) / (highest - lowest))).astype(np.int64)


class _KeyScore:
    """What the preferences about one topology key add to the scores of rows."""

    def __init__(self, whole: EngineNodes, key: str) -> None:
        self.signed: list[tuple[int, Tally]] = []
        # By label value: a row without the label, id -1, finds the entry after the last.
        self._slots = whole.label(key).ids.astype(np.intp)

    def refresh(self) -> bool:
        changed = [tally.refresh() for _, tally in self.signed]
        return any(changed)

    def of_rows(self) -> IntArray:
        table: IntArray = np.zeros(len(self.signed[0][1].sums) + 1, np.int64)
        for sign, tally in self.signed:
            table[:-1] += sign * tally.sums
        return table.take(self._slots)
