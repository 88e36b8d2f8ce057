"""Devices for scheduler_perf's workloads: slices of a driver, and claims that are allocated without pods."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from mooring.api.meta import ObjectMeta
from mooring.api.objects import Node, Pod, PodResourceClaim, PodSpec
from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler


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
        current = scheduler.store.get(ResourceClaim, claim.name, claim.namespace)
        if current is None or current.status.allocation is None:
            raise ValueError(f"allocResourceClaims: no device for claim {i + 1} of {len(claims)}")
        memory.delete(memory.pods[pod.uid])
        free = msgspec.structs.replace(
            current, status=msgspec.structs.replace(current.status, reserved_for=[])
        )
        memory.apply(free)
        allocated.append(free)
    return allocated
