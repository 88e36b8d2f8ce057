"""Generic ephemeral volumes: claims that are made for a pod, and go with it."""

from __future__ import annotations

from mooring.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from mooring.api.objects import Pod, Volume
from mooring.api.storage import PersistentVolumeClaim
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.owning import controller_reference


class EphemeralVolumes(Controller):
    name = "ephemeral-volume-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims = self.cache.follow(PERSISTENT_VOLUME_CLAIMS)
        self._pods = self.cache.follow(PODS)
        self._pods.subscribe(self._pod_changed, updates=False)
        self._claims.subscribe(self._claim_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and (old is None or old.uid != new.uid) and _ephemeral(new):
            self.enqueue(new.key)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """A claim by the name that was in the way is gone."""
        owner = None if old is None or new is not None else old.metadata.controller()
        if old is not None and owner is not None and owner.kind == "Pod":
            self.enqueue(f"{old.namespace}/{owner.name}")

    async def sync(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or not pod.active:
            return
        for volume in _ephemeral(pod):
            await self._provide(pod, volume)

    async def _provide(self, pod: Pod, volume: Volume) -> None:
        name = f"{pod.name}-{volume.name}"
        claim = self._claims.get(f"{pod.namespace}/{name}")
        if claim is not None:
            owner = claim.metadata.controller()
            if owner is None or owner.uid != pod.uid:
                note = f'PVC "{claim.key}" was not created for pod "{pod.key}" (pod is not owner)'
                self.event(self._pods, pod, "Warning", "EphemeralVolumeConflict", note)
            return
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        template_metadata = (template or {}).get("metadata") or {}
        metadata = {
            part: template_metadata[part] for part in ("labels", "annotations") if part in template_metadata
        }
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                **metadata,
                "name": name,
                "ownerReferences": [controller_reference(PODS, pod)],
            },
            "spec": (template or {}).get("spec") or {},
        }
        try:
            await self.create(self._claims, body, pod.namespace)
        except ApiError as refusal:
            note = f"ephemeral volume {volume.name}: create PVC {name}: {refusal}"
            self.event(self._pods, pod, "Warning", "FailedBinding", note)
            raise


def _ephemeral(pod: Pod) -> list[Volume]:
    return [volume for volume in pod.spec.volumes if volume.ephemeral is not None]
