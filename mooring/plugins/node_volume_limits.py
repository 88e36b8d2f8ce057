"""NodeVolumeLimits: a node takes as many volumes of a CSI driver as its CSINode says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mooring.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.framework.cycle_state import CycleState
from mooring.framework.events import Action, EventHint, Hint, Resource, on
from mooring.framework.handle import Handle, Listers
from mooring.framework.nodes import BoolArray, IntArray, NodeInfo, Nodes, Verdicts, refuse
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.runners import PluginError
from mooring.framework.status import SKIP, Status, unresolvable, unschedulable
from mooring.plugins.volumes.attachments import (
    Attachment,
    MissingClaim,
    attached_to,
    attachments_of,
    may_attach,
)
from mooring.plugins.volumes.claims import VolumeError, claims_of
from mooring.plugins.volumes.csi_nodes import NO_LIMIT, CSINodes
from mooring.plugins.volumes.migration import plugin_of

_COUNTED = 4  # pods with more attachable volumes than this are looked at one by one


@dataclass(frozen=True, slots=True)
class AttachesAtLeast:
    """Pods with at least so many volumes that may be CSI volumes."""

    volumes: int

    @property
    def count_terminating(self) -> bool:
        return True

    def matches(self, shape: Shape) -> bool:
        return sum(map(may_attach, shape.spec.volumes)) >= self.volumes


class NodeVolumeLimits(Plugin):
    """Refuses nodes that would have more volumes attached than they can take.

    Counting the distinct volumes on a node means looking at its pods. So the pods' volumes are first
    counted as if all were distinct and of the same driver, over all nodes at once; only where that would
    be too many is a node looked at.
    """

    name = "NodeVolumeLimits"

    TOO_MANY = "node(s) exceed max volume count"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._csi_nodes = CSINodes()
        self._attachments = _AttachmentIndex()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        concerned = state.remember(self, lambda: any(map(may_attach, pod.spec.volumes)))
        return None if concerned else SKIP

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        listers, whole = self.handle.listers, nodes.whole
        self._csi_nodes.refresh(listers, whole)
        try:
            migrate = bool(self._csi_nodes.present.any())
            wanted = attachments_of(listers, pod, must_exist=True, migrate=migrate)
        except MissingClaim as missing:
            return refuse(np.ones(len(nodes), np.bool_), unresolvable(str(missing)))
        except VolumeError as problem:
            raise PluginError(self.name, str(problem)) from problem
        limits = self._limits(wanted)
        if not limits:
            return None
        self._attachments.refresh(listers)
        refused = np.zeros(len(nodes), np.bool_)
        for i in np.flatnonzero(self._suspects(nodes, wanted, limits)).tolist():
            refused[i] = self._exceeds(nodes[i], wanted, limits, int(nodes.rows[i]))
        return refuse(refused, unschedulable(self.TOO_MANY)) if refused.any() else None

    def _limits(self, wanted: Iterable[Attachment]) -> dict[str, IntArray]:
        """The limits of the drivers concerned, by row of the whole table."""
        drivers = {attachment.driver for attachment in wanted}
        found = {driver: self._csi_nodes.limits(driver) for driver in drivers}
        return {driver: limits for driver, limits in found.items() if limits is not None}

    def _suspects(
        self, nodes: Nodes, wanted: Iterable[Attachment], limits: Mapping[str, IntArray]
    ) -> BoolArray:
        """The rows that would have too many volumes if all that may be volumes of a driver were."""
        most = self._attachments.counts(nodes)
        for volumes in range(1, _COUNTED + 1):
            most = most + nodes.count(AttachesAtLeast(volumes))
        uncounted = nodes.count(AttachesAtLeast(_COUNTED + 1)) > 0
        suspects = np.zeros(len(nodes), np.bool_)
        for driver, by_row in limits.items():
            limit = by_row[nodes.rows]
            new = sum(attachment.driver == driver for attachment in wanted)
            suspects |= (most > limit - new) | (uncounted & (limit != NO_LIMIT))
        return suspects

    def _exceeds(
        self, node: NodeInfo, wanted: frozenset[Attachment], limits: Mapping[str, IntArray], row: int
    ) -> bool:
        used: set[Attachment] = set()
        for pod in node.pods:
            if pod.spec.volumes:
                used |= self._used_by(pod)
        # What a node still has attached without a pod counts, even if it is what the new pod wants.
        idle = self._attachments.of(self.handle.listers, node.name) - used
        new = wanted - used
        return any(
            _count(used, driver) + _count(idle, driver) + added > int(by_row[row])
            for driver, by_row in limits.items()
            if (added := _count(new, driver))
        )

    def _used_by(self, pod: PodInfo) -> frozenset[Attachment]:
        """A pod's volumes; found once for all pods of its shape, until claims or volumes change."""
        listers, memory = self.handle.listers, pod.shape.memory
        versions = (
            listers.version(PersistentVolumeClaim),
            listers.version(PersistentVolume),
            listers.version(StorageClass),
        )
        known: tuple[object, frozenset[Attachment]] | None = memory.get(self)
        if known is not None and known[0] == versions:
            return known[1]
        try:
            used = attachments_of(listers, pod, must_exist=False)
        except VolumeError as problem:
            raise PluginError(self.name, str(problem)) from problem
        memory[self] = (versions, used)
        return used

    # ---- queueing hints

    def events_to_register(self) -> Iterable[EventHint]:
        yield on(Resource.CSI_NODE, Action.ADD)
        yield on(Resource.CSI_NODE, Action.UPDATE, self._after_csi_node_update)
        yield on(Resource.POD, Action.DELETE, self._after_pod_delete)
        yield on(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, self._after_claim_add)
        yield on(Resource.VOLUME_ATTACHMENT, Action.DELETE, self._after_attachment_delete)

    def _after_csi_node_update(self, pod: PodInfo, old: CSINode, new: CSINode) -> Hint:
        before, after = _limits_of(old), _limits_of(new)
        grew = any(limit > before.get(driver, 0) for driver, limit in after.items())
        return Hint.QUEUE if grew else Hint.SKIP

    def _after_pod_delete(self, pod: PodInfo, old: PodInfo, new: Any) -> Hint:
        had_place = old.node_name or old.status.nominated_node_name
        freed = had_place and any(map(may_attach, old.spec.volumes))
        return Hint.QUEUE if freed else Hint.SKIP

    def _after_claim_add(self, pod: PodInfo, old: Any, new: PersistentVolumeClaim) -> Hint:
        used = new.namespace == pod.namespace and any(use.name == new.name for use in claims_of(pod))
        return Hint.QUEUE if used else Hint.SKIP

    def _after_attachment_delete(self, pod: PodInfo, old: VolumeAttachment, new: Any) -> Hint:
        for volume in pod.spec.volumes:
            plugin = plugin_of(volume)
            if volume.persistent_volume_claim is not None:
                return Hint.QUEUE
            if plugin is not None and plugin.driver == old.spec.attacher:
                return Hint.QUEUE
        return Hint.SKIP


class _AttachmentIndex:
    """The VolumeAttachments by node."""

    def __init__(self) -> None:
        self._version: int | None = None
        self._by_node: dict[str, list[VolumeAttachment]] = {}

    def refresh(self, listers: Listers) -> None:
        version = listers.version(VolumeAttachment)
        if version != self._version:
            self._version = version
            self._by_node = {}
            for attachment in listers.list(VolumeAttachment):
                self._by_node.setdefault(attachment.spec.node_name, []).append(attachment)

    def counts(self, nodes: Nodes) -> IntArray:
        """How many there are on each row."""
        counts = np.zeros(len(nodes), np.int64)
        for name, attachments in self._by_node.items():
            i = nodes.index(name)
            if i is not None:
                counts[i] = len(attachments)
        return counts

    def of(self, listers: Listers, node_name: str) -> set[Attachment]:
        found = (attached_to(listers, attachment) for attachment in self._by_node.get(node_name, ()))
        return {attachment for attachment in found if attachment is not None}


def _count(attachments: Iterable[Attachment], driver: str) -> int:
    return sum(attachment.driver == driver for attachment in attachments)


def _limits_of(csi_node: CSINode) -> dict[str, int]:
    """The limit of each driver, 0 where it has none: gaining a limit counts as growing."""
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in csi_node.spec.drivers
    }
