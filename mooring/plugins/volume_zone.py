"""VolumeZone: a volume labelled with a zone or region is used there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mooring.api.selectors import EXISTS, IN, requirement
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import BoolArray, Nodes, Verdicts, refuse
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, skip, unresolvable
from mooring.plugins.matching import match_requirement
from mooring.plugins.volumes.claims import (
    CLAIM_KIND,
    CLASS_KIND,
    VOLUME_KIND,
    WAIT_FOR_FIRST_CONSUMER,
    class_of_claim,
    direct_claims_of,
    not_found,
)
from mooring.plugins.volumes.migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from mooring.runtime.engine_nodes import engine_nodes

# The labels that say where a volume or a node is, each with the one that nodes may carry in its place.
_LABELS = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}


class Topology(NamedTuple):
    """One label of a volume, and the values that its nodes may have."""

    key: str
    values: frozenset[str]


class _Cached(NamedTuple):
    """The last answer for all nodes, and what it followed from."""

    node_version: int
    topologies: list[Topology]
    verdicts: Verdicts | None


_CLAIMS = StateKey[tuple[str, ...]]("VolumeZone/claims")
_CACHED = StateKey[_Cached]("VolumeZone/answer")


class VolumeZone(Plugin):
    """Refuses nodes in another zone or region than the pod's bound volumes."""

    name = "VolumeZone"

    CONFLICT = "node(s) had no available volume zone"
    UNNAMED_CLAIM = "PersistentVolumeClaim had no name"
    UNNAMED_VOLUME = "PersistentVolume had no name"
    UNCLASSED_CLAIM = "PersistentVolumeClaim had no pv name and storageClass name"
    PRE_FILTER_KEY = StateKey[list[Topology]]("PreFilterVolumeZone")

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        names = state.cached(_CLAIMS, lambda: direct_claims_of(pod))
        if not names:
            return skip(shape=True)
        topologies = self._topologies(names, pod)
        if isinstance(topologies, Status):
            return topologies
        if not topologies:
            return skip()
        state.write(self.PRE_FILTER_KEY, topologies)
        return None

    def _topologies(self, names: Sequence[str], pod: PodInfo) -> list[Topology] | Status:
        """What the pod's volumes ask of nodes, or why the pod cannot run anywhere."""
        topologies: list[Topology] = []
        for name in names:
            volume = self._volume_of(name, pod.namespace)
            if isinstance(volume, str):
                return unresolvable(volume)
            if volume is not None:
                topologies += topologies_of(volume)
        return topologies

    def _volume_of(self, name: str, namespace: str) -> PersistentVolume | str | None:
        """A claim's volume; None while it waits for its first consumer; a text where it cannot be had."""
        listers = self.handle.listers
        if not name:
            return self.UNNAMED_CLAIM
        claim = listers.get(PersistentVolumeClaim, name, namespace)
        if claim is None:
            return not_found(CLAIM_KIND, name)
        if claim.spec.volume_name:
            volume = listers.get(PersistentVolume, claim.spec.volume_name)
            return not_found(VOLUME_KIND, claim.spec.volume_name) if volume is None else volume
        class_name = class_of_claim(claim)
        if not class_name:
            return self.UNCLASSED_CLAIM
        storage_class = listers.get(StorageClass, class_name)
        if storage_class is None:
            return not_found(CLASS_KIND, class_name)
        if storage_class.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{class_name}"'
        return None if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else self.UNNAMED_VOLUME

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        topologies = state.get(self.PRE_FILTER_KEY)
        if topologies is None:  # this plugin's pre_filter is disabled
            result = self._topologies(direct_claims_of(pod), pod)
            if isinstance(result, Status):
                return refuse(np.ones(len(nodes), np.bool_), result)
            topologies = result
        if not topologies:
            return None
        version = engine_nodes(nodes).node_version
        if engine_nodes(nodes).whole is not nodes:
            return self._check(nodes, topologies)
        cached = state.get_cached(_CACHED)
        if cached is None or cached.node_version != version or cached.topologies != topologies:
            cached = _Cached(version, topologies, self._check(nodes, topologies))
            state.write_cached(_CACHED, cached)
        return cached.verdicts

    def _check(self, nodes: Nodes, topologies: Iterable[Topology]) -> Verdicts | None:
        fits = _all_match(nodes, topologies)
        # A cluster of one zone need not label its nodes.
        located = np.logical_or.reduce([nodes.label(key).ids >= 0 for key in _LABELS])
        refused = located & ~fits
        return refuse(refused, unresolvable(self.CONFLICT)) if refused.any() else None

    # ---- queueing hints

    def events_to_register(self) -> Iterable[EventHint]:
        changed = Action.ADD | Action.UPDATE
        yield requeue_on(Resource.STORAGE_CLASS, Action.ADD, self._after_storage_class_add)
        yield requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        yield requeue_on(Resource.PERSISTENT_VOLUME_CLAIM, changed, self._after_claim_change)
        yield requeue_on(Resource.PERSISTENT_VOLUME, changed, self._after_volume_change)

    def _after_storage_class_add(self, pod: PodInfo, old: Any, new: StorageClass) -> Hint:
        return Hint.QUEUE if new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else Hint.SKIP

    def _after_claim_change(self, pod: PodInfo, old: Any, new: PersistentVolumeClaim) -> Hint:
        used = new.namespace == pod.namespace and new.name in direct_claims_of(pod)
        return Hint.QUEUE if used else Hint.SKIP

    def _after_volume_change(self, pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume) -> Hint:
        moved = old is None or topologies_of(old) != topologies_of(new)
        return Hint.QUEUE if moved else Hint.SKIP


def topologies_of(volume: PersistentVolume) -> list[Topology]:
    """Where a volume says it is; a label with an empty part says nothing."""
    topologies = []
    for key in _LABELS:
        value = volume.metadata.labels.get(key)
        if value is not None:
            parts = frozenset(part.strip() for part in value.split(ZONE_DELIMITER))
            if "" not in parts:
                topologies.append(Topology(key, parts))
    return topologies


def _all_match(nodes: Nodes, topologies: Iterable[Topology]) -> BoolArray:
    fits = np.ones(len(nodes), np.bool_)
    for key, values in topologies:
        matches = match_requirement(nodes, requirement(key, IN, values))
        current = _LABELS[key]
        if current != key:
            missing = ~match_requirement(nodes, requirement(key, EXISTS))
            matches |= missing & match_requirement(nodes, requirement(current, IN, values))
        fits &= matches
    return fits
