"""Why a pod did not fit: the status of every node, and the sentence that a person reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.core.event_map import EXTENDER
from mooring.framework.nodes import BoolArray
from mooring.framework.status import Code, Status
from mooring.runtime.engine_nodes import NodeStatuses
from mooring.runtime.extender import SIGNED
from mooring.runtime.filtering import Filtering


class DiagnosedStatuses(NodeStatuses):
    """Node name → status, made from the columns when asked for."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._diagnosis = diagnosis

    def __getitem__(self, name: str) -> Status:
        row = self._diagnosis.row_of.get(name)
        status = None if row is None else self._diagnosis.status(row)
        if status is None:
            raise KeyError(name)
        return status

    def __iter__(self) -> Iterator[str]:
        return (name for name, row in self._diagnosis.row_of.items() if self._diagnosis.status(row))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def rows_with(self, code: Code) -> npt.NDArray[np.intp]:
        return self._diagnosis.rows_with(code)

    def count_with(self, code: Code) -> int:
        return self._diagnosis.count_with(code)


class Diagnosis(msgspec.Struct, eq=False):
    """The outcome of filtering, kept as columns; statuses of single nodes are made when asked for."""

    row_of: Mapping[str, int]
    filtering: Filtering | None = None
    node_names: frozenset[str] | None = None  # the only nodes that pre_filter left; None: all
    allowed: BoolArray | None = None  # the rows of those that exist
    within: BoolArray | None = None  # the rows of the placement that is tried; None: all
    absent: Status | None = None  # the status of nodes that were not evaluated
    pre_filter: Status | None = None  # the rejection of the pod as a whole
    unschedulable_plugins: set[str] = set()
    pending_plugins: set[str] = set()
    _explicit: dict[int, Status] = {}
    _later: list[Callable[[], None]] = []  # what there is to be told of these, if it is asked for
    _refusals: list[tuple[Status, int]] | None = None

    @property
    def explicit(self) -> dict[int, Status]:
        """The rows whose refusal is not the table's: nominations, extenders."""
        while self._later:
            self._later.pop(0)()
        return self._explicit

    def explain_later(self, fill: Callable[[], None]) -> None:
        """Call `fill` before `explicit` is first read; for a pod that fits, it never is."""
        self._later.append(fill)

    @property
    def total(self) -> int:
        return len(self.row_of) if self.within is None else int(np.count_nonzero(self.within))

    def blame(self, status: Status) -> None:
        """Remember who refused, for the queue."""
        if status.plugin:
            by_extender = status.plugin.startswith(SIGNED)
            self.unschedulable_plugins.add(EXTENDER if by_extender else status.plugin)
            if status.code is Code.PENDING:
                self.pending_plugins.add(status.plugin)

    def status(self, row: int) -> Status | None:
        """Why a row is not feasible; None if it is."""
        explicit = self.explicit.get(row)
        if explicit is not None:
            return explicit
        if self.filtering is None or (self.allowed is not None and not self.allowed[row]):
            return self.absent
        return self.filtering.status(row)

    def rows_with(self, code: Code) -> npt.NDArray[np.intp]:
        """The rows refused with a code, in order."""
        absent = self.absent is not None and self.absent.code is code
        if self.filtering is None:
            mask = np.full(len(self.row_of), absent)
        else:
            mask = self.filtering.with_code(code)
            if self.allowed is not None:
                mask = np.where(self.allowed, mask, absent)
            elif self.explicit:
                mask = mask.copy()
        for row, status in self.explicit.items():
            mask[row] = status.code is code
        return np.flatnonzero(mask if self.within is None else mask & self.within)

    def count_with(self, code: Code) -> int:
        """How many rows are refused with a code."""
        if self.filtering is None or self.allowed is not None or self.within is not None or self.explicit:
            return len(self.rows_with(code))
        return sum(count for status, count in self.refusals() if status.code is code)

    def refusals(self) -> list[tuple[Status, int]]:
        """Each refusal and on how many nodes it stands, once filtering is over."""
        if self._refusals is None:
            filtered = [] if self.filtering is None else self.filtering.refusals(self._among())
            self._refusals = self._explicit_refusals() + filtered if self.explicit else filtered
        return self._refusals

    def _explicit_refusals(self) -> list[tuple[Status, int]]:
        counts = Counter(map(id, self.explicit.values()))
        distinct = {id(status): status for status in self.explicit.values()}
        return [(distinct[key], count) for key, count in counts.items()]

    def _among(self) -> BoolArray | None:
        """The rows whose refusal is the table's; None: all."""
        assert self.filtering is not None
        among = None if self.allowed is None else self.allowed.copy()
        if self.within is not None:
            among = self.within.copy() if among is None else among & self.within
        if self.explicit:
            if among is None:
                among = np.ones(len(self.filtering.first), np.bool_)
            among[list(self.explicit)] = False
        return among

    def finish(self) -> None:
        """Collect the refusing plugins, once filtering is over."""
        for status, _ in self.refusals():
            self.blame(status)

    def not_before(self) -> float | None:
        """The earliest time at which some refusal ends by itself."""
        statuses = [status for status, _ in self.refusals()]
        if self.pre_filter is not None:
            statuses.append(self.pre_filter)
        return min((s.not_before for s in statuses if s.not_before is not None), default=None)

    def message(self, post_filter: str = "") -> str:
        """The text of the event and the condition, as kube-scheduler words it."""
        text = f"0/{self.total} nodes are available:"
        if self.pre_filter is not None:
            text += f" {self.pre_filter.message}."
        else:
            histogram = self._histogram()
            if histogram:
                text += f" {histogram}."
        return f"{text} {post_filter}" if post_filter else text

    def _histogram(self) -> str:
        counts: dict[str, int] = {}
        for status, count in self.refusals():
            for reason in status.reasons:
                counts[reason] = counts.get(reason, 0) + count
        if self.absent is not None and self.allowed is not None:
            outside_rows = ~self.allowed if self.within is None else ~self.allowed & self.within
            outside = int(outside_rows.sum()) - sum(not self.allowed[row] for row in self.explicit)
            for reason in self.absent.reasons:
                if outside:
                    counts[reason] = counts.get(reason, 0) + outside
        return reasons_histogram(counts)


def reasons_histogram(counts: Mapping[str, int]) -> str:
    """`2 Insufficient cpu, 1 node(s) were unschedulable`, sorted as plain strings."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
