"""Volume protection: a claim that pods use, or a volume that is bound, stays until it no longer is."""

from __future__ import annotations

from typing import Any

from mooring.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from mooring.api.objects import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.client.api_errors import ApiError
from mooring.client.cache import Collection
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.volume_users import claims_of, index_by_claim, users_of

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"


class VolumeProtection(Controller):
    """In the queue are claims ("claim/NAMESPACE/NAME") and volumes ("volume/NAME")."""

    name = "persistentvolume-protection-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims = self.cache.follow(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = self.cache.follow(PERSISTENT_VOLUMES)
        self._pods = self.cache.follow(PODS)
        index_by_claim(self._pods)
        self._claims.subscribe(self._claim_changed)
        self._volumes.subscribe(self._volume_changed)
        self._pods.subscribe(self._pod_changed)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            self.enqueue(f"claim/{new.key}")

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None:
            self.enqueue(f"volume/{new.name}")

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.finished) and old.spec.volumes:
            for key in claims_of(old):
                self.enqueue(f"claim/{key}")

    async def sync(self, key: str) -> None:
        what, _, name = key.partition("/")
        if what == "claim":
            claim = self._claims.get(name)
            if claim is not None:
                used = any(_uses(pod, claim) for pod in users_of(self._pods, claim))
                await self._protect(self._claims, claim, CLAIM_PROTECTION, used)
        else:
            volume = self._volumes.get(name)
            if volume is not None:
                bound = volume.status.phase == "Bound"
                await self._protect(self._volumes, volume, VOLUME_PROTECTION, bound)

    async def _protect(self, collection: Collection[Any], obj: Any, finalizer: str, used: bool) -> None:
        """Have a finalizer on an object that is not deleted, and take it off one that is and is not used."""
        finalizers, deleted = obj.metadata.finalizers, obj.metadata.deletion_timestamp is not None
        if deleted and not used and finalizer in finalizers:
            updated = [one for one in finalizers if one != finalizer]
        elif not deleted and finalizer not in finalizers:
            updated = [*finalizers, finalizer]
        else:
            return
        patch = {"metadata": {"finalizers": updated, "resourceVersion": obj.metadata.resource_version}}
        try:
            written = await self.cluster.patch(collection.resource, obj.name, patch, obj.namespace)
        except ApiError as refusal:
            if not refusal.not_found:
                raise
        else:
            if not deleted:  # else it may be gone by this very write
                collection.wrote(written)


def _uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a pod holds a claim. Kubelets do not start a pod whose claim is deleted, so that one without a
    node does not; one that has ended still does, unless the claim was made for it alone."""
    if not pod.spec.node_name:
        return False
    return any(
        (
            volume.persistent_volume_claim is not None
            and volume.persistent_volume_claim.claim_name == claim.name
        )
        or (not pod.finished and volume.ephemeral is not None and f"{pod.name}-{volume.name}" == claim.name)
        for volume in pod.spec.volumes
    )
