"""Devices for scheduler_perf's workloads: slices of a driver, and claims that are allocated without pods."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from mooring.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from mooring.api.meta import ObjectMeta
from mooring.api.objects import Node, Pod, PodResourceClaim, PodSpec
from mooring.client.controller import Context, Controller
from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler

CLAIM = "claim:"  # before the keys of claims in the controller's queue
FINALIZER = "resource.kubernetes.io/delete-protection"


def device_slice(driver: str, node: str, devices: int) -> dict[str, Any]:
    """The slice of one node."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "resourceSliceCount": 1, "generation": 0},
            "devices": [
                {
                    "name": f"instance-{i}",
                    "attributes": {
                        "model": {"string": "A100"},
                        "family": {"string": "GPU"},
                        "driverVersion": {"version": "1.2.3"},
                        "dra.example.com/numa": {"int": i},
                    },
                    "capacity": {"memory": {"value": "1Gi"}},
                }
                for i in range(devices)
            ],
        },
    }


def allocate_claims(
    nodes: Sequence[Node],
    slices: Sequence[ResourceSlice],
    classes: Sequence[DeviceClass],
    claims: Sequence[ResourceClaim],
    others: Sequence[ResourceClaim],
    source: random.Random,
) -> list[ResourceClaim]:
    """Allocate claims one by one with the scheduler's allocator, on nodes drawn at random. `others` have
    their devices already. Raises ValueError where a claim finds none.

    A pod that requests nothing else is scheduled in memory for each claim, and then forgotten: all nodes
    with a free device score alike, so that the choice among them is random.
    """
    scheduler = Scheduler(
        LoadedConfig(default_config()), clock=lambda: 0.0, pick=source.randrange, registry=registry_with()
    )
    memory = MemoryCluster(scheduler)
    for obj in (*nodes, *classes, *slices, *others, *claims):
        memory.apply(obj)
    allocated = []
    for i, claim in enumerate(claims):
        pod = Pod(
            metadata=ObjectMeta(name=f"claimant-{i}", namespace=claim.namespace, uid=f"claimant-{i}"),
            spec=PodSpec(resource_claims=[PodResourceClaim(name="devices", resource_claim_name=claim.name)]),
        )
        memory.apply(pod)
        memory.run()
        found = scheduler.store.get(ResourceClaim, claim.name, claim.namespace)
        if found is None or found.status.allocation is None:
            raise ValueError(f"allocResourceClaims: no device for claim {i + 1} of {len(claims)}")
        memory.delete(memory.pods[pod.uid])
        free = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, reserved_for=[]))
        memory.apply(free)
        allocated.append(free)
    return allocated


class TemplatedClaims(Controller):
    """Creates the claims that pods name templates for, and frees the devices of claims that no pod uses."""

    name = "resource-claim-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims = self.cache.follow(RESOURCE_CLAIMS)
        self._claims.subscribe(self._claim_changed)
        self._pods = self.cache.follow(PODS)
        self._pods.subscribe(self._pod_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None:
            for status in old.status.resource_claim_statuses:
                if status.resource_claim_name:
                    self.enqueue(f"{CLAIM}{old.namespace}/{status.resource_claim_name}")
            for entry in old.spec.resource_claims:
                if entry.resource_claim_name:
                    self.enqueue(f"{CLAIM}{old.namespace}/{entry.resource_claim_name}")
        elif new is not None and old is None and _templates(new):
            self.enqueue(new.key)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None and new.metadata.deletion_timestamp is not None:
            self.enqueue(f"{CLAIM}{new.key}")

    async def sync(self, key: str) -> None:
        if key.startswith(CLAIM):
            await self._free(key.removeprefix(CLAIM))
            return
        pod = self._pods.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None or not _templates(pod):
            return
        statuses = []
        for entry, template in _templates(pod).items():
            claim = await self._create_claim(pod, entry, template)
            statuses.append({"name": entry, "resourceClaimName": claim.name})
        patch = {"metadata": {"uid": pod.uid}, "status": {"resourceClaimStatuses": statuses}}
        await self.cluster.patch(PODS, pod.name, patch, pod.namespace, subresource="status")

    async def _free(self, key: str) -> None:
        """Remove pods that are gone from a claim, and its allocation and finalizer with the last one."""
        claim = self._claims.get(key)
        if claim is None:
            return
        pods = {pod.uid for pod in self._pods.in_namespace(claim.namespace)}
        users = [user for user in claim.status.reserved_for if user.uid in pods]
        where = claim.name, claim.namespace
        version = {"resourceVersion": claim.metadata.resource_version}
        if len(users) < len(claim.status.reserved_for):
            status: dict[str, Any] = {"reservedFor": [msgspec.to_builtins(user) for user in users] or None}
            if not users:
                status["allocation"] = None
            patch = {"metadata": version, "status": status}
            claim = await self.cluster.patch(RESOURCE_CLAIMS, where[0], patch, where[1], subresource="status")
            version = {"resourceVersion": claim.metadata.resource_version}
        if not users and claim.status.allocation is None and FINALIZER in claim.metadata.finalizers:
            kept = [each for each in claim.metadata.finalizers if each != FINALIZER]
            body = {"metadata": {**version, "finalizers": kept or None}}
            await self.cluster.patch(RESOURCE_CLAIMS, where[0], body, where[1])

    async def _create_claim(self, pod: Pod, entry: str, template_name: str) -> ResourceClaim:
        template = await self.cluster.get(RESOURCE_CLAIM_TEMPLATES, template_name, pod.namespace)
        owner = {
            "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid,
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "generateName": f"{pod.name}-{entry}-",
                "annotations": {"resource.kubernetes.io/pod-claim-name": entry},
                "ownerReferences": [owner],
            },
            "spec": msgspec.to_builtins(template.spec.spec),
        }
        return await self.cluster.create(RESOURCE_CLAIMS, body, pod.namespace)


def _templates(pod: Pod) -> dict[str, str]:
    """Template by entry, of entries for which no claim is there yet."""
    made = {status.name for status in pod.status.resource_claim_statuses}
    return {
        entry.name: entry.resource_claim_template_name
        for entry in pod.spec.resource_claims
        if entry.resource_claim_template_name and entry.name not in made
    }
