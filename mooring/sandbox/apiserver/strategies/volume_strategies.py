"""Strategies of PersistentVolumeClaims and PersistentVolumes."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.objects import Tree

_SNAPSHOT: Final = ("snapshot.storage.k8s.io", "VolumeSnapshot")


class ClaimStrategy(Strategy):
    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        obj["status"]["phase"] = "Pending"
        _settle_sources(obj["spec"])

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_update(write, obj, old)
        _settle_sources(obj["spec"])


def _settle_sources(spec: Tree) -> None:
    """Copy dataSource to dataSourceRef or back; the former allows claims and snapshots only."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if (
        old is not None
        and new is None
        and (old.get("apiGroup") or "", old.get("kind"))
        not in (
            ("", "PersistentVolumeClaim"),
            _SNAPSHOT,
        )
    ):
        del spec["dataSource"]
        return
    if new is not None and new.get("namespace"):
        return
    if old is not None and new is None:
        spec["dataSourceRef"] = dict(old)
    elif new is not None and old is None:
        spec["dataSource"] = {name: value for name, value in new.items() if name != "namespace"}


class VolumeStrategy(Strategy):
    """The status records since when a volume is in its phase."""

    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": write.api.now()}

    def settle_status(self, write: Write, obj: Tree, old: Tree) -> None:
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        since = before.get("lastPhaseTransitionTime")
        if status.get("phase") == before.get("phase"):
            if since is not None:
                status.setdefault("lastPhaseTransitionTime", since)
        elif status.get("lastPhaseTransitionTime") in (None, since):
            status["lastPhaseTransitionTime"] = write.api.now()
