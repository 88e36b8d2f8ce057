"""The claims that the pods of StatefulSets have for their volumes: made before the pod, kept or left to the
garbage collector as the set's retention policy says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, ApiResource
from mooring.api.meta import OwnerReference, Tree
from mooring.api.objects import Pod
from mooring.api.storage import PersistentVolumeClaim
from mooring.api.workloads import StatefulSet
from mooring.client.api_errors import ApiError
from mooring.client.controller import Controller
from mooring.client.port import PatchType
from mooring.sandbox.controllers.owning import controller_reference, kind_of


class StatefulClaims:
    """Looks after claims for the controller of StatefulSets."""

    def __init__(self, controller: Controller) -> None:
        self.claims = controller.cache.follow(PERSISTENT_VOLUME_CLAIMS)
        self._controller = controller
        self._sets = controller.cache.follow(STATEFUL_SETS)

    async def create(self, set: StatefulSet, ordinal: int) -> None:
        """Create what is missing of a pod's claims. Raises ApiError, also where one is on its way out."""
        for template in set.spec.volume_claim_templates:
            name = claim_name(set, template, ordinal)
            claim = self.claims.get(f"{set.namespace}/{name}")
            if claim is None:
                await self._create(set, template, name, f"{set.name}-{ordinal}")
            elif claim.metadata.deletion_timestamp is not None:
                raise ApiError(409, "Conflict", f"pvc {name} is being deleted")

    async def _create(self, set: StatefulSet, template: Tree, name: str, pod: str) -> None:
        tell, sets = self._controller.event, self._sets
        try:
            await self._controller.create(self.claims, claim_of(set, template, name), set.namespace)
        except ApiError as refusal:
            if refusal.reason != "AlreadyExists":
                note = f"Create Claim {name} for Pod {pod} in StatefulSet {set.name} failed error: {refusal}"
                tell(sets, set, "Warning", "FailedCreate", note)
            raise
        note = f"Create Claim {name} Pod {pod} in StatefulSet {set.name} success"
        tell(sets, set, "Normal", "SuccessfulCreate", note)

    def stale(self, set: StatefulSet, ordinal: int) -> bool:
        """Whether a claim belongs to an earlier pod of the same name and will go with it."""
        if set.spec.persistent_volume_claim_retention_policy.when_scaled == "Retain":
            return False
        return any(
            _refers(owner, PODS, f"{set.name}-{ordinal}")
            for claim in self._of(set, ordinal)
            for owner in claim.metadata.owner_references
        )

    async def retain(self, set: StatefulSet, pod: Pod, ordinal: int, *, scaled_down: bool) -> bool:
        """Set the owners of the pod's claims by the retention policy: claims are deleted with their owner.
        Return whether anything changed."""
        reference = _owner(set, pod, scaled_down)
        changed = False
        for claim in self._of(set, ordinal):
            ours = [
                owner
                for owner in claim.metadata.owner_references
                if _refers(owner, STATEFUL_SETS, set.name) or _refers(owner, PODS, pod.name)
            ]
            if any(owner.uid not in (set.uid, pod.uid) for owner in ours):
                continue  # it belonged to an earlier set or pod
            conflicting = not _retains(set) and self._conflicting(set, claim, ours)
            changed |= await self._own(claim, ours, None if conflicting else reference)
        return changed

    def _of(self, set: StatefulSet, ordinal: int) -> Iterator[PersistentVolumeClaim]:
        for template in set.spec.volume_claim_templates:
            claim = self.claims.get(f"{set.namespace}/{claim_name(set, template, ordinal)}")
            if claim is not None:
                yield claim

    def _conflicting(
        self, set: StatefulSet, claim: PersistentVolumeClaim, ours: list[OwnerReference]
    ) -> bool:
        controller = claim.metadata.controller()
        if controller is None or controller in ours:
            return False
        note = (
            f"PersistentVolumeClaim {claim.name} has a conflicting OwnerReference that acts as a manging "
            "controller, the retention policy is ignored for this claim"
        )
        self._controller.event(self._sets, set, "Warning", "ConflictingController", note)
        return True

    async def _own(
        self, claim: PersistentVolumeClaim, ours: list[OwnerReference], reference: Tree | None
    ) -> bool:
        uid = None if reference is None else reference["uid"]
        changes: list[Tree] = [{"$patch": "delete", "uid": owner.uid} for owner in ours if owner.uid != uid]
        if reference is not None and not any(owner.uid == uid and owner.controller for owner in ours):
            changes.append(reference)
        if changes:
            kept = [owner.uid for owner in claim.metadata.owner_references if owner not in ours]
            order = [{"uid": each} for each in (*kept, *([] if uid is None else [uid]))]
            owners = {"ownerReferences": changes, "$setElementOrder/ownerReferences": order}
            patch = {"metadata": {"uid": claim.uid, **owners}}
            written = await self._controller.cluster.patch(
                PERSISTENT_VOLUME_CLAIMS, claim.name, patch, claim.namespace, kind=PatchType.STRATEGIC
            )
            self.claims.wrote(written)
        return bool(changes)


def claim_name(set: StatefulSet, template: Tree, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{set.name}-{ordinal}"


def claim_of(set: StatefulSet, template: Tree, name: str) -> Tree:
    """The body of a claim of this name, made of one of the set's templates."""
    template_metadata = template["metadata"]
    selected = set.spec.selector.match_labels if set.spec.selector is not None else {}
    metadata: Tree = {"name": name, "labels": {**(template_metadata.get("labels") or {}), **selected}}
    if template_metadata.get("annotations"):
        metadata["annotations"] = template_metadata["annotations"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


def _retains(set: StatefulSet) -> bool:
    policy = set.spec.persistent_volume_claim_retention_policy
    return policy.when_scaled == policy.when_deleted == "Retain"


def _owner(set: StatefulSet, pod: Pod, scaled_down: bool) -> Tree | None:
    policy = set.spec.persistent_volume_claim_retention_policy
    if scaled_down and policy.when_scaled == "Delete":
        return controller_reference(PODS, pod)
    return controller_reference(STATEFUL_SETS, set) if policy.when_deleted == "Delete" else None


def _refers(owner: OwnerReference, resource: ApiResource[Any], name: str) -> bool:
    named = owner.api_version, owner.kind, owner.name
    return named == (resource.api_version, kind_of(resource), name)
