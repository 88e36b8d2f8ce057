"""VolumeRestrictions: a disk that one pod writes to is no other pod's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mooring.api.storage import PersistentVolumeClaim
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import IntArray, Nodes, Verdicts
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Status, skip, unresolvable, unschedulable
from mooring.plugins.volumes.claims import CLAIM_KIND, direct_claims_of, not_found
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.engine_nodes import EngineNodes, engine_nodes
from mooring.runtime.runners import PluginError

READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class Disk(NamedTuple):
    """An inline disk that may be used once, or by any number of readers."""

    kind: str
    identity: tuple[str, ...]
    read_only: bool
    monitors: frozenset[str] = frozenset({""})  # of Ceph: disks can be the same only where these overlap


class _Use(NamedTuple):
    """Through which monitors the volumes of a pod use one disk."""

    users: set[str]
    writers: set[str]

    def excludes(self, other: _Use) -> bool:
        return not (self.writers.isdisjoint(other.users) and self.users.isdisjoint(other.writers))


_Uses = dict[tuple[str, tuple[str, ...]], _Use]


class Disks:
    """The inline disks of pods of a shape."""

    __slots__ = ("disks", "uses")

    def __init__(self, disks: frozenset[Disk]) -> None:
        self.disks = disks
        self.uses: _Uses = {}
        for disk in disks:
            use = self.uses.setdefault(disk[:2], _Use(set(), set()))
            use.users.update(disk.monitors)
            if not disk.read_only:
                use.writers.update(disk.monitors)

    @classmethod
    def of(cls, shape: Shape) -> Disks:
        disks: Disks | None = shape.derived.get(cls)
        if disks is None:
            disks = shape.derived[cls] = cls(frozenset(_disks(shape)))
        return disks

    def exclude(self, other: Disks) -> bool:
        """Whether one node cannot have both."""
        few, many = (self.uses, other.uses) if len(self.uses) < len(other.uses) else (other.uses, self.uses)
        return any(key in many and use.excludes(many[key]) for key, use in few.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Disks) and self.disks == other.disks

    def __hash__(self) -> int:
        return hash(self.disks)


def _disks(shape: Shape) -> Iterable[Disk]:
    for volume in shape.spec.volumes:
        if (gce := volume.gce_persistent_disk) is not None:
            yield Disk("gce", (gce.pd_name,), gce.read_only)
        if (ebs := volume.aws_elastic_block_store) is not None:
            yield Disk("ebs", (ebs.volume_id,), False)  # readers exclude each other, too
        if (iscsi := volume.iscsi) is not None:
            yield Disk("iscsi", (iscsi.iqn,), iscsi.read_only)
        if (rbd := volume.rbd) is not None:
            yield Disk("rbd", (rbd.pool, rbd.image), rbd.read_only, frozenset(rbd.monitors))


@dataclass(frozen=True, slots=True)
class DiskConflict:
    """Pods with a disk that excludes one of these."""

    disks: Disks

    @property
    def count_terminating(self) -> bool:
        return True  # a disk is free only when its pod is gone

    def matches(self, shape: Shape) -> bool:
        return bool(shape.spec.volumes) and self.disks.exclude(Disks.of(shape))


@dataclass(frozen=True, slots=True)
class RefersToClaims:
    """The volumes of pods whose claims have one of these names.

    As in kube-scheduler the namespace is not compared, so that preempting a pod of another namespace
    counts as freeing a claim of the same name.
    """

    claims: frozenset[str]

    @property
    def count_terminating(self) -> bool:
        return True

    def matches(self, shape: Shape) -> int:
        claims = (volume.persistent_volume_claim for volume in shape.spec.volumes)
        return sum(claim is not None and claim.claim_name in self.claims for claim in claims)


class _Needs(NamedTuple):
    """What pods of a shape need that others may hold."""

    disks: DiskConflict | None
    claims: tuple[str, ...]


class _Exclusive(NamedTuple):
    """The claims that no two pods may use, and how many of them are in use."""

    claims: frozenset[str]
    in_use: int


_NEEDS = StateKey[_Needs]("VolumeRestrictions/needs")


class VolumeRestrictions(Plugin):
    """Refuses nodes whose pods hold an inline disk that the pod needs for itself, and every node while a
    ReadWriteOncePod claim is in use."""

    name = "VolumeRestrictions"
    handle: EngineHandle

    DISK_CONFLICT = "node(s) had no available disk"
    CLAIM_IN_USE = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    )
    PRE_FILTER_KEY = StateKey[_Exclusive]("PreFilterVolumeRestrictions")

    _STATUSES: ClassVar = {1: unschedulable(DISK_CONFLICT), 2: unschedulable(CLAIM_IN_USE)}

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        needs = self._needs(state, pod)
        exclusive = set()
        for name in needs.claims:
            claim = self.handle.listers.get(PersistentVolumeClaim, name, pod.namespace)
            if claim is None:
                return unresolvable(not_found(CLAIM_KIND, name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(name)
        users = self.handle.snapshot.claim_users
        in_use = sum(users(f"{pod.namespace}/{name}") > 0 for name in exclusive)
        if needs.disks is None and not in_use:
            return skip(shape=not needs.claims)
        state.write(self.PRE_FILTER_KEY, _Exclusive(frozenset(exclusive), in_use))
        return None

    def _needs(self, state: CycleState, pod: PodInfo) -> _Needs:
        def make() -> _Needs:
            disks = Disks.of(pod.shape)
            return _Needs(DiskConflict(disks) if disks.disks else None, direct_claims_of(pod))

        return state.cached(_NEEDS, make)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        exclusive = state.get(self.PRE_FILTER_KEY)
        if exclusive is None:
            raise PluginError(self.name, f'cannot read "{self.PRE_FILTER_KEY.name}" from cycleState')
        codes = np.zeros(len(nodes), np.int32)
        if exclusive.claims:
            codes[self._in_use(exclusive, engine_nodes(nodes)) > 0] = 2
        disks = self._needs(state, pod).disks
        if disks is not None:
            codes[nodes.count(disks) > 0] = 1
        return Verdicts(codes, self._STATUSES) if codes.any() else None

    def _in_use(self, exclusive: _Exclusive, nodes: EngineNodes) -> IntArray:
        """How many of the claims are in use, given the pods that a hypothetical view adds or removes."""
        in_use = np.full(len(nodes), exclusive.in_use, np.int64)
        change = nodes.delta(RefersToClaims(exclusive.claims))
        return in_use if change is None else in_use + change

    # ---- queueing hints

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.POD, Action.DELETE, self._after_pod_delete)
        yield requeue_on(Resource.NODE, Action.ADD)
        yield requeue_on(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, self._after_claim_add)

    def _after_pod_delete(self, pod: PodInfo, old: PodInfo, new: Any) -> Hint:
        if old.namespace != pod.namespace:
            return Hint.SKIP
        freed = DiskConflict(Disks.of(pod.shape)).matches(old.shape)
        freed = freed or not set(direct_claims_of(pod)).isdisjoint(direct_claims_of(old))
        return Hint.QUEUE if freed else Hint.SKIP

    def _after_claim_add(self, pod: PodInfo, old: Any, new: PersistentVolumeClaim) -> Hint:
        used = new.namespace == pod.namespace and new.name in direct_claims_of(pod)
        return Hint.QUEUE if used else Hint.SKIP
