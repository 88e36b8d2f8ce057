"""How many CSI volumes each node has attached, kept up to date at the cost of the changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from mooring.framework.handle import Listers
from mooring.framework.nodes import IntArray
from mooring.framework.pod import PodInfo
from mooring.plugins.node_volume_limits.attachments import Attachment, attached_to, attachments_of
from mooring.plugins.volumes.claims import VolumeError, claims_of
from mooring.plugins.volumes.watched import Watched
from mooring.runtime.engine_nodes import EngineNodes, Mark

Key = TypeVar("Key", bound=Hashable)


class _Row:
    """One node's volumes, and what they follow from."""

    __slots__ = ("held", "node_name", "pods", "problem", "read", "reported")

    def __init__(self, node_name: str = "", pods: Sequence[PodInfo] = ()) -> None:
        self.node_name = node_name
        self.pods = pods  # those with volumes
        self.held: Counter[Attachment] = Counter()  # how many pods use each
        self.reported: set[Attachment] = set()  # those that VolumeAttachments speak of
        self.read: set[str] = set()  # keys of the claims and names of the volumes that were looked at
        self.problem = ""  # why they cannot be counted


class VolumeUsage:
    """The volumes on all nodes. A row is counted again when its pods or attachments change, or a claim or
    volume that was looked at for it."""

    def __init__(self) -> None:
        self._mark: Mark | None = None
        self._class_version: int | None = None
        self._claims = Watched(PersistentVolumeClaim)
        self._volumes = Watched(PersistentVolume)
        self._attachments = Watched(VolumeAttachment)
        self._by_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._rows: list[_Row] = []
        self._counts: dict[str, IntArray] = {}  # by driver
        self._readers: dict[str, set[int]] = {}  # key of a claim or name of a volume → rows
        self._holders: dict[Attachment, set[int]] = {}
        self.problems: dict[int, str] = {}  # rows whose volumes cannot be counted, and why

    def refresh(self, listers: Listers, nodes: EngineNodes) -> None:
        """Bring the counts up to date with these nodes, which must be the whole table."""
        stale = self._rows_with_changed_objects(listers, nodes)
        suspects = self._rows_with_changed_pods(nodes)
        self._resize(len(nodes))
        for row in stale.union(suspects):
            if row < len(nodes):
                node, old = nodes[row], self._rows[row]
                pods = [pod for pod in node.pods if pod.spec.volumes]
                if row in stale or node.name != old.node_name or pods != old.pods:
                    self._forget(row)
                    self._put(row, self._read(listers, node.name, pods))

    def counts(self, driver: str) -> IntArray | None:
        """How many volumes of a driver each row has attached; None: no row has any."""
        return self._counts.get(driver)

    def holders(self, attachment: Attachment) -> list[int]:
        """The rows where pods use a volume."""
        return list(self._holders.get(attachment, ()))

    def with_pods(
        self, listers: Listers, row: int, removed: Iterable[PodInfo], added: Iterable[PodInfo]
    ) -> tuple[set[Attachment], set[Attachment]]:
        """The volumes on a row if pods came and went: those that pods use, and those without a pod."""
        held = self._rows[row].held.copy()
        for pod in removed:
            held.subtract(attachments_of(listers, pod, must_exist=False))
        for pod in added:
            held.update(attachments_of(listers, pod, must_exist=False))
        used = {attachment for attachment, pods in held.items() if pods > 0}
        return used, self._rows[row].reported - used

    # ---- what changed

    def _rows_with_changed_objects(self, listers: Listers, nodes: EngineNodes) -> set[int]:
        """The rows to count again because of a claim, volume, class or attachment."""
        rows = {row for key in self._changed_keys(listers) for row in self._readers.get(key, ())}
        for name in self._changed_attachments(listers):
            row = nodes.index(name)
            if row is not None:
                rows.add(row)
        classes, self._class_version = self._class_version, listers.version(StorageClass)
        return rows if classes == self._class_version else set(range(len(nodes)))

    def _rows_with_changed_pods(self, nodes: EngineNodes) -> Iterable[int]:
        mark, self._mark = self._mark, nodes.mark
        of_nodes, of_pods = (None, None) if mark is None else nodes.changed_since(mark)
        if of_nodes is None or of_pods is None:
            return range(len(nodes))
        return of_nodes + of_pods

    def _changed_keys(self, listers: Listers) -> Iterator[str]:
        for claims in self._claims.changes(listers):
            yield from (claim.key for claim in claims)
        for volumes in self._volumes.changes(listers):
            yield from (volume.name for volume in volumes)

    def _changed_attachments(self, listers: Listers) -> set[str]:
        """Take in the VolumeAttachments; the names of the nodes where some changed."""
        gone, come = self._attachments.changes(listers)
        for attachment in gone:
            del self._by_node[attachment.spec.node_name][attachment.name]
        for attachment in come:
            self._by_node.setdefault(attachment.spec.node_name, {})[attachment.name] = attachment
        return {attachment.spec.node_name for attachment in (*gone, *come)}

    # ---- one row

    def _read(self, listers: Listers, node_name: str, pods: Sequence[PodInfo]) -> _Row:
        row_usage = _Row(node_name, pods)
        for attachment in self._by_node.get(node_name, {}).values():
            row_usage.read.add(attachment.spec.source.persistent_volume_name or "")
            volume = attached_to(listers, attachment)
            if volume is not None:
                row_usage.reported.add(volume)
        for pod in pods:
            row_usage.read.update(_read_for(listers, pod))
            try:
                row_usage.held.update(attachments_of(listers, pod, must_exist=False))
            except VolumeError as problem:
                row_usage.problem = str(problem)
        return row_usage

    def _put(self, row: int, row_usage: _Row) -> None:
        self._rows[row] = row_usage
        for key in row_usage.read:
            self._readers.setdefault(key, set()).add(row)
        for attachment in row_usage.held:
            self._holders.setdefault(attachment, set()).add(row)
        for attachment in row_usage.held.keys() | row_usage.reported:
            column = self._counts.get(attachment.driver)
            if column is None:
                column = self._counts[attachment.driver] = np.zeros(len(self._rows), np.int64)
            column[row] += 1
        if row_usage.problem:
            self.problems[row] = row_usage.problem

    def _forget(self, row: int) -> None:
        old = self._rows[row]
        for key in old.read:
            _discard(self._readers, key, row)
        for attachment in old.held:
            _discard(self._holders, attachment, row)
        for attachment in old.held.keys() | old.reported:
            self._counts[attachment.driver][row] -= 1
        self.problems.pop(row, None)

    def _resize(self, length: int) -> None:
        for row in range(length, len(self._rows)):
            self._forget(row)
        more = length - len(self._rows)
        if more == 0:
            return
        self._rows = self._rows[:length] + [_Row() for _ in range(more)]
        for driver, column in self._counts.items():
            self._counts[driver] = np.concatenate((column[:length], np.zeros(max(more, 0), np.int64)))


def _read_for(listers: Listers, pod: PodInfo) -> Iterator[str]:
    """The claims and volumes on which a pod's attachments depend."""
    for use in claims_of(pod):
        yield f"{pod.namespace}/{use.name}"
        claim = listers.get(PersistentVolumeClaim, use.name, pod.namespace)
        if claim is not None and claim.spec.volume_name:
            yield claim.spec.volume_name


def _discard(index: dict[Key, set[int]], key: Key, row: int) -> None:
    rows = index[key]
    rows.discard(row)
    if not rows:
        del index[key]
