"""Required terms: the nodes that the pod's affinity, its anti-affinity or that of other pods rules out.

The answers are found per domain of each topology key and spread over the rows only where they changed. As
codes rise in the order in which the rules are checked, a row's answer is the lowest code of its domains.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import BoolArray, IntArray, Nodes, Verdicts
from mooring.framework.pod import Shape
from mooring.framework.status import Status
from mooring.plugins.pod_affinity.terms import Concerns, Tallies, Tally
from mooring.plugins.predicates import CarriesTerm, SelectedByAll

AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY = 1, 2, 3
_PASSED = 4  # above every refusal; its low bits, 0, are what verdicts call passed
_CODE = 3

Codes = npt.NDArray[np.int32]


class RequiredTerms:
    """What required terms say about one pod shape, as of the last call."""

    def __init__(self, concerns: Concerns, shape: Shape, statuses: Mapping[int, Status]) -> None:
        self._concerns = concerns
        self._shape = shape
        self._statuses = statuses
        self._tallies = Tallies()
        self._version: int | None = None
        self._by_key: list[_KeyRules] = []
        self._first = False
        self._verdicts: Verdicts | None = None

    @property
    def idle(self) -> bool:
        """Whether no term rules out anything, nor could if pods moved; valid after `update`."""
        if self._concerns.affinity or self._concerns.anti:
            return False
        return not any(tally.total for rules in self._by_key for tally in rules.existing)

    def update(self, nodes: Nodes) -> None:
        """Take in what changed in the cluster."""
        concerns, whole = self._concerns, nodes.whole
        concerns.update(nodes)
        if self._tallies.stale(whole) or self._version != concerns.version:
            self._version = concerns.version
            self._start(whole)
        changed = [rules.refresh() for rules in self._by_key]
        if any(changed) or self._verdicts is None:
            self._judge()

    def _start(self, whole: Nodes) -> None:
        """Find the rules anew: one set for each topology key."""
        concerns = self._concerns
        by_key: dict[str, _KeyRules] = {}

        def rules(key: str) -> _KeyRules:
            return by_key.setdefault(key, _KeyRules(whole, key))

        every = SelectedByAll(tuple(own.pods for own in concerns.affinity))
        for own in concerns.affinity:
            rules(own.topology_key).affinity = self._tallies.get(whole, every, own.topology_key)
        for own in concerns.anti:
            tally = self._tallies.get(whole, own.pods, own.topology_key)
            rules(own.topology_key).anti.append(tally)
        for term in concerns.refusing:
            tally = self._tallies.get(whole, CarriesTerm(term), term.topology_key)
            rules(term.topology_key).existing.append(tally)
        self._by_key = list(by_key.values())
        # A pod whose affinity only itself can satisfy may be the first of its kind.
        self._self_match = every.matches(self._shape)
        self._verdicts = None

    def _judge(self) -> None:
        affinities = [rules.affinity for rules in self._by_key if rules.affinity is not None]
        first = self._self_match and not any(tally.total for tally in affinities)
        changed = [rules.judge(first) for rules in self._by_key]
        if any(changed) or self._verdicts is None:
            codes = [rules.codes for rules in self._by_key]
            self._verdicts = Verdicts(np.minimum.reduce(codes) & _CODE, self._statuses)

    def verdicts(self, nodes: Nodes) -> Verdicts:
        """The answer for these rows; for the whole table the same object until something changes."""
        self.update(nodes)
        verdicts = self._verdicts
        assert verdicts is not None
        if nodes.whole is nodes:
            return verdicts
        affected = [rules.look(nodes) for rules in self._by_key]
        if not any(affected):
            return Verdicts(verdicts.codes.take(nodes.rows), self._statuses)
        first = np.full(len(nodes), self._self_match)
        for rules in self._by_key:
            first &= rules.nobody_matches()
        codes = [rules.codes_if(first) for rules in self._by_key]
        return Verdicts(np.minimum.reduce(codes) & _CODE, self._statuses)


class _KeyRules:
    """The rules about one topology key, over the table as it is since a change of nodes."""

    def __init__(self, whole: Nodes, key: str) -> None:
        self.affinity: Tally | None = None
        self.anti: list[Tally] = []
        self.existing: list[Tally] = []
        # By label value: a row without the label, id -1, finds the entry after the last.
        self._slots = whole.label(key).ids.astype(np.intp)
        self._first = False
        self._stale = True
        self._table: Codes | None = None
        self.codes: Codes = np.zeros(0, np.int32)
        self._hypothesis: _Hypothesis | None = None

    def refresh(self) -> bool:
        """Bring the tallies up to date; whether one changed."""
        changed = [tally.refresh() for tally in (*self.anti, *self.existing)]
        if self.affinity is not None:
            changed.append(self.affinity.refresh())
        if any(changed):
            self._stale = True
            return True
        return False

    def judge(self, first: bool) -> bool:
        """Bring `codes`, over all rows, up to date; whether they changed.

        `first`: no pod matches the affinity anywhere but the pod itself would, so any domain will do.
        """
        if not self._stale and first == self._first:
            return False
        self._stale, self._first = False, first
        table = self._by_domain(first)
        if self._table is not None and np.array_equal(table, self._table):
            return False
        self._table = table
        self.codes = table.take(self._slots)
        return True

    def _by_domain(self, first: bool) -> Codes:
        tallies = [self.affinity] if self.affinity is not None else [*self.anti, *self.existing]
        table = np.full(len(tallies[0].sums) + 1, _PASSED, np.int32)
        table[:-1] = _judge(
            None if self.affinity is None or first else self.affinity.sums > 0,
            _total([tally.sums for tally in self.anti]),
            _total([tally.sums for tally in self.existing]),
        )
        if self.affinity is not None:
            table[-1] = AFFINITY
        return table
