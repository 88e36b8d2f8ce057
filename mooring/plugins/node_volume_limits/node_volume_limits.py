"""NodeVolumeLimits: a node takes as many volumes of a CSI driver as its CSINode says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mooring.api.storage import (
    CSINode,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.handle import Handle
from mooring.framework.nodes import BoolArray, IntArray, Nodes, Verdicts, refuse
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, skip, unresolvable, unschedulable
from mooring.plugins.node_volume_limits.attachments import (
    Attachment,
    MissingClaim,
    attachments_of,
    may_attach,
)
from mooring.plugins.node_volume_limits.usage import VolumeUsage
from mooring.plugins.volumes.claims import VolumeError, claims_of
from mooring.plugins.volumes.csi_nodes import NO_LIMIT, CSINodes
from mooring.plugins.volumes.migration import plugin_of
from mooring.runtime.engine_nodes import EngineNodes, engine_nodes
from mooring.runtime.runners import PluginError

Limits = Mapping[str, IntArray]  # by driver: one number for each row of the whole table


_MAY_ATTACH = StateKey[bool]("NodeVolumeLimits/may-attach")


class NodeVolumeLimits(Plugin):
    """Refuses nodes that would have more volumes attached than they can take."""

    name = "NodeVolumeLimits"

    TOO_MANY = "node(s) exceed max volume count"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._csi_nodes = CSINodes()
        self._usage = VolumeUsage()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        concerned = state.cached(_MAY_ATTACH, lambda: any(map(may_attach, pod.spec.volumes)))
        return None if concerned else skip(shape=True)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        try:
            refused = self._refused(pod, engine_nodes(nodes))
        except MissingClaim as missing:
            return refuse(np.ones(len(nodes), np.bool_), unresolvable(str(missing)))
        except VolumeError as problem:
            raise PluginError(self.name, str(problem)) from problem
        if refused is None or not refused.any():
            return None
        return refuse(refused, unschedulable(self.TOO_MANY))

    def _refused(self, pod: PodInfo, nodes: EngineNodes) -> BoolArray | None:
        """Return the rows that would exceed their volume limit; None if there is no limit."""
        listers, whole = self.handle.listers, nodes.whole
        self._csi_nodes.refresh(listers, whole)
        migrate = bool(self._csi_nodes.present.any())
        needed = attachments_of(listers, pod, must_exist=True, migrate=migrate)
        limits = self._limits(needed)
        if not limits:
            return None
        self._usage.refresh(listers, whole)
        self._check_problems(limits)
        refused = self._exceeding(whole, needed, limits)[nodes.rows]
        if nodes.hypothetical:
            self._reconsider(nodes, needed, limits, refused)
        return refused

    def _limits(self, needed: Iterable[Attachment]) -> Limits:
        drivers = {attachment.driver for attachment in needed}
        by_driver = {driver: self._csi_nodes.limits(driver) for driver in drivers}
        return {driver: limits for driver, limits in by_driver.items() if limits is not None}

    def _check_problems(self, limits: Limits) -> None:
        for row, problem in self._usage.problems.items():
            if any(by_row[row] != NO_LIMIT for by_row in limits.values()):
                raise VolumeError(problem)

    def _exceeding(self, nodes: Nodes, needed: Iterable[Attachment], limits: Limits) -> BoolArray:
        """The rows that would have too many; a volume that another pod has there already is no more."""
        refused = np.zeros(len(nodes), np.bool_)
        for driver, by_row in limits.items():
            new = np.zeros(len(nodes), np.int64)
            for attachment in needed:
                if attachment.driver == driver:
                    new += 1
                    new[self._usage.holders(attachment)] -= 1
            attached = self._usage.counts(driver)
            total = new if attached is None else new + attached
            refused |= (total > by_row) & (new > 0)
        return refused

    def _reconsider(
        self, nodes: EngineNodes, needed: frozenset[Attachment], limits: Limits, refused: BoolArray
    ) -> None:
        """Where pods would come or go, count again with them."""
        for i, row in enumerate(nodes.rows.tolist()):
            removed, added = nodes.changes(i)
            if not any(pod.spec.volumes for pod in (*removed, *added)):
                continue
            used, idle = self._usage.with_pods(self.handle.listers, row, removed, added)
            new = needed - used
            refused[i] = any(
                _count(used, driver) + _count(idle, driver) + more > int(by_row[row])
                for driver, by_row in limits.items()
                if (more := _count(new, driver))
            )

    # ---- queueing hints

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(Resource.CSI_NODE, Action.ADD)
        yield requeue_on(Resource.CSI_NODE, Action.UPDATE, self._after_csi_node_update)
        yield requeue_on(Resource.POD, Action.DELETE, self._after_pod_delete)
        yield requeue_on(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, self._after_claim_add)
        yield requeue_on(Resource.VOLUME_ATTACHMENT, Action.DELETE, self._after_attachment_delete)

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


def _count(attachments: Iterable[Attachment], driver: str) -> int:
    return sum(attachment.driver == driver for attachment in attachments)


def _limits_of(csi_node: CSINode) -> dict[str, int]:
    """The limit of each driver, 0 where it has none: gaining a limit counts as growing."""
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in csi_node.spec.drivers
    }
