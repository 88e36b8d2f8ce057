"""Existing volumes that could be bound to a claim: which one, on each node."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.selectors import Selector, SelectorError, compile_selector
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, VolumeNodeAffinity
from mooring.framework.handle import Listers
from mooring.framework.nodes import BoolArray
from mooring.plugins.volume_binding.node_rows import NodeRows, Rows, Selectors, compile_affinity
from mooring.plugins.volumes.claims import (
    VolumeError,
    capacity_of,
    class_of_claim,
    class_of_volume,
    is_bound_to,
    requested_size,
)
from mooring.plugins.volumes.watched import Watched

Choice = npt.NDArray[np.int32]
UNMATCHED = -1


class _ClassVolumes:
    """The volumes of a storage class: free ones by size, and those that refer to a claim by its key."""

    __slots__ = ("by_claim", "free")

    def __init__(self) -> None:
        self.free: list[tuple[int, str, PersistentVolume]] = []
        self.by_claim: dict[tuple[str, str], dict[str, PersistentVolume]] = {}

    def add(self, volume: PersistentVolume) -> None:
        ref = volume.spec.claim_ref
        if ref is not None:
            self.by_claim.setdefault((ref.namespace, ref.name), {})[volume.name] = volume
        elif volume.status.phase == "Available":
            insort(self.free, (capacity_of(volume), volume.name, volume))

    def remove(self, volume: PersistentVolume) -> None:
        ref = volume.spec.claim_ref
        if ref is not None:
            volumes = self.by_claim[ref.namespace, ref.name]
            del volumes[volume.name]
            if not volumes:
                del self.by_claim[ref.namespace, ref.name]
        elif volume.status.phase == "Available":
            del self.free[bisect_left(self.free, (capacity_of(volume), volume.name))]


class VolumeIndex:
    """All volumes by storage class, and their node affinities compiled."""

    def __init__(self) -> None:
        self._watched = Watched(PersistentVolume)
        self._classes: dict[str, _ClassVolumes] = {}
        self._affinities: dict[str, tuple[VolumeNodeAffinity, Selectors | None]] = {}

    def of_class(self, listers: Listers, name: str) -> _ClassVolumes:
        gone, come = self._watched.changes(listers)
        for volume in gone:
            self._classes[class_of_volume(volume)].remove(volume)
            self._affinities.pop(volume.name, None)
        for volume in come:
            self._classes.setdefault(class_of_volume(volume), _ClassVolumes()).add(volume)
        return self._classes.get(name) or _ClassVolumes()

    def affinity(self, volume: PersistentVolume) -> Selectors | None:
        """The volume's node affinity, compiled once per version of the volume; None: usable anywhere."""
        affinity = volume.spec.node_affinity
        if affinity is None:
            return None
        compiled = self._affinities.get(volume.name)
        if compiled is None or compiled[0] is not affinity:
            compiled = self._affinities[volume.name] = (affinity, compile_affinity(affinity))
        return compiled[1]


class Match(NamedTuple):
    """The volume chosen for a claim on each row: an index into `volumes`, or UNMATCHED."""

    claim: PersistentVolumeClaim
    choice: Choice
    volumes: Sequence[PersistentVolume]

    def on(self, row: int) -> PersistentVolume | None:
        index = int(self.choice[row])
        return None if index == UNMATCHED else self.volumes[index]


class StaticMatcher:
    """Chooses volumes for the claims of one pod, on all rows at once.

    Claims are served in turn, and a volume that one got on a row is not there for the next on that row.
    """

    def __init__(
        self,
        listers: Listers,
        index: VolumeIndex,
        rows: NodeRows,
        assumed: Mapping[str, PersistentVolume],
    ) -> None:
        self._listers = listers
        self._index = index
        self._rows = rows
        self._assumed = assumed
        self._volumes: list[PersistentVolume] = []
        self._ids: dict[str, int] = {}
        self._taken: dict[int, BoolArray] = {}  # by volume: the rows where an earlier claim has it

    def match(self, claim: PersistentVolumeClaim, possible: BoolArray) -> Match:
        """Return the smallest volume that fits, or the one that refers to the claim, on the possible rows."""
        group = self._index.of_class(self._listers, class_of_claim(claim))
        choice = np.full(len(possible), UNMATCHED, np.int32)
        undecided = possible.copy()
        for volume in self._referring(claim, group):
            if capacity_of(volume) < requested_size(claim) or not _qualifies(volume, claim):
                continue
            rows = np.flatnonzero(undecided)
            rows = self._not_taken(volume, rows)
            undecided[rows] = False  # this volume or none, whether or not the node can use it
            usable = np.zeros(len(possible), np.bool_)
            usable[self._usable_rows(volume)] = True
            choice[rows[usable[rows]]] = self._id(volume)
        self._match_free(claim, group, choice, undecided)
        self._take(choice)
        return Match(claim, choice, self._volumes)

    def _take(self, choice: Choice) -> None:
        for volume_id in np.unique(choice[choice != UNMATCHED]).tolist():
            rows = choice == volume_id
            taken = self._taken.get(volume_id)
            self._taken[volume_id] = rows if taken is None else taken | rows

    def _match_free(
        self, claim: PersistentVolumeClaim, group: _ClassVolumes, choice: Choice, undecided: BoolArray
    ) -> None:
        left = int(undecided.sum())
        selector = _selector_of(claim)
        smallest = bisect_left(group.free, (requested_size(claim), ""))
        for _, _, volume in islice(group.free, smallest, None):
            if not left:
                return
            if volume.name in self._assumed or not _suits(volume, claim, selector):
                continue
            rows = self._usable_rows(volume)
            rows = self._not_taken(volume, rows[undecided[rows]])
            choice[rows] = self._id(volume)
            undecided[rows] = False
            left -= len(rows)

    def _referring(self, claim: PersistentVolumeClaim, group: _ClassVolumes) -> list[PersistentVolume]:
        seen = group.by_claim.get((claim.namespace, claim.name), {})
        volumes = [volume for name, volume in sorted(seen.items()) if name not in self._assumed]
        name = class_of_claim(claim)
        volumes += [volume for volume in self._assumed.values() if class_of_volume(volume) == name]
        return [volume for volume in volumes if is_bound_to(volume, claim)]

    def _usable_rows(self, volume: PersistentVolume) -> Rows:
        affinity = self._index.affinity(volume)
        return self._rows.everything() if affinity is None else self._rows.matching(affinity)

    def _not_taken(self, volume: PersistentVolume, rows: Rows) -> Rows:
        volume_id = self._ids.get(volume.name)
        taken = None if volume_id is None else self._taken.get(volume_id)
        return rows if taken is None else rows[~taken[rows]]

    def _id(self, volume: PersistentVolume) -> int:
        volume_id = self._ids.setdefault(volume.name, len(self._volumes))
        if volume_id == len(self._volumes):
            self._volumes.append(volume)
        return volume_id


def _selector_of(claim: PersistentVolumeClaim) -> Selector | None:
    try:
        return None if claim.spec.selector is None else compile_selector(claim.spec.selector)
    except SelectorError as error:
        doing = f"error creating internal label selector for claim: {claim.key}"
        raise VolumeError(f"{doing}: {error}") from error


def _qualifies(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume meets the requirements, except its size, that apply even if it refers to the
    claim."""
    return (
        (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and (volume.spec.volume_attributes_class_name or "")
        == (claim.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim, selector: Selector | None) -> bool:
    """Return whether a free volume satisfies the claim, regardless of the node."""
    return (
        _qualifies(volume, claim)
        and (selector is None or selector.matches(volume.metadata.labels))
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )
