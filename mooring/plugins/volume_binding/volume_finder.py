"""On which nodes a pod's claims can be had, and how: kept, bound to an existing volume, or provisioned."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.framework.handle import Listers
from mooring.framework.nodes import BoolArray
from mooring.plugins.volume_binding.assumed import Assumed
from mooring.plugins.volume_binding.node_rows import NodeRows, compile_affinity
from mooring.plugins.volume_binding.provisioning import Provisioning
from mooring.plugins.volume_binding.static_volumes import UNMATCHED, Match, StaticMatcher, VolumeIndex
from mooring.plugins.volumes.claims import SELECTED_NODE, class_of_claim, requested_size
from mooring.plugins.volumes.csi_nodes import CSINodes
from mooring.plugins.volumes.migration import MigrationError, migrated_affinity, plugin_of
from mooring.runtime.engine_nodes import EngineNodes


class Conflict(IntFlag):
    """Why a node cannot have the pod's volumes. Several may hold at once."""

    NODE_AFFINITY = 1  # a bound volume cannot be used there
    NO_VOLUME = 2  # a claim finds no volume there and none can be made
    NO_ROOM = 4  # a volume could be made but for the lack of storage
    VOLUME_GONE = 8  # a claim is bound to a volume that does not exist
    FAILED = 16  # it could not be found out; then there is no other conflict


class PodClaims(NamedTuple):
    """A pod's claims: bound ones, and those that wait for their first consumer."""

    bound: list[PersistentVolumeClaim]
    delayed: list[PersistentVolumeClaim]

    def same(self, other: PodClaims) -> bool:
        """Whether these are the very same versions of the same claims."""
        pairs = zip((*self.bound, *self.delayed), (*other.bound, *other.delayed), strict=False)
        lengths = len(self.bound), len(self.delayed)
        return lengths == (len(other.bound), len(other.delayed)) and all(a is b for a, b in pairs)


class Decision(NamedTuple):
    """What is to be done for the pod's claims on one node."""

    bindings: Sequence[tuple[PersistentVolume, PersistentVolumeClaim]]
    provisions: Sequence[PersistentVolumeClaim]


class Found:
    """The answer for all rows of the table: conflicts, and where there are none, what to do."""

    def __init__(self, rows: int) -> None:
        self.conflicts: npt.NDArray[np.int32] = np.zeros(rows, np.int32)
        self.selected: list[PersistentVolumeClaim] = []  # a node was already selected for these
        self.matches: list[Match] = []
        self.failure = ""  # why it could not be found out, on the rows with FAILED

    def add(self, rows: BoolArray, conflict: Conflict) -> None:
        self.conflicts[rows] |= conflict

    def decision(self, row: int) -> Decision:
        bindings, provisions = [], list(self.selected)
        for match in self.matches:
            volume = match.on(row)
            if volume is None:
                provisions.append(match.claim)
            else:
                bindings.append((volume, match.claim))
        return Decision(bindings, provisions)


class _TranslationError(Exception):
    """A volume cannot be translated to CSI, which concerns the nodes that migrated its plugin."""

    def __init__(self, message: str, migrated: BoolArray, usable: BoolArray | None) -> None:
        super().__init__(message)
        self.migrated = migrated
        self.usable = usable  # the other nodes that can use it; None: all


class VolumeFinder:
    """Asks for all nodes at once; what follows from nodes and volumes alone is kept between pods."""

    def __init__(self, volumes: Assumed[PersistentVolume]) -> None:
        self._volumes = volumes
        self._index = VolumeIndex()
        self._csi_nodes = CSINodes()
        self._rows = NodeRows()
        self._provisioning = Provisioning(self._rows)

    def find(self, listers: Listers, claims: PodClaims, nodes: EngineNodes) -> Found:
        """Look for the claims' volumes on all nodes, which must be the whole table. Raises VolumeError."""
        self._rows.refresh(nodes)
        result = Found(len(nodes))
        failed = self._check_bound(listers, claims.bound, nodes, result)
        if claims.delayed:
            self._place_delayed(listers, claims.delayed, nodes, result)
        if failed is not None:
            result.conflicts[failed] = Conflict.FAILED
        return result

    # ---- bound claims

    def _check_bound(
        self, listers: Listers, claims: Sequence[PersistentVolumeClaim], nodes: EngineNodes, result: Found
    ) -> BoolArray | None:
        """Reject nodes that cannot use a bound claim, with the reason of the first such claim. Return those
        for which it cannot be found out."""
        unchecked = np.ones(len(nodes), np.bool_)
        failed: BoolArray | None = None
        for claim in claims:
            volume = listers.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                result.add(unchecked, Conflict.VOLUME_GONE)
                break
            try:
                usable = self._usable(listers, volume, nodes)
            except _TranslationError as error:
                result.failure = result.failure or str(error)
                newly_failed = unchecked & error.migrated
                failed = newly_failed if failed is None else failed | newly_failed
                unchecked &= ~error.migrated
                usable = error.usable
            if usable is not None:
                result.add(unchecked & ~usable, Conflict.NODE_AFFINITY)
                unchecked &= usable
        return failed

    def _usable(self, listers: Listers, volume: PersistentVolume, nodes: EngineNodes) -> BoolArray | None:
        """The nodes that can use a volume; None: all. Nodes that migrated its plugin to CSI have the
        driver's topology labels, so there it is the translated volume that must match."""
        affinity = self._index.affinity(volume)
        usable = None if affinity is None else self._rows.mask(affinity)
        plugin = plugin_of(volume.spec)
        if plugin is None or not plugin.migrated:
            return usable
        self._csi_nodes.refresh(listers, nodes)
        migrated = self._csi_nodes.migrated(plugin.name)
        if migrated is None:
            return usable
        try:
            translated = compile_affinity(migrated_affinity(volume, plugin))
        except MigrationError as error:
            raise _TranslationError(f"could not translate pv: {error}", migrated, usable) from error
        on_csi = True if translated is None else self._rows.mask(translated)
        return np.where(migrated, on_csi, True if usable is None else usable)

    # ---- claims that wait for their first consumer

    def _place_delayed(
        self, listers: Listers, claims: Sequence[PersistentVolumeClaim], nodes: EngineNodes, result: Found
    ) -> None:
        possible = np.ones(len(nodes), np.bool_)
        unplaced = []
        for claim in claims:
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is None:
                unplaced.append(claim)
                continue
            result.selected.append(claim)
            only = np.zeros(len(nodes), np.bool_)
            row = nodes.index(selected)
            if row is not None:
                only[row] = True
            possible &= only
        result.add(~possible, Conflict.NO_VOLUME)
        matcher = StaticMatcher(listers, self._index, self._rows, self._volumes.live(listers))
        for claim in sorted(unplaced, key=requested_size):
            result.matches.append(matcher.match(claim, possible))
        self._check_provisioning(listers, result, possible)

    def _check_provisioning(self, listers: Listers, result: Found, possible: BoolArray) -> None:
        """Reject nodes where a claim cannot be provisioned, with the reason of the first such claim."""
        open_rows = possible.copy()
        needs: list[tuple[PersistentVolumeClaim, BoolArray]] = [
            (claim, possible) for claim in result.selected
        ]
        needs += [(match.claim, match.choice == UNMATCHED) for match in result.matches]
        for claim, needed in needs:
            asking = open_rows & needed
            if not asking.any():
                continue
            place = self._provisioning.check(listers, claim, class_of_claim(claim))
            if place is None:
                refused = asking
            else:
                refused = asking & ~place.allowed if place.allowed is not None else np.zeros_like(asking)
            result.add(refused, Conflict.NO_VOLUME)
            open_rows &= ~refused
            if place is not None and place.room is not None:
                short = asking & ~refused & ~place.room
                result.add(short, Conflict.NO_ROOM)
                open_rows &= ~short
