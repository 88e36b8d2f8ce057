"""Carrying out decisions about volumes: assume them, write them to the cluster, wait for the controllers."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from mooring.api.meta import KubeObject, ObjectReference
from mooring.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from mooring.framework.handle import Client, Handle
from mooring.framework.nodes import NodeInfo
from mooring.framework.pod import PodInfo
from mooring.plugins.volume_binding.assumed import Assumed
from mooring.plugins.volume_binding.node_rows import compile_affinity
from mooring.plugins.volume_binding.volume_finder import Decision
from mooring.plugins.volumes.claims import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    fully_bound,
    is_bound_to,
    not_found,
)
from mooring.plugins.volumes.migration import (
    MigrationError,
    migrated_affinity,
    migrated_plugins,
    plugin_of,
)

Obj = TypeVar("Obj", bound=KubeObject)


class BindingFailed(Exception):  # noqa: N818 - says what happened
    """The volumes cannot be bound; the pod must be scheduled again."""


class _Binding:
    """A volume to be bound to a claim. `dirty`: the volume does not say so yet."""

    __slots__ = ("claim", "dirty", "volume")

    def __init__(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        self.volume, self.dirty = _bound_to(volume, claim)
        self.claim = claim


class _Provision:
    """A claim to be provisioned on the chosen node."""

    __slots__ = ("claim", "dirty")

    def __init__(self, claim: PersistentVolumeClaim, node_name: str) -> None:
        self.dirty = claim.metadata.annotations.get(SELECTED_NODE) != node_name
        self.claim = _annotated(claim, SELECTED_NODE, node_name) if self.dirty else claim


class PodBinding:
    """The volumes of one pod on its chosen node, from Reserve until they are bound or given up."""

    def __init__(
        self,
        handle: Handle,
        volumes: Assumed[PersistentVolume],
        claims: Assumed[PersistentVolumeClaim],
        decision: Decision,
        node_name: str,
    ) -> None:
        self._handle = handle
        self._assumed_volumes = volumes
        self._assumed_claims = claims
        self._node_name = node_name
        self._bindings = [_Binding(volume, claim) for volume, claim in decision.bindings]
        self._provisions = [_Provision(claim, node_name) for claim in decision.provisions]

    # ---- in memory

    def assume(self) -> None:
        """Let the next pods see the volumes as taken, before the API server knows."""
        listers = self._handle.listers
        for binding in self._bindings:
            if binding.dirty:
                self._assumed_volumes.assume(listers, binding.volume)
        for provision in self._provisions:
            if provision.dirty:
                self._assumed_claims.assume(listers, provision.claim)

    def revert(self) -> None:
        """Take back what was assumed and not written; what was written stays, as the API has no undo."""
        for binding in self._bindings:
            if binding.dirty:
                self._assumed_volumes.restore(binding.volume)
        for provision in self._provisions:
            if provision.dirty:
                self._assumed_claims.restore(provision.claim)

    # ---- in the cluster

    async def write(self, client: Client) -> None:
        """Write the decision for the volume controllers: first volumes, then claims."""
        for binding in self._bindings:
            if binding.dirty:
                await client.patch(binding.volume, _binding_patch(binding))
                binding.dirty = False
        for provision in self._provisions:
            if provision.dirty:
                patch = _patch(provision.claim, SELECTED_NODE, self._node_name)
                await client.patch(provision.claim, patch)
                provision.dirty = False

    async def wait(self, client: Client, pod: PodInfo, timeout: float) -> None:
        """Until all claims are bound. Raises BindingFailed when that will not happen, or takes too long."""
        if not await client.wait_until(lambda: self._finished(pod), timeout):
            raise BindingFailed("context deadline exceeded")

    def _finished(self, pod: PodInfo) -> bool:
        node = self._handle.snapshot.node(self._node_name)
        if node is None:
            missing = not_found("node", self._node_name)
            raise BindingFailed(f'failed to get node "{self._node_name}": {missing}')
        if all(other.uid != pod.uid for other in node.pods):
            raise BindingFailed(f"pod does not exist any more: {not_found('pod', pod.name)}")
        return all(self._is_bound(each, node) for each in self._bindings) and all(
            self._is_provisioned(each, node) for each in self._provisions
        )

    def _is_bound(self, binding: _Binding, node: NodeInfo) -> bool:
        listers, name = self._handle.listers, binding.volume.name
        volume = listers.get(PersistentVolume, name)
        if volume is None:
            missing = not_found("persistentvolumes", name)
            raise BindingFailed(f"failed to check binding: {missing}")
        claim = self._claim(binding.claim, "failed to check binding")
        if self._assumed_volumes.get(listers, name) is not volume:
            return False  # the write, ours or another pod's, has not come back yet
        self._check_affinity(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingFailed(f'ClaimRef got reset for pv "{volume.name}"')
        return fully_bound(claim)

    def _is_provisioned(self, provision: _Provision, node: NodeInfo) -> bool:
        listers = self._handle.listers
        claim = self._claim(provision.claim, "failed to check provisioning pvc")
        if self._assumed_claims.get(listers, claim.name, claim.namespace) is not claim:
            return False
        if not claim.metadata.annotations:
            raise BindingFailed(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != self._node_name:
            # This is how a provisioner says that it failed and another node should be tried.
            raise BindingFailed(f'provisioning failed for PVC "{claim.name}"')
        if claim.spec.volume_name:
            volume = listers.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                return False  # not seen yet; if it was deleted, the claim will lose its binding
            self._check_affinity(volume, node)
        return fully_bound(claim)

    def _claim(self, claim: PersistentVolumeClaim, doing: str) -> PersistentVolumeClaim:
        seen = self._handle.listers.get(PersistentVolumeClaim, claim.name, claim.namespace)
        if seen is None:
            raise BindingFailed(f"{doing}: {not_found('persistentvolumeclaims', claim.key)}")
        return seen

    def _check_affinity(self, volume: PersistentVolume, node: NodeInfo) -> None:
        """The volume may have got another affinity, or the node other labels, since it was chosen."""
        affinity = volume.spec.node_affinity
        plugin = plugin_of(volume.spec)
        csi_node = self._handle.listers.get(CSINode, node.name)
        on_csi = [] if csi_node is None else migrated_plugins(csi_node)
        if plugin is not None and plugin.migrated and plugin.name in on_csi:
            try:
                affinity = migrated_affinity(volume, plugin)
            except MigrationError as error:
                doing = "failed to translate pv to csi: could not translate pv"
                raise BindingFailed(f"{doing}: {error}") from error
        selectors = compile_affinity(affinity)
        if selectors is not None and not any(selector.matches(node.labels) for selector in selectors):
            problem = "no matching NodeSelectorTerms"
            raise BindingFailed(
                f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}": {problem}'
            )


def _bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, bool]:
    """Return the volume bound to the claim, and whether it had to be changed.

    A binding that was not requested in advance is marked as the scheduler's, so that the volume controller
    may revert it.
    """
    ref = ObjectReference(
        kind="PersistentVolumeClaim", namespace=claim.namespace, name=claim.name, uid=claim.uid
    )
    foreseen, current = is_bound_to(volume, claim), volume.spec.claim_ref
    if foreseen and current is not None and current.uid == claim.uid:
        return volume, False
    spec = msgspec.structs.replace(volume.spec, claim_ref=ref)
    bound = msgspec.structs.replace(volume, spec=spec)
    if foreseen or BOUND_BY_CONTROLLER in bound.metadata.annotations:
        return bound, True
    return _annotated(bound, BOUND_BY_CONTROLLER, "yes"), True


def _annotated(obj: Obj, key: str, value: str) -> Obj:
    annotations = {**obj.metadata.annotations, key: value}
    metadata = msgspec.structs.replace(obj.metadata, annotations=annotations)
    return msgspec.structs.replace(obj, metadata=metadata)


def _binding_patch(binding: _Binding) -> dict[str, Any]:
    mark = binding.volume.metadata.annotations.get(BOUND_BY_CONTROLLER)
    patch = _patch(binding.volume, BOUND_BY_CONTROLLER, mark)
    claim = binding.claim
    patch["spec"] = {
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        }
    }
    if claim.metadata.resource_version:
        patch["spec"]["claimRef"]["resourceVersion"] = claim.metadata.resource_version
    return patch


def _patch(obj: KubeObject, annotation: str, value: str | None) -> dict[str, Any]:
    """A patch that applies only to the version of the object that the decision was made for."""
    metadata: dict[str, Any] = {}
    if value is not None:
        metadata["annotations"] = {annotation: value}
    if obj.metadata.resource_version:
        metadata["resourceVersion"] = obj.metadata.resource_version
    return {"metadata": metadata} if metadata else {}
