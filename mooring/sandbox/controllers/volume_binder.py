"""Volumes and claims: binding, and reclaiming of released volumes."""

from __future__ import annotations

from typing import Any

from mooring.api.kinds import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from mooring.api.objects import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.volume_matching import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    OLD_STORAGE_PROVISIONER,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    best_match,
    class_of,
    has_class,
    is_bound_to,
    mismatch,
    same_mode,
)
from mooring.sandbox.controllers.volume_users import claims_of, index_by_claim, users_of

NO_PROVISIONER = "kubernetes.io/no-provisioner"
_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


class VolumeBinder(Controller):
    """In the queue are claims ("claim/NAMESPACE/NAME") and volumes ("volume/NAME")."""

    name = "persistentvolume-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._unbound: set[str] = set()  # the keys of claims that have no volume
        self._claims = self.cache.follow(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = self.cache.follow(PERSISTENT_VOLUMES)
        self._classes = self.cache.follow(STORAGE_CLASSES)
        self._pods = self.cache.follow(PODS)
        index_by_claim(self._pods)
        self._claims.subscribe(self._claim_changed)
        self._volumes.subscribe(self._volume_changed)
        self._classes.subscribe(self._class_changed)
        self._pods.subscribe(self._pod_changed, updates=False)

    # ---- what changes

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        claim = old if new is None else new
        assert claim is not None
        self.enqueue(f"claim/{claim.key}")
        if new is None or BIND_COMPLETED in new.metadata.annotations:
            self._unbound.discard(claim.key)
        else:
            self._unbound.add(claim.key)
        if claim.spec.volume_name:
            self.enqueue(f"volume/{claim.spec.volume_name}")

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = old if new is None else new
        assert volume is not None
        if new is not None:
            self.enqueue(f"volume/{volume.name}")
        reference = volume.spec.claim_ref
        if reference is not None:
            self.enqueue(f"claim/{reference.namespace}/{reference.name}")
        elif new is not None and new.status.phase == "Available":
            self._wake_unbound()

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if new is not None:
            self._wake_unbound()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Enqueue the unbound claims of a new pod: their events name the pods they wait for."""
        if old is None and new is not None and new.spec.volumes and not new.spec.node_name:
            for key in self._unbound.intersection(claims_of(new)):
                self.enqueue(f"claim/{key}")

    def _wake_unbound(self) -> None:
        for key in self._unbound:
            self.enqueue(f"claim/{key}")

    async def sync(self, key: str) -> None:
        what, _, name = key.partition("/")
        if what == "claim":
            claim = self._claims.get(name)
            if claim is None:
                return
            if BIND_COMPLETED in claim.metadata.annotations:
                await self._look_after_bound(claim)
            else:
                await self._look_after_unbound(claim)
        else:
            volume = self._volumes.get(name)
            if volume is not None:
                await self._look_after_volume(volume)

    # ---- claims

    async def _look_after_unbound(self, claim: PersistentVolumeClaim) -> None:
        if claim.spec.volume_name:
            await self._look_after_choosy(claim)
            return
        delayed = self._is_delayed(claim)
        volume = best_match(claim, self._volumes, delayed=delayed)
        if volume is not None:
            await self._bind(volume, claim)
        elif not await self._assign_default_class(claim):
            if delayed and SELECTED_NODE not in claim.metadata.annotations:
                self._record_waiting(claim)
            elif class_of(claim):
                await self._ask_provisioner(claim)
                return
            else:
                note = "no persistent volumes available for this claim and no storage class is set"
                self.event(self._claims, claim, "Normal", "FailedBinding", note)
            await self._set_claim_phase(claim, "Pending", None)

    def _is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        storage_class = self._classes.get(class_of(claim))
        return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def _record_waiting(self, claim: PersistentVolumeClaim) -> None:
        pods = [pod.name for pod in users_of(self._pods, claim) if not pod.spec.node_name]
        if not pods:
            reason, note = WAIT_FOR_FIRST_CONSUMER, "waiting for first consumer to be created before binding"
        else:
            reason = "WaitForPodScheduled"
            note = f"waiting for pod{'s' if len(pods) > 1 else ''} {','.join(pods)} to be scheduled"
        self.event(self._claims, claim, "Normal", reason, note)

    async def _look_after_choosy(self, claim: PersistentVolumeClaim) -> None:
        """A claim that asks for a certain volume."""
        volume = self._volumes.get(claim.spec.volume_name)
        problem = ""
        if volume is not None:
            if is_bound_to(volume, claim):
                await self._bind(volume, claim)
                return
            if volume.spec.claim_ref is None:
                problem = mismatch(volume, claim)
                if not problem:
                    await self._bind(volume, claim)
                    return
                note = f'Cannot bind to requested volume "{volume.name}": {problem}'
                self.event(self._claims, claim, "Warning", "VolumeMismatch", note)
            else:
                note = f'volume "{volume.name}" already bound to a different claim.'
                self.event(self._claims, claim, "Warning", "FailedBinding", note)
        await self._set_claim_phase(claim, "Pending", None)

    async def _look_after_bound(self, claim: PersistentVolumeClaim) -> None:
        name = claim.spec.volume_name
        volume = self._volumes.get(name)
        if volume is not None and (volume.spec.claim_ref is None or volume.spec.claim_ref.uid == claim.uid):
            await self._bind(volume, claim)
            return
        if not name:
            reason = "ClaimLost"
            note = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        elif volume is None:
            reason, note = (
                "ClaimLost",
                "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            )
        else:
            reason = "ClaimMisbound"
            note = "Two claims are bound to the same volume, this one is bound incorrectly"
        if claim.status.phase != "Lost":
            await self._set_claim_phase(claim, "Lost", None)
            self.event(self._claims, claim, "Warning", reason, note)

    # ---- classes

    async def _assign_default_class(self, claim: PersistentVolumeClaim) -> bool:
        """A claim that says nothing of classes takes the default one, even if that came later."""
        defaults = [
            one
            for one in self._classes
            if any(one.metadata.annotations.get(key) == "true" for key in _DEFAULT)
        ]
        if has_class(claim) or not defaults:
            return False
        newest = max(one.metadata.creation_timestamp or "" for one in defaults)
        name = min(one.name for one in defaults if (one.metadata.creation_timestamp or "") == newest)
        await self._patch_claim(claim, {"spec": {"storageClassName": name}})
        return True

    async def _ask_provisioner(self, claim: PersistentVolumeClaim) -> None:
        storage_class = self._classes.get(class_of(claim))
        if storage_class is None or storage_class.provisioner == NO_PROVISIONER:
            note = f"no volume plugin matched name: {NO_PROVISIONER}"
            if storage_class is None:
                note = f'storageclass.storage.k8s.io "{class_of(claim)}" not found'
            self.event(self._claims, claim, "Warning", "ProvisioningFailed", note)
            return
        name = storage_class.provisioner
        if claim.metadata.annotations.get(STORAGE_PROVISIONER) == name:
            return
        annotations = {OLD_STORAGE_PROVISIONER: name, STORAGE_PROVISIONER: name}
        await self._patch_claim(claim, {"metadata": {"annotations": annotations}})
        note = (
            f"Waiting for a volume to be created either by the external provisioner '{name}' or manually by "
            "the system administrator. If volume creation is delayed, please verify that the provisioner is "
            "running and correctly registered."
        )
        self.event(self._claims, claim, "Normal", "ExternalProvisioning", note)

    # ---- volumes

    async def _look_after_volume(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            await self._set_phase(volume, "Available")
            return
        claim = await self._claim_of(volume)
        if claim is None:
            await self._release(volume)
        elif not claim.spec.volume_name:
            if not same_mode(volume, claim):
                note = (
                    "Cannot bind PersistentVolume to requested PersistentVolumeClaim "
                    f'"{claim.name}" due to incompatible volumeMode.'
                )
                self.event(self._volumes, volume, "Warning", "VolumeMismatch", note)
            else:
                self.enqueue(f"claim/{claim.key}")
        elif claim.spec.volume_name == volume.name:
            await self._set_phase(volume, "Bound")
        elif PROVISIONED_BY in volume.metadata.annotations and _policy(volume) == "Delete":
            await self._release(volume)
        else:
            await self._unbind(volume)

    async def _claim_of(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """The very claim that a volume is bound to. That it is gone has to be said by the API server."""
        reference = volume.spec.claim_ref
        assert reference is not None
        claim = self._claims.get(f"{reference.namespace}/{reference.name}")
        if (claim is None or claim.uid != reference.uid) and volume.status.phase not in (
            "Released",
            "Failed",
        ):
            try:
                claim = await self.cluster.get(PERSISTENT_VOLUME_CLAIMS, reference.name, reference.namespace)
            except ApiError as refusal:
                if not refusal.not_found:
                    raise
                claim = None
        return claim if claim is not None and claim.uid == reference.uid else None

    async def _release(self, volume: PersistentVolume) -> None:
        """Its claim is gone. What is to be deleted is left to the provisioner."""
        if volume.status.phase not in ("Released", "Failed"):
            volume = await self._set_phase(volume, "Released")
        if _policy(volume) == "Recycle" and volume.status.phase != "Failed":
            note = "No recycler plugin found for the volume!"
            volume = await self._set_phase(volume, "Failed", note)
            self.event(self._volumes, volume, "Warning", "VolumeFailedRecycle", note)

    async def _unbind(self, volume: PersistentVolume) -> None:
        """Its claim took another volume."""
        if BOUND_BY_CONTROLLER in volume.metadata.annotations:
            patch: dict[str, Any] = {
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}},
                "spec": {"claimRef": None},
            }
        else:  # it was created for this claim
            patch = {"spec": {"claimRef": {"uid": None}}}
        await self._set_phase(await self._patch_volume(volume, patch), "Available")

    # ---- writing

    async def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind both to each other, the volume first; what is so already is left."""
        reference = volume.spec.claim_ref
        patch: dict[str, Any] = {}
        if reference is None or not is_bound_to(volume, claim) or reference.uid != claim.uid:
            claim_ref = {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
                "resourceVersion": claim.metadata.resource_version,
            }
            patch["spec"] = {"claimRef": claim_ref}
        if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in volume.metadata.annotations:
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        if patch:
            volume = await self._patch_volume(volume, patch)
        volume = await self._set_phase(volume, "Bound")
        annotations = {}
        if claim.spec.volume_name != volume.name:
            annotations[BOUND_BY_CONTROLLER] = "yes"
        if BIND_COMPLETED not in claim.metadata.annotations:
            annotations[BIND_COMPLETED] = "yes"
        if annotations:
            claim = await self._patch_claim(
                claim, {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.name}}
            )
        await self._set_claim_phase(claim, "Bound", volume)

    async def _patch_claim(
        self, claim: PersistentVolumeClaim, patch: dict[str, Any]
    ) -> PersistentVolumeClaim:
        """Change a claim, unless it was changed concurrently, for example by the scheduler."""
        version = {"resourceVersion": claim.metadata.resource_version}
        written = await self.cluster.patch(
            PERSISTENT_VOLUME_CLAIMS,
            claim.name,
            {**patch, "metadata": {**patch.get("metadata", {}), **version}},
            claim.namespace,
        )
        self._claims.wrote(written)
        return written

    async def _patch_volume(self, volume: PersistentVolume, patch: dict[str, Any]) -> PersistentVolume:
        version = {"resourceVersion": volume.metadata.resource_version}
        written = await self.cluster.patch(
            PERSISTENT_VOLUMES, volume.name, {**patch, "metadata": {**patch.get("metadata", {}), **version}}
        )
        self._volumes.wrote(written)
        return written

    async def _set_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume:
        if volume.status.phase == phase:
            return volume
        patch = {"metadata": {"uid": volume.uid}, "status": {"phase": phase, "message": message or None}}
        written = await self.cluster.patch(PERSISTENT_VOLUMES, volume.name, patch, subresource="status")
        self._volumes.wrote(written)
        return written

    async def _set_claim_phase(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None
    ) -> None:
        before = claim.status
        if volume is None:
            status: dict[str, Any] = {"accessModes": None, "capacity": None}
            if before.phase == phase and not before.access_modes and not before.capacity:
                return
        else:
            status = {"accessModes": volume.spec.access_modes}
            if before.phase == phase and before.access_modes == volume.spec.access_modes:
                return
            if before.phase != phase:
                status["capacity"] = volume.spec.capacity
        patch = {"metadata": {"uid": claim.uid}, "status": {**status, "phase": phase}}
        written = await self.cluster.patch(
            PERSISTENT_VOLUME_CLAIMS, claim.name, patch, claim.namespace, subresource="status"
        )
        self._claims.wrote(written)


def _is_default(one: StorageClass) -> bool:
    return any(one.metadata.annotations.get(key) == "true" for key in _DEFAULT)


def _policy(volume: PersistentVolume) -> str:
    return volume.spec.persistent_volume_reclaim_policy
