"""A simulated provisioner for every StorageClass: its volumes store nothing.

It does what an external provisioner does for the driver that a class names: it makes a volume for a claim,
reachable from the node that the scheduler selected, and deletes it when it is released.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from mooring.api.kinds import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, TopologySelectorTerm
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.volume_matching import (
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    class_of,
)

DELAY = 1.0  # seconds that a volume takes to be made, and to be deleted
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"

Topology = dict[str, list[str]]
"""Labels of nodes, and the values from which a volume can be reached."""


class ProvisioningError(Exception):
    """Why there is no volume for a claim."""


class Provisioner(Controller):
    """In the queue are claims ("claim/NAMESPACE/NAME") and volumes ("volume/NAME")."""

    name = "simulated-provisioner"

    def __init__(self, context: Context, delay: float = DELAY) -> None:
        super().__init__(context)
        self._delay = delay
        self._begun: dict[str, float] = {}  # by the uid of the claim or volume
        self._claims = self.cache.follow(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = self.cache.follow(PERSISTENT_VOLUMES)
        self._classes = self.cache.follow(STORAGE_CLASSES)
        self._nodes = self.cache.follow(NODES)
        self._claims.subscribe(self._claim_changed)
        self._volumes.subscribe(self._volume_changed)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None and _is_waiting(new):
            self.enqueue(f"claim/{new.key}")
        elif self._begun:
            claim = old if new is None else new
            assert claim is not None
            self._begun.pop(claim.uid, None)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None and _is_due(new):
            self.enqueue(f"volume/{new.name}")
        elif old is not None and new is None:
            self._begun.pop(old.uid, None)

    async def sync(self, key: str) -> None:
        what, _, name = key.partition("/")
        if what == "volume":
            volume = self._volumes.get(name)
            if volume is not None and _is_due(volume) and self._is_time(key, volume.uid):
                await self.delete(self._volumes, volume)
            return
        claim = self._claims.get(name)
        if claim is None or not _is_waiting(claim):
            return
        storage_class = self._classes.get(class_of(claim))
        annotations = claim.metadata.annotations
        if storage_class is None or storage_class.provisioner != annotations[STORAGE_PROVISIONER]:
            return
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER and SELECTED_NODE not in annotations:
            return
        if claim.uid not in self._begun:
            note = f'External provisioner is provisioning volume for claim "{claim.key}"'
            self.event(self._claims, claim, "Normal", "Provisioning", note)
        if self._is_time(key, claim.uid):
            await self._provision(claim, storage_class)

    def _is_time(self, key: str, uid: str) -> bool:
        """Whether something has taken as long as it takes; else it is looked at again when it has."""
        left = self._begun.setdefault(uid, self.context.clock()) + self._delay - self.context.clock()
        if left > 0:
            self.enqueue(key, left)
        return left <= 0

    async def _provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> None:
        try:
            topology = self._topology(claim, storage_class)
        except ProvisioningError as error:
            await self._give_up(claim, storage_class, str(error))
            return
        body = _volume(claim, storage_class, topology)
        try:
            await self.create(self._volumes, body)
        except ApiError as refusal:
            if not refusal.conflict:  # else we made it before, and forgot
                raise
        self._begun.pop(claim.uid, None)
        note = f"Successfully provisioned volume {body['metadata']['name']}"
        self.event(self._claims, claim, "Normal", "ProvisioningSucceeded", note)

    async def _give_up(self, claim: PersistentVolumeClaim, storage_class: StorageClass, why: str) -> None:
        """Have the scheduler select another node."""
        self._begun.pop(claim.uid, None)
        note = f'failed to provision volume with StorageClass "{storage_class.name}": {why}'
        self.event(self._claims, claim, "Warning", "ProvisioningFailed", note)
        if SELECTED_NODE in claim.metadata.annotations:
            version = claim.metadata.resource_version
            patch = {"metadata": {"annotations": {SELECTED_NODE: None}, "resourceVersion": version}}
            written = await self.cluster.patch(PERSISTENT_VOLUME_CLAIMS, claim.name, patch, claim.namespace)
            self._claims.wrote(written)

    # ---- where a volume is

    def _topology(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Topology:
        """Where the volume of a claim can be reached from: the place of the selected node, else one of those
        there are, another for each claim."""
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        allowed = storage_class.allowed_topologies
        if selected is not None:
            node = self._nodes.get(selected)
            if node is None:
                raise ProvisioningError(f'error getting target node: node "{selected}" not found')
            if not allowed:
                return _segment(node.metadata.labels, (REGION, ZONE))
            for term in allowed:
                if _is_within(node.metadata.labels, term):
                    keys = (one.key for one in term.match_label_expressions)
                    return _segment(node.metadata.labels, keys)
            raise ProvisioningError(f'node "{selected}" is in none of the allowed topologies')
        if allowed:
            places = [{one.key: one.values for one in term.match_label_expressions} for term in allowed]
        else:
            segments = (_segment(node.metadata.labels, (REGION, ZONE)) for node in self._nodes)
            places = sorted({str(one): one for one in segments}.values(), key=str) or [{}]
        place = places[zlib.crc32(claim.key.encode()) % len(places)]
        return {key: [values[zlib.crc32(claim.key.encode()) % len(values)]] for key, values in place.items()}


def _segment(labels: Mapping[str, str], keys: Iterable[str]) -> Topology:
    return {key: [labels[key]] for key in keys if key in labels}


def _is_within(labels: Mapping[str, str], term: TopologySelectorTerm) -> bool:
    return all(labels.get(one.key) in one.values for one in term.match_label_expressions)


def _is_waiting(claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is to be made for a claim."""
    meta = claim.metadata
    return (
        STORAGE_PROVISIONER in meta.annotations
        and not claim.spec.volume_name
        and meta.deletion_timestamp is None
    )


def _is_due(volume: PersistentVolume) -> bool:
    """Whether a volume is to be deleted."""
    return (
        volume.status.phase == "Released"
        and volume.spec.persistent_volume_reclaim_policy == "Delete"
        and volume.metadata.deletion_timestamp is None
    )


def _volume(claim: PersistentVolumeClaim, storage_class: StorageClass, topology: Topology) -> dict[str, Any]:
    name = f"pvc-{claim.uid}"
    spec: dict[str, Any] = {
        "capacity": {"storage": claim.spec.resources.requests.get("storage", "0")},
        "accessModes": claim.spec.access_modes,
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.metadata.resource_version,
        },
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
        "storageClassName": storage_class.name,
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "csi": {"driver": storage_class.provisioner, "volumeHandle": name},
    }
    if storage_class.mount_options:
        spec["mountOptions"] = storage_class.mount_options
    if claim.spec.volume_attributes_class_name:
        spec["volumeAttributesClassName"] = claim.spec.volume_attributes_class_name
    if topology:
        expressions = [{"key": key, "operator": "In", "values": values} for key, values in topology.items()]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    annotations = {PROVISIONED_BY: storage_class.provisioner}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }
