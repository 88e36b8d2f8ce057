"""How many pods on each node match a predicate, and the sums of that by topology domain."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mooring.framework.nodes import BoolArray, IntArray, PodPredicate
from mooring.framework.pod import Shape
from mooring.state.columns import ChangeLog, Column


class Counter:
    """The number of pods per row that match one predicate, kept as pods come and go."""

    __slots__ = ("column", "live", "log", "predicate", "readers", "used")

    def __init__(self, predicate: PodPredicate, capacity: int) -> None:
        self.predicate = predicate
        self.column = Column(capacity, np.int64)
        self.log = ChangeLog()
        self.live = True  # False once the table dropped it as unused
        self.readers = 0  # how many TableRowCounts follow it
        self.used = 0  # when it was last asked for, in the table's count of requests

    def add(self, row: int, count: int) -> None:
        self.column.data[row] += count
        self.log.add(row)


Matches = list[tuple[Counter, int]]
"""The counters that match a shape, and how many times each counts a pod of it."""


class Counters:
    """All counters of a table. A counter is created when a predicate is first used, from the existing
    pods, and dropped when nothing follows it any more, or when there are too many."""

    LIMIT = 4096
    SPARE = 256  # how many of the last requests keep a counter that nothing follows

    def __init__(self) -> None:
        self._counters: dict[PodPredicate, Counter] = {}
        self._ordered: list[Counter] = []
        # For each shape on some node: how many of _ordered were checked, and those that match.
        self._matching: dict[Shape, tuple[int, Matches]] = {}
        # Pods per row by shape, apart for those that are being deleted.
        self.running: dict[Shape, dict[int, int]] = {}
        self.terminating: dict[Shape, dict[int, int]] = {}
        self._requests = 0
        self._drop_at = self.SPARE

    def columns(self) -> list[Column]:
        return [counter.column for counter in self._ordered]

    def add(self, shape: Shape, row: int, count: int, terminating: bool) -> None:
        """`count` (1 or -1) more pods of a shape on a row."""
        self._count(self._tally(shape, row, count, terminating), row, count, terminating)

    def replace(self, old: Shape, new: Shape, row: int, terminating: bool) -> None:
        """A pod on a row has another shape now; most often, the same counters match it."""
        after = self._tally(new, row, 1, terminating)
        before = self._tally(old, row, -1, terminating)
        if before != after:
            self._count([c for c in after if c not in before], row, 1, terminating)
            self._count([c for c in before if c not in after], row, -1, terminating)

    def _tally(self, shape: Shape, row: int, count: int, terminating: bool) -> Matches:
        """Take note of pods of a shape on a row; the counters that match them."""
        groups = self.terminating if terminating else self.running
        rows = groups.get(shape)
        if rows is None:
            rows = groups[shape] = {}
        total = rows.get(row, 0) + count
        if total:
            rows[row] = total
        else:
            del rows[row]
            if not rows:
                del groups[shape]
                if shape not in self.running and shape not in self.terminating:
                    # The matches are found again if the shape comes back; forgotten ones cost no memory.
                    matching = self._matching_counters(shape)
                    self._matching.pop(shape, None)
                    return matching
        return self._matching_counters(shape)

    def _count(self, matches: Matches, row: int, count: int, terminating: bool) -> None:
        for counter, times in matches:
            if not terminating or counter.predicate.count_terminating:
                counter.add(row, count * times)

    def _matching_counters(self, shape: Shape) -> Matches:
        checked, matching = self._matching.get(shape, (0, []))
        if checked != len(self._ordered):
            for counter in self._ordered[checked:]:
                times = counter.predicate.matches(shape)
                if times:
                    matching.append((counter, times))
            self._matching[shape] = (len(self._ordered), matching)
        return matching

    def get(self, predicate: PodPredicate, capacity: int) -> Counter:
        self._requests += 1
        counter = self._counters.get(predicate)
        if counter is None:
            counter = self._make(predicate, capacity)
        counter.used = self._requests
        return counter

    def _make(self, predicate: PodPredicate, capacity: int) -> Counter:
        if len(self._ordered) >= self._drop_at:
            self._drop_unused()
        counter = Counter(predicate, capacity)
        groups = (self.running, self.terminating) if predicate.count_terminating else (self.running,)
        for group in groups:
            for shape, rows in group.items():
                times = predicate.matches(shape)
                if times:
                    for row, count in rows.items():
                        counter.column.data[row] += count * times
        # Each shape's matches are extended when it is next seen; this counter has counted what is there.
        self._counters[predicate] = counter
        self._ordered.append(counter)
        return counter

    def _drop_unused(self) -> None:
        recent = self._requests - self.SPARE
        keep = [counter for counter in self._ordered if counter.readers or counter.used > recent]
        if len(keep) >= self.LIMIT:
            keep = sorted(keep, key=lambda counter: counter.used)[len(keep) // 2 :]
        self._drop_at = min(self.LIMIT, 2 * len(keep) + self.SPARE)
        for counter in self._ordered:
            counter.live = False
        for counter in keep:
            counter.live = True
        self._ordered = keep
        self._counters = {counter.predicate: counter for counter in keep}
        self._matching.clear()

    def move(self, source: int, target: int) -> None:
        """The pods of row `source` are now on row `target` (which had none left)."""
        for group in (self.running, self.terminating):
            for rows in group.values():
                if source in rows:
                    rows[target] = rows.pop(source)
        for counter in self._ordered:
            counter.log.add(source)
            counter.log.add(target)


class TableRowCounts:
    """What a counter counts, as of the last refresh (see framework RowCounts)."""

    __slots__ = ("_counter", "_find", "_position", "changed", "counts")

    def __init__(self, find: Callable[[], Counter], rows: int) -> None:
        self._find = find
        self._load(rows)

    def __del__(self) -> None:
        self._counter.readers -= 1

    def _load(self, rows: int) -> None:
        self._counter = self._find()
        self._counter.readers += 1
        self._position = self._counter.log.position
        self.counts: IntArray = self._counter.column.data[:rows].copy()
        self.changed: dict[int, int] | None = None

    def refresh(self) -> bool:
        counter = self._counter
        position = counter.log.position
        if position == self._position and counter.live:
            self.changed = {}
            return False
        rows = counter.log.since(self._position) if counter.live else None
        if rows is None:
            counter.readers -= 1
            self._load(len(self.counts))
            return True
        self._position = position
        self.changed = changed = self._follow(rows, counter.column.data)
        return bool(changed)

    def _follow(self, rows: array[int], now: IntArray) -> dict[int, int]:
        counts, changed = self.counts, {}
        for row in rows if len(rows) < 8 else set(rows):
            if row < len(counts):
                count: int = now.item(row)
                difference = count - counts.item(row)
                if difference:
                    counts[row] = count
                    changed[row] = difference
        return changed


class TableDomainSums:
    """Sums of a counter by the values of a label, over the eligible rows (see framework DomainSums)."""

    __slots__ = ("_rows", "ids", "members", "sums")

    def __init__(
        self,
        rows: TableRowCounts,
        label_ids: npt.NDArray[np.int32],
        values: int,
        eligible: BoolArray | None,
    ) -> None:
        self._rows = rows
        self.ids = label_ids.copy() if eligible is None else np.where(eligible, label_ids, np.int32(-1))
        counted = self.ids[self.ids >= 0]
        self.members: IntArray = np.bincount(counted, minlength=values)
        self._add_up()

    def _add_up(self) -> None:
        inside = self.ids >= 0
        weights = self._rows.counts[inside]
        totals = np.bincount(self.ids[inside], weights=weights, minlength=len(self.members))
        self.sums: IntArray = totals.astype(np.int64)

    @property
    def total(self) -> int:
        return int(self.sums.sum())

    def refresh(self) -> bool:
        rows = self._rows
        if not rows.refresh():
            return False
        if rows.changed is None:
            self._add_up()
            return True
        moved = False
        for row, difference in rows.changed.items():
            domain = self.ids.item(row)
            if domain >= 0:
                self.sums[domain] += difference
                moved = True
        return moved
