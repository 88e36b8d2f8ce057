"""Hard constraints (DoNotSchedule): which nodes would make the spread too uneven.

The work is done per domain and spread over the rows only when some domain's answer changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import BoolArray, IntArray, Verdicts
from mooring.framework.pod import Shape
from mooring.framework.status import Status
from mooring.plugins.pod_topology_spread.constraints import Constraint
from mooring.plugins.pod_topology_spread.eligibility import Eligibility
from mooring.runtime.engine_nodes import EngineNodes

PASSED, MISSING_LABEL, TOO_SKEWED = 0, 1, 2
Codes = npt.NDArray[np.int32]

_NO_OTHER = 2**31 - 1  # more than any domain has


class HardSpread:
    """The hard constraints of one pod shape, with what is known about them as of the last call."""

    def __init__(
        self, constraints: Sequence[Constraint], shape: Shape, statuses: Mapping[int, Status]
    ) -> None:
        self.constraints = constraints
        self._shape = shape
        self._statuses = statuses
        self._node_version: int | None = None
        self._spreads: list[_Spread] = []
        self._verdicts: Verdicts | None = None

    def verdicts(self, nodes: EngineNodes) -> Verdicts:
        """The answer for these rows; for the whole table the same object until something changes."""
        whole = nodes.whole
        if self._node_version != whole.node_version:
            self._start(whole)
        changed = [spread.update() for spread in self._spreads]
        verdicts = self._verdicts
        if verdicts is None or any(changed):
            verdicts = self._verdicts = self._combine([spread.codes for spread in self._spreads])
        if nodes is whole:
            return verdicts
        return self._combine([spread.codes_in(nodes) for spread in self._spreads])

    def _start(self, whole: EngineNodes) -> None:
        eligibility = Eligibility(whole, self._shape)
        having_all = eligibility.having(c.topology_key for c in self.constraints)
        self._spreads = []
        for c in self.constraints:
            self._spreads.append(_Spread(c, self._shape, whole, eligibility.included(c, having_all)))
            if not whole.label(c.topology_key).values:
                break  # no node has the label: all are refused, and what follows is not looked at
        self._node_version = whole.node_version
        self._verdicts = None

    def _combine(self, codes: list[Codes]) -> Verdicts:
        """The first constraint that a node fails, in the pod's order, decides why it is refused."""
        combined = codes[-1]
        for earlier in reversed(codes[:-1]):
            combined = np.where(earlier, earlier, combined)
        return Verdicts(combined, self._statuses)


class _Spread:
    """One hard constraint over the table as it is since a change of nodes."""

    def __init__(self, constraint: Constraint, shape: Shape, whole: EngineNodes, eligible: BoolArray) -> None:
        self._constraint = constraint
        self._moved = constraint.moved(shape.namespace)
        self._self_match = int(constraint.selector.matches(shape.labels))
        self._eligible = eligible
        # By label value: a row without the label, id -1, finds the entry after the last.
        self._slots = whole.label(constraint.topology_key).ids.astype(np.intp)
        self._sums = whole.domain_sums(constraint.counted(shape.namespace), constraint.topology_key, eligible)
        self._domains = np.flatnonzero(self._sums.members)
        self._too_few = len(self._domains) < constraint.min_domains
        self._content: bytes | None = None  # the domains' answers that `codes` show
        self.codes: Codes = np.zeros(0, np.int32)

    def update(self) -> bool:
        """Bring `codes`, over all rows, up to date; whether they changed."""
        if not self._sums.refresh() and self._content is not None:
            return False
        counts = self._sums.sums
        lowest = 0 if self._too_few else int(np.minimum.reduce(counts.take(self._domains)))
        skewed = self._skewed(counts, lowest)
        content = skewed.tobytes()
        if content == self._content:
            return False
        self._content = content
        table = np.empty(len(counts) + 1, np.int32)
        np.multiply(skewed, TOO_SKEWED, out=table[:-1])
        table[-1] = MISSING_LABEL
        self.codes = table.take(self._slots)
        return True

    def codes_in(self, nodes: EngineNodes) -> Codes:
        """The codes for some rows, with the pods that would be there or not be there.

        Each row asks about its own change alone, so that only the row's own domain differs from the table.
        """
        rows = nodes.rows
        moved = nodes.delta(self._moved)
        if moved is None or not moved.any():
            return self.codes.take(rows)
        slots, eligible = self._slots.take(rows), self._eligible.take(rows)
        own = np.append(self._sums.sums, 0).take(slots) + np.where(eligible, moved, 0)
        codes: Codes = np.where(self._skewed(own, self._lowest(own, slots, eligible)), TOO_SKEWED, PASSED)
        return np.where(slots < 0, MISSING_LABEL, codes).astype(np.int32)

    def _lowest(self, own: IntArray, slots: npt.NDArray[np.intp], eligible: BoolArray) -> IntArray | int:
        """The smallest count of any domain, for each row with its own domain's count as given."""
        if self._too_few:
            return 0
        counts = self._sums.sums.take(self._domains)
        at = int(counts.argmin())
        lowest = int(counts[at])
        second = int(np.delete(counts, at).min(initial=_NO_OTHER))
        others = np.where(slots == self._domains[at], second, lowest)
        return np.where(eligible, np.minimum(own, others), lowest)

    def _skewed(self, counts: IntArray, lowest: IntArray | int) -> BoolArray:
        skewed: BoolArray = counts > lowest + (self._constraint.max_skew - self._self_match)
        return skewed
