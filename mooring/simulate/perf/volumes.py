"""The controller of volumes that scheduler_perf runs: it binds claims to volumes that name them."""

from __future__ import annotations

from mooring.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.storage import PersistentVolume
from mooring.client.controller import Context, Controller

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class PreboundVolumes(Controller):
    """The sandbox's own volume controller would mark claims as lost that are created before their volumes."""

    name = "persistentvolume-binder"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._volumes = self.cache.follow(PERSISTENT_VOLUMES)
        self._volumes.subscribe(self._changed)

    def _changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None and new.spec.claim_ref is not None:
            self.enqueue(new.name)

    async def sync(self, key: str) -> None:
        volume = self._volumes.get(key)
        if volume is None or volume.spec.claim_ref is None:
            return
        name, namespace = volume.spec.claim_ref.name, volume.spec.claim_ref.namespace
        claim = await self.cluster.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        if not claim.spec.volume_name:
            patch = {
                "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
                "spec": {"volumeName": volume.name},
            }
            await self.cluster.patch(PERSISTENT_VOLUME_CLAIMS, name, patch, namespace)
