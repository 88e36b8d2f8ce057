"""What each feature gate of dynamic resource allocation switches off."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.devices import ResourceClaim
from mooring.api.meta import KubeObject
from mooring.core.decision import Decision
from mooring.core.memory import MemoryCluster
from tests.plugins.plugin_kit import make_node
from tests.plugins.test_dynamic_resources import (
    _object,
    claim_of,
    claiming,
    cluster_of,
    device_class,
    node_of,
    resource_slice,
)

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def claim(**request: Any) -> ResourceClaim:
    body = {"name": "gpu", **(request or {"exactly": {"deviceClassName": "gpu", "count": 1}})}
    meta = {"name": "gpu", "namespace": "default", "uid": "gpu", "resourceVersion": "1"}
    made = _object("ResourceClaim", meta, {"devices": {"requests": [body]}})
    assert isinstance(made, ResourceClaim)
    return made


def attempt(*objects: KubeObject, **gates: bool) -> tuple[MemoryCluster, str]:
    """Schedule a pod with the claim `gpu`; its node or the reason."""
    cluster = cluster_of(make_node("a"), device_class(), *objects, config={**CONFIG, "featureGates": gates})
    cluster.apply(claiming("train"))
    decisions: list[Decision] = []
    cluster.run(decisions.append)
    return cluster, node_of(cluster, "train") or decisions[0].message


TAINT = {"key": "broken", "effect": "NoSchedule"}
FAILED = "0/1 nodes are available: 1 cannot allocate all claims."


def test_taints() -> None:
    tainted = resource_slice("a", taints=[TAINT])
    assert attempt(tainted, claim())[1].startswith(FAILED)
    assert attempt(tainted, claim(), DRADeviceTaints=False)[1] == "a"


def test_binding_conditions() -> None:
    slow = resource_slice("a", bindingConditions=["ready"], bindingFailureConditions=["failed"])
    off = {"DRADeviceBindingConditions": False}
    assert attempt(slow, claim(), **off)[1].startswith(FAILED)
    cluster, node = attempt(resource_slice("a"), claim(), **off)
    allocation = claim_of(cluster).allocation
    assert node == "a"
    assert allocation is not None
    assert allocation.allocation_timestamp is None
    allocation = claim_of(attempt(resource_slice("a"), claim())[0]).allocation
    assert allocation is not None
    assert allocation.allocation_timestamp is not None


def test_consumable_capacity() -> None:
    shared = resource_slice("a", allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi"}})
    cluster, _ = attempt(shared, claim(), DRAConsumableCapacity=False)
    allocation = claim_of(cluster).allocation
    assert allocation is not None
    assert allocation.devices.results[0].share_id is None
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "1Gi"}}}
    assert attempt(shared, claim(exactly=exactly), DRAConsumableCapacity=False)[1] == (
        'running "DynamicResources" filter plugin: claim default/gpu, request gpu: '
        "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    )


def test_partitionable_devices() -> None:
    consumes = [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}]
    parts = resource_slice("a", consumesCounters=consumes)
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "set", "counters": {"slots": {"value": "1"}}}]
    spec = {"driver": "gpu.example.com", "nodeName": "a", "pool": pool}
    devices = _object(
        "ResourceSlice",
        {"name": "devices"},
        {**spec, "devices": [{"name": "part", "consumesCounters": consumes}]},
    )
    sets = _object("ResourceSlice", {"name": "sets"}, {**spec, "sharedCounters": counters})
    assert attempt(devices, sets, claim())[1] == "a"
    assert attempt(parts, claim(), DRAPartitionableDevices=False)[1].startswith(FAILED)


def test_prioritized_list() -> None:
    choice = claim(firstAvailable=[{"name": "any", "deviceClassName": "gpu", "count": 1}])
    assert attempt(resource_slice("a"), choice)[1] == "a"
    assert attempt(resource_slice("a"), choice, DRAPrioritizedList=False)[1].startswith(
        "0/1 nodes are available: resource claim default/gpu, request gpu: "
        "has subrequests, but the DRAPrioritizedList feature is disabled."
    )


@pytest.mark.parametrize(("enabled", "node"), [(True, "a"), (False, "")])
def test_extended_resource(enabled: bool, node: str) -> None:
    cluster = cluster_of(
        make_node("a"),
        device_class(),
        resource_slice("a"),
        config={**CONFIG, "featureGates": {"DRAExtendedResource": enabled}},
    )
    resource = "deviceclass.resource.kubernetes.io/gpu"
    pod = claiming("train", containers=[{"name": "main", "resources": {"requests": {resource: "1"}}}])
    pod.spec.resource_claims = []
    cluster.apply(pod)
    cluster.run()
    assert node_of(cluster, "train") == node
