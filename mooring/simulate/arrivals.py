"""The pods that will arrive, in columns: a million of them must fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.objects import Pod

FloatArray = npt.NDArray[np.float64]
FOREVER = np.inf
LONGEST_BINDING = 5.0  # seconds that a decision and its binding take in a recording; a longer time is waiting


class Job(msgspec.Struct, frozen=True):
    """Pods of a trace that belong together, as far as the trace says."""

    name: str
    min_count: int | None = None  # that must run together; all by default
    topology: str = ""  # the node label whose value all of them share


class Template(msgspec.Struct, eq=False):
    """What pods are made of. `replaced` pods have a controller that creates another when one is evicted."""

    pod: Pod
    replaced: bool = False
    owner: str = ""
    start_delay: float = 0.0
    recorded_node: str = ""  # where a recording shows the pod, and since when
    recorded_bound: float = FOREVER
    min_count: int = 0  # of its gang

    def binding_time(self, now: float) -> float:
        """What a pod that is bound now runs longer than recorded: the time that its decision took there."""
        later = self.recorded_bound - now
        return later if 0.0 < later <= LONGEST_BINDING else 0.0


class Arrivals(msgspec.Struct, eq=False):
    """Pods by row: when each arrives, its template, how long it runs (FOREVER: until it is deleted).

    In a trace of jobs, `job` is the number of the job that each pod belongs to. They are gangs in any case
    where the trace `has_gangs`.
    """

    templates: Sequence[Template]
    time: FloatArray
    template: npt.NDArray[np.int32]
    run_time: FloatArray
    names: Sequence[str]
    jobs: Sequence[Job] = ()
    job: npt.NDArray[np.int32] | None = None
    has_gangs: bool = False

    def __len__(self) -> int:
        return len(self.time)

    def until(self, end: float) -> Arrivals:
        """The arrivals before `end`; they are sorted by time."""
        return self.take(slice(0, int(np.searchsorted(self.time, end, side="left"))))

    def take(self, rows: slice | npt.NDArray[np.intp]) -> Arrivals:
        names = self.names[rows] if isinstance(rows, slice) else [self.names[row] for row in rows.tolist()]
        job = None if self.job is None else self.job[rows]
        time, template, run_time = self.time[rows], self.template[rows], self.run_time[rows]
        return Arrivals(self.templates, time, template, run_time, names, self.jobs, job, self.has_gangs)


class Numbered(Sequence[str]):
    """Names made when asked for: `prefix-0`, `prefix-1` and so on."""

    def __init__(self, prefix: str, numbers: range) -> None:
        self._prefix, self._numbers = prefix, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int | slice) -> str | Numbered:  # type: ignore[override]
        if isinstance(index, slice):
            return Numbered(self._prefix, self._numbers[index])
        return f"{self._prefix}-{self._numbers[index]}"


def merge(parts: Iterable[Arrivals]) -> Arrivals:
    """All arrivals in order of time; of those at one instant, the ones of earlier parts come first."""
    parts = list(parts)
    if len(parts) == 1 and bool(np.all(np.diff(parts[0].time) >= 0)):
        return parts[0]
    templates: list[Template] = []
    columns = []
    for part in parts:
        columns.append(part.template + np.int32(len(templates)))
        templates += part.templates
    if not parts:
        nothing = np.zeros(0)
        return Arrivals([], nothing, nothing.astype(np.int32), nothing, [])
    time = np.concatenate([part.time for part in parts])
    order = np.argsort(time, kind="stable")
    names = [name for part in parts for name in part.names]
    return Arrivals(
        templates,
        time[order],
        np.concatenate(columns)[order],
        np.concatenate([part.run_time for part in parts])[order],
        [names[row] for row in order.tolist()],
    )
