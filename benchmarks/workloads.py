"""The clusters and pods that the core benchmark schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject

ZONES = 10
BLUE = {"matchLabels": {"color": "blue"}}


def node(i: int, cpu: str = "32", pods: int = 256) -> KubeObject:
    return from_dict(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{i:05d}",
                "labels": {
                    "kubernetes.io/hostname": f"node-{i:05d}",
                    "topology.kubernetes.io/zone": f"zone-{i % ZONES}",
                    "topology.kubernetes.io/region": "r1",
                },
            },
            "status": {"allocatable": {"cpu": cpu, "memory": "128Gi", "pods": str(pods)}},
        }
    )


def pod(i: int, **spec: Any) -> dict[str, Any]:
    requests = spec.pop("requests", {"cpu": "100m", "memory": "500Mi"})
    labels = spec.pop("labels", {"app": "a", "color": "blue"})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{i:06d}", "namespace": "default", "uid": f"uid-{i:06d}", "labels": labels},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "pause", "image": "pause:3.10", "resources": {"requests": requests}}],
            **spec,
        },
    }


def one_shape(i: int) -> dict[str, Any]:
    return pod(i)


def owned(i: int) -> dict[str, Any]:
    """A replica of a ReplicaSet: the default topology spread constraints apply to it."""
    obj = pod(i)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": "rs-web",
        "controller": True,
    }
    obj["metadata"]["ownerReferences"] = [owner]
    return obj


def hundred_shapes(i: int) -> dict[str, Any]:
    return pod(i, requests={"cpu": f"{50 + i % 100}m", "memory": f"{200 + i % 100}Mi"})


def own_shape(i: int) -> dict[str, Any]:
    return pod(i, requests={"cpu": f"{50 + i % 97}m", "memory": f"{200 + i}Mi"})


def spread(when: str) -> Callable[[int], dict[str, Any]]:
    constraint = {
        "maxSkew": 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": when,
        "labelSelector": BLUE,
    }
    return lambda i: pod(i, topologySpreadConstraints=[constraint])


def affinity(kind: str, key: str, preferred: bool = False) -> Callable[[int], dict[str, Any]]:
    term: dict[str, Any] = {"labelSelector": BLUE, "topologyKey": key}
    if preferred:
        rules = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    else:
        rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return lambda i: pod(i, affinity={kind: rules})


def important(i: int) -> dict[str, Any]:
    """A pod that fits only where pods of lower priority make room."""
    return pod(i, requests={"cpu": "3", "memory": "500Mi"}, priority=100, labels={"app": "important"})


def filler(nodes: int, per_node: int, cpu: str) -> Iterator[KubeObject]:
    """Pods of low priority that fill every node."""
    for i in range(nodes * per_node):
        obj = pod(
            1_000_000 + i, requests={"cpu": cpu, "memory": "100Mi"}, labels={"app": "filler"}, priority=0
        )
        obj["spec"]["nodeName"] = f"node-{i % nodes:05d}"
        obj["status"] = {"phase": "Running", "startTime": f"2024-01-01T00:{i % 60:02d}:00Z"}
        yield from_dict(obj)


def bound(i: int, nodes: int, deployments: int) -> dict[str, Any]:
    """A running pod of one of many deployments, as an API server would give it."""
    app = f"app-{i % deployments}"
    obj = pod(i, labels={"app": app, "pod-template-hash": f"{i % deployments:08x}", "tier": "backend"})
    obj["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"rs-{app}", "controller": True}
    ]
    obj["spec"]["nodeName"] = f"node-{i % nodes:05d}"
    obj["spec"]["volumes"] = [{"name": f"kube-api-access-{i:06d}", "projected": {"sources": []}}]
    obj["spec"]["tolerations"] = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for key in ("not-ready", "unreachable")
    ]
    obj["status"] = {
        "phase": "Running",
        "startTime": "2024-01-01T00:00:00Z",
        "conditions": [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready", "Initialized")],
        "containerStatuses": [{"name": "pause", "ready": True, "restartCount": 0, "image": "pause"}],
    }
    return obj


REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "default", "uid": "rs-web"},
    "spec": {"selector": {"matchLabels": {"app": "a"}}},
}


# ---- devices

DRIVER = "gpu.example.com"
DEVICES = 8  # on each node


def claiming(i: int) -> dict[str, Any]:
    """A pod with a claim made of a template."""
    obj = pod(i, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    obj["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"pod-{i:06d}-gpu"}]}
    return obj


def devices(pods: int, selectors: int) -> Callable[[int], Iterator[KubeObject]]:
    """Nodes with devices, a class for them, and a claim for each pod with one of so many selectors."""

    def objects(nodes: int) -> Iterator[KubeObject]:
        yield _device_object("DeviceClass", {"name": "gpu"}, class_spec())
        for i in range(nodes):
            yield _device_object("ResourceSlice", {"name": f"node-{i:05d}-gpu"}, slice_spec(i))
        for i in range(pods):
            yield _claim(i, 1 + i % selectors)

    return objects


def class_spec() -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}


def slice_spec(i: int) -> dict[str, Any]:
    name = f"node-{i:05d}"
    return {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": f"gpu-{j}",
                "attributes": {
                    "model": {"string": "h200"},
                    "uuid": {"string": f"GPU-{i:05d}-{j}"},
                    "numa": {"int": j // 4},
                    "driverVersion": {"version": "570.1.0"},
                },
                "capacity": {"memory": {"value": "141Gi"}},
            }
            for j in range(DEVICES)
        ],
    }


def _claim(i: int, memory: int) -> KubeObject:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": f"pod-{i:06d}",
        "uid": f"uid-{i:06d}",
        "controller": True,
    }
    metadata = {
        "name": f"pod-{i:06d}-gpu",
        "namespace": "default",
        "uid": f"claim-{i:06d}",
        "resourceVersion": "1",
        "ownerReferences": [owner],
    }
    return _device_object("ResourceClaim", metadata, claim_spec(memory))


def claim_spec(memory: int) -> dict[str, Any]:
    """A claim for one device with so much memory, in Gi."""
    enough = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{memory}Gi")) >= 0'
    request = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": enough}}],
    }
    return {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}


def _device_object(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> KubeObject:
    return from_dict({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
