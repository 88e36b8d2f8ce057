"""Required terms: the nodes that the pod's affinity, its anti-affinity or that of other pods rules out.

Results are computed per domain of each topology key and copied to the rows only where they changed. A row's
code has one bit for each rule that it violates, so that the results of several keys can be combined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import BoolArray, IntArray, Verdicts
from mooring.framework.pod import Shape
from mooring.framework.status import Status
from mooring.plugins.inter_pod_affinity.terms import Concerns, Tallies, Tally, group_by_key
from mooring.plugins.predicates import CarriesAny, SelectedByAll, SelectedByAny
from mooring.runtime.engine_nodes import EngineNodes

EXISTING_ANTI_AFFINITY, ANTI_AFFINITY, AFFINITY = 1, 2, 4

Codes = npt.NDArray[np.int8]


def first_broken(code: int) -> int:
    """Of the rules that a code says are broken, the one that is checked first."""
    return next(rule for rule in (AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY) if code & rule)


class RequiredTerms:
    """What required terms say about one pod shape, as of the last call."""

    def __init__(self, concerns: Concerns, shape: Shape, statuses: Mapping[int, Status]) -> None:
        self._concerns = concerns
        self._shape = shape
        self._statuses = statuses
        self._tallies = Tallies()
        self._version: int | None = None
        self._by_key: list[_KeyRules] = []
        self._self_match = False
        self._verdicts: Verdicts | None = None

    def update(self, nodes: EngineNodes) -> None:
        """Take in what changed in the cluster."""
        concerns = self._concerns
        concerns.update(nodes)
        if self._tallies.stale(nodes) or self._version != concerns.version:
            self._version = None  # to start again if this fails half-way
            self._start(nodes.whole)
            self._version = concerns.version
        for rules in self._by_key:
            rules.refresh()

    @property
    def idle(self) -> bool:
        """Whether there is nothing to filter by; valid after `update`."""
        if self._concerns.affinity or self._concerns.anti:
            return False
        return not any(rules.existing is not None and rules.existing.some for rules in self._by_key)

    def _start(self, whole: EngineNodes) -> None:
        """Rebuild the rules by topology key."""
        concerns, tallies = self._concerns, self._tallies
        by_key: dict[str, _KeyRules] = {}
        every = SelectedByAll(frozenset(own.pods for own in concerns.affinity))
        for key in group_by_key(concerns.affinity, whole):
            _rules(by_key, whole, key).affinity = tallies.get(whole, every, key)
        for key, own in group_by_key(concerns.anti, whole).items():
            selected = SelectedByAny(frozenset(selection.pods for selection in own))
            _rules(by_key, whole, key).anti = tallies.get(whole, selected, key)
        for key, terms in group_by_key(concerns.refusing, whole).items():
            _rules(by_key, whole, key).existing = tallies.get(whole, CarriesAny(frozenset(terms)), key)
        self._by_key = list(by_key.values())
        self._self_match = every.matches(self._shape)
        self._verdicts = None

    def verdicts(self, nodes: EngineNodes) -> Verdicts:
        """The answer for these rows; for the whole table the same object until something changes."""
        self.update(nodes)
        if nodes.whole is not nodes:
            first_if = self._first_if(nodes)
            return self._combine([rules.codes_if(nodes, first_if) for rules in self._by_key])
        first = self._first()
        changed = [rules.judge(first) for rules in self._by_key]
        if self._verdicts is None or any(changed):
            self._verdicts = self._combine([rules.codes for rules in self._by_key])
        return self._verdicts

    def _combine(self, codes: Sequence[Codes]) -> Verdicts:
        broken = codes[0] if len(codes) == 1 else np.bitwise_or.reduce(codes)
        return Verdicts(broken.astype(np.int32), self._statuses)

    def _first(self) -> bool:
        """Whether the pod may be the first of its kind: it satisfies its own affinity and no other pod does,
        so that any domain will do."""
        if not self._self_match:
            return False
        return not any(rules.affinity.some for rules in self._by_key if rules.affinity is not None)

    def _first_if(self, nodes: EngineNodes) -> BoolArray:
        """Return, for each row, whether the pod would be the first of its group, given the hypothetical
        pods."""
        first = np.full(len(nodes), self._self_match)
        for rules in self._by_key:
            if rules.affinity is not None and self._self_match:
                first &= rules.affinity.total + rules.moved(nodes, rules.affinity) == 0
        return first


def _rules(by_key: dict[str, _KeyRules], whole: EngineNodes, key: str) -> _KeyRules:
    rules = by_key.get(key)
    if rules is None:
        rules = by_key[key] = _KeyRules(whole, key)
    return rules


class _KeyRules:
    """The rules about one topology key, over the table as it is since a change of nodes."""

    def __init__(self, whole: EngineNodes, key: str) -> None:
        self.affinity: Tally | None = None
        self.anti: Tally | None = None
        self.existing: Tally | None = None
        # By label value: a row without the label, id -1, finds the entry after the last.
        self._slots = whole.label(key).ids.astype(np.intp)
        self._stale = True
        self._first = False
        self._content: bytes | None = None  # the domains' answers that `codes` show
        self.codes: Codes = np.zeros(0, np.int8)

    def refresh(self) -> None:
        for tally in (self.affinity, self.anti, self.existing):
            if tally is not None:
                self._stale |= tally.refresh()

    def judge(self, first: bool) -> bool:
        """Bring `codes`, over all rows, up to date; whether they changed."""
        if not self._stale and first == self._first:
            return False
        self._stale, self._first = False, first
        table = self._by_domain(first)
        content = table.tobytes()
        if content == self._content:
            return False
        self._content = content
        self.codes = table.take(self._slots)
        return True

    def _by_domain(self, first: bool) -> Codes:
        affinity, anti, existing = (
            None if tally is None else tally.sums for tally in (self.affinity, self.anti, self.existing)
        )
        domains = len(next(sums for sums in (affinity, anti, existing) if sums is not None))
        table = np.empty(domains + 1, np.int8)
        met = None if affinity is None or first else affinity > 0
        table[:-1] = _codes(domains, met, anti, existing)
        table[-1] = 0 if affinity is None else AFFINITY
        return table

    # ---- with pods that would be there or not be there

    def codes_if(self, nodes: EngineNodes, first: BoolArray) -> Codes:
        """The codes for some rows. Each row asks about its own change alone, which therefore matters to the
        row's own domain only."""
        met = None
        if self.affinity is not None:
            labelled = self._slots.take(nodes.rows) >= 0
            met = labelled & (first | (self._counts(nodes, self.affinity) > 0))
        anti = None if self.anti is None else self._counts(nodes, self.anti)
        existing = None if self.existing is None else self._counts(nodes, self.existing)
        return _codes(len(nodes), met, anti, existing)

    def _counts(self, nodes: EngineNodes, tally: Tally) -> IntArray:
        counts: IntArray = np.append(tally.sums, 0).take(self._slots.take(nodes.rows))
        return counts + self.moved(nodes, tally)

    def moved(self, nodes: EngineNodes, tally: Tally) -> IntArray:
        """How many more pods there would be that count, on each row; none on rows without the label."""
        moved = nodes.delta(tally.predicate)
        if moved is None:
            return np.zeros(len(nodes), np.int64)
        return np.where(self._slots.take(nodes.rows) >= 0, moved, 0)


def _codes(length: int, met: BoolArray | None, anti: IntArray | None, existing: IntArray | None) -> Codes:
    """The rules that are broken: affinity where it is not met, the others where a count is above 0."""
    codes = np.zeros(length, np.int8)
    if existing is not None:
        codes |= (existing > 0).view(np.int8)
    if anti is not None:
        codes |= (anti > 0).view(np.int8) * np.int8(ANTI_AFFINITY)
    if met is not None:
        codes |= (~met).view(np.int8) * np.int8(AFFINITY)
    return codes
