"""Claims and devices on an API server: each pod has a claim of a template, as the resourceclaim controller
makes them, so that a run measures the scheduler alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from benchmarks import workloads
from benchmarks.api_server import LABELS, NAMESPACE, PODS, Api

ROWS = ("claim-template", "claim-selectors")
SELECTORS = 100
GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/{NAMESPACE}/resourceclaims"
CONCURRENCY = 64


async def publish_devices(api: Api, nodes: int) -> None:
    """Create a class, and a slice with devices for each node."""
    await api.create(f"{GROUP}/deviceclasses", _object("DeviceClass", "gpu", workloads.class_spec()))
    slices = (_object("ResourceSlice", f"node-{i:05d}-gpu", workloads.slice_spec(i)) for i in range(nodes))
    await api.create_all(f"{GROUP}/resourceslices", slices)


async def make_claims(api: Api, row: str) -> None:
    """Give each pod the claim that its template calls for, and name it in the pod's status."""
    pods = iter((await api.get(PODS))["items"])
    selectors = SELECTORS if row == "claim-selectors" else 1

    async def worker() -> None:
        for pod in pods:
            await _make_claim(api, pod["metadata"], selectors)

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(worker())


async def _make_claim(api: Api, pod: dict[str, Any], selectors: int) -> None:
    name = f"{pod['name']}-gpu"
    number = int(pod["name"].rpartition("-")[2])
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"], "controller": True}
    spec = workloads.claim_spec(1 + number % selectors)
    await api.create(CLAIMS, _object("ResourceClaim", name, spec, ownerReferences=[owner]))
    statuses = [{"name": "gpu", "resourceClaimName": name}]
    await api.patch(f"{PODS}/{pod['name']}/status", {"status": {"resourceClaimStatuses": statuses}})


def paths_to_clean() -> Iterable[str]:
    selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
    return [
        f"{path}?labelSelector={selector}"
        for path in (CLAIMS, f"{GROUP}/resourceslices", f"{GROUP}/deviceclasses")
    ]


def _object(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    metadata |= {"name": name, "labels": LABELS}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
