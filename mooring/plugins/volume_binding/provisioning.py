"""Volumes yet to be made: on which nodes the claim's storage class can provision one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from mooring.api import quantity
from mooring.api.meta import LabelSelector, LabelSelectorRequirement, Quantity
from mooring.api.selectors import IN, Selector, SelectorError, compile_selector
from mooring.api.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from mooring.framework.handle import Listers
from mooring.framework.nodes import BoolArray
from mooring.plugins.volume_binding.node_rows import NodeRows, Selectors
from mooring.plugins.volumes.claims import VolumeError
from mooring.plugins.volumes.watched import Watched

NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Provisionable(NamedTuple):
    """Per row: whether the class may make volumes there, and whether there is room (None: everywhere)."""

    allowed: BoolArray | None
    room: BoolArray | None


def volume_limit(capacity: CSIStorageCapacity) -> Quantity | None:
    """The largest volume that the reported capacity allows."""
    return capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size


class _Room(NamedTuple):
    """A reported capacity: the largest volume, and the nodes that have access to it."""

    limit: int
    selectors: Selectors


class Provisioning:
    """Where claims can be provisioned, from storage classes and the reported capacities."""

    def __init__(self, rows: NodeRows) -> None:
        self._rows = rows
        self._watched = Watched(CSIStorageCapacity)
        self._rooms: dict[str, dict[str, _Room]] = {}  # by storage class and key

    def check(self, listers: Listers, claim: PersistentVolumeClaim, name: str) -> Provisionable | None:
        """Where a class can provision the claim; None where it provisions nothing."""
        storage_class = listers.get(StorageClass, name)
        if storage_class is None:
            raise VolumeError(f'failed to find storage class "{name}"')
        if storage_class.provisioner in ("", NO_PROVISIONER):
            return None
        topologies = storage_class.allowed_topologies
        allowed = self._rows.mask(_compile_topologies(topologies)) if topologies else None
        return Provisionable(allowed, self._room(listers, claim, storage_class))

    def _room(
        self, listers: Listers, claim: PersistentVolumeClaim, storage_class: StorageClass
    ) -> BoolArray | None:
        raw = claim.spec.resources.requests.get("storage")
        driver = listers.get(CSIDriver, storage_class.provisioner)
        if raw is None or driver is None or not driver.spec.storage_capacity:
            return None
        size = quantity.to_value(raw)
        room = np.zeros(len(self._rows.everything()), np.bool_)
        for limit, selectors in self._of_class(listers, storage_class.name):
            if limit >= size:
                room[self._rows.matching(selectors)] = True
        return room

    def _of_class(self, listers: Listers, name: str) -> Iterable[_Room]:
        gone, come = self._watched.changes(listers)
        for capacity in gone:
            self._rooms.get(capacity.storage_class_name, {}).pop(capacity.key, None)
        for capacity in come:
            room = _room_of(capacity)
            if room is not None:
                self._rooms.setdefault(capacity.storage_class_name, {})[capacity.key] = room
        return self._rooms.get(name, {}).values()


def _room_of(capacity: CSIStorageCapacity) -> _Room | None:
    """None for a capacity that is of no use: without amount, or without nodes that have access."""
    limit = volume_limit(capacity)
    selector = None if capacity.node_topology is None else _compiled(capacity.node_topology)
    return None if limit is None or selector is None else _Room(quantity.to_value(limit), (selector,))


def _compile_topologies(terms: Iterable[TopologySelectorTerm]) -> Selectors:
    """allowedTopologies as alternatives; a term that is empty or does not parse allows no node."""
    selectors = []
    for term in terms:
        expressions = [
            LabelSelectorRequirement(key=each.key, operator=IN, values=each.values)
            for each in term.match_label_expressions
        ]
        selector = _compiled(LabelSelector(match_expressions=expressions)) if expressions else None
        if selector is not None:
            selectors.append(selector)
    return tuple(selectors)


def _compiled(selector: LabelSelector) -> Selector | None:
    try:
        return compile_selector(selector)
    except SelectorError:
        return None
