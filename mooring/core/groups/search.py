"""Searching places for members of different shapes, where trying them in order does not find enough.

A large member that comes after small ones may find the only node that it fits on taken. The search goes from
large to small, puts each where it leaves least room over, and takes back what leads nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from mooring.core.groups.room import Room, measure
from mooring.framework.nodes import BoolArray
from mooring.framework.pod import PodInfo, Shape
from mooring.runtime.profile import Profile

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

MOST_MEMBERS = 200
MOST_SHAPES = 16
MOST_ROWS = 1000

Free = tuple[int, ...]


class _Demand(msgspec.Struct, eq=False):
    """What members of one shape need."""

    requests: Free  # by line; what they do not request is 0
    rows: frozenset[int]  # those that the other filters let pass
    size: float  # the largest share of what any node has free


class PlaceSearch:
    """One search over the rows of a placement, with a bound on how many places are tried."""

    def __init__(self, demands: Mapping[Shape, _Demand], free: dict[int, Free], most_steps: int) -> None:
        self._demands = demands
        self._free = free
        self._left = most_steps
        self._most_steps = most_steps

    @property
    def steps(self) -> int:
        return self._most_steps - self._left

    def find(self, pods: Sequence[PodInfo]) -> dict[str, int] | None:
        """A row for each of the pods, by uid; None where there is none, or none was found in time."""
        ordered = sorted(pods, key=lambda pod: -self._demands[pod.shape].size)
        places: dict[str, int] = {}
        return places if self._place(ordered, 0, places) else None

    def _place(self, pods: Sequence[PodInfo], index: int, places: dict[str, int]) -> bool:
        if index == len(pods):
            return True
        pod = pods[index]
        requests = self._demands[pod.shape].requests
        for row in self._candidates(self._demands[pod.shape]):
            if not self._left:
                return False
            self._left -= 1
            before = self._free[row]
            self._free[row] = tuple(f - r for f, r in zip(before, requests, strict=True))
            places[pod.uid] = row
            if self._place(pods, index + 1, places):
                return True
            self._free[row] = before
            del places[pod.uid]
        return False

    def _candidates(self, demand: _Demand) -> Iterator[int]:
        """The rows that take a member, tightest first; of rows that are equally free, one is enough."""
        fitting = [
            row
            for row in sorted(demand.rows)
            if all(f >= r for f, r in zip(self._free[row], demand.requests, strict=True))
        ]
        fitting.sort(
            key=lambda row: [f - r for f, r in zip(self._free[row], demand.requests, strict=True) if r]
        )
        seen: set[tuple[Free, tuple[bool, ...]]] = set()
        for row in fitting:
            key = self._free[row], tuple(row in other.rows for other in self._demands.values())
            if key not in seen:
                seen.add(key)
                yield row


def search_for(
    scheduler: Scheduler, profile: Profile, pods: Sequence[PodInfo], within: BoolArray | None, steps: int
) -> PlaceSearch | None:
    """A search for these pods; None where there are too many, or more than resources limits their number."""
    first_of = {pod.shape: pod for pod in pods}
    if not steps or len(pods) > MOST_MEMBERS or not 1 < len(first_of) <= MOST_SHAPES:
        return None
    rooms: dict[Shape, Room] = {}
    for shape, pod in first_of.items():
        room = measure(scheduler, profile, pod)
        if room is None:
            return None
        rooms[shape] = room
    lines = sorted({line for room in rooms.values() for line in room.lines})
    masks = {s: room.passing if within is None else room.passing & within for s, room in rooms.items()}
    free: dict[int, Free] = {}
    equal: Counter[tuple[Free, tuple[bool, ...]]] = Counter()
    for row in np.flatnonzero(np.logical_or.reduce(list(masks.values()))).tolist():
        amounts = tuple(_free(rooms.values(), lines, row))
        kind = amounts, tuple(bool(mask[row]) for mask in masks.values())
        equal[kind] += 1
        if equal[kind] <= len(pods):  # no more of them can be needed
            free[row] = amounts
    if len(free) > MOST_ROWS:
        return None
    rows = sorted(free)
    most = [max((free[row][i] for row in rows), default=0) or 1 for i in range(len(lines))]
    demands = {}
    for shape, room in rooms.items():
        by_line = dict(zip(room.lines, room.requests.tolist(), strict=True))
        requests = tuple(by_line.get(line, 0) for line in lines)
        size = max(r / m for r, m in zip(requests, most, strict=True))
        demands[shape] = _Demand(requests, frozenset(row for row in rows if masks[shape][row]), size)
    return PlaceSearch(demands, free, steps)


def _free(rooms: Iterable[Room], lines: Sequence[int], row: int) -> Iterator[int]:
    """What a row has free of each line, for the member with the least of it."""
    for line in lines:
        yield min(int(room.free[room.lines.index(line), row]) for room in rooms if line in room.lines)
