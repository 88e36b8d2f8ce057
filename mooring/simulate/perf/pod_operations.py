"""Pods: createPods once or in a steady state, and deletePods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from mooring.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError
from mooring.simulate.perf.measuring import matches
from mooring.simulate.perf.suite import CreatePods, DeletePods
from mooring.simulate.perf.templates import POD, Template
from mooring.simulate.perf.waiting import PodWaits
from mooring.simulate.perf.workspace import WorkloadError, Workspace, parallel
from mooring.simulate.units import parse_span

BATCH = 1.0  # virtual seconds that a batch of a steady state takes, since scheduling itself takes none


async def create_pods(space: Workspace, waits: PodWaits, namespace: str, operation: CreatePods) -> None:
    await space.namespace(namespace)
    path = operation.pod_template_path or space.run.default_pod_template
    make = _pod_maker(space, operation, space.template(path, POD), namespace)
    if operation.steady_state:
        await _steadily(space, waits, operation, namespace, make)
    else:
        await parallel(operation.count, make)
        if operation.skip_wait_to_completion:
            space.expected[namespace] += operation.count
        else:
            await waits.wait(namespace, {}, operation.count, attempted=False)


def _pod_maker(
    space: Workspace, operation: CreatePods, template: Template, namespace: str
) -> Callable[[int], Awaitable[None]]:
    volume_path = operation.persistent_volume_template_path
    claim_path = operation.persistent_volume_claim_template_path
    count = operation.count

    async def make(i: int) -> None:
        pod = template.object(i, count)
        if claim_path:
            claim = space.template(claim_path, render=False).object()
            volume = space.template(volume_path, render=False).object()
            await _create_volume(space, i, namespace, claim, volume)
            used = {"name": "vol", "persistentVolumeClaim": {"claimName": f"pvc-{i}"}}
            pod["spec"]["volumes"] = [used]
        await space.create(PODS, pod, namespace)

    return make


async def _create_volume(
    space: Workspace, i: int, namespace: str, claim: dict[str, Any], volume: dict[str, Any]
) -> None:
    """A claim and a volume that are bound to each other."""
    claim_name, name = f"pvc-{i}", f"{namespace}-vol-{i}"
    claim["metadata"]["name"], volume["metadata"]["name"] = claim_name, name
    claim["spec"]["volumeName"], claim["status"] = name, {"phase": "Bound"}
    spec = volume["spec"]
    spec["claimRef"] = {
        "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim_name, "apiVersion": "v1",
    }  # fmt: skip
    if spec.get("csi"):
        spec["csi"]["volumeHandle"] = name
    elif spec.get("awsElasticBlockStore"):
        spec["awsElasticBlockStore"]["volumeID"] = f"vol-{i}"
    volume["status"] = {"phase": "Bound"}
    await space.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
    await space.api.update(PERSISTENT_VOLUME_CLAIMS, claim_name, claim, namespace, "status")
    await space.create(PERSISTENT_VOLUMES, volume)
    await space.api.update(PERSISTENT_VOLUMES, name, volume, "", "status")


async def _steadily(
    space: Workspace,
    waits: PodWaits,
    operation: CreatePods,
    namespace: str,
    make: Callable[[int], Awaitable[None]],
) -> None:
    """Create pods, delete them once all are scheduled, and so on until the time is over."""
    loop = asyncio.get_running_loop()
    end = loop.time() + parse_span(operation.duration)
    scheduled = 0
    while loop.time() < end:
        await parallel(operation.count, make)
        try:
            async with asyncio.timeout_at(end):
                await waits.wait(namespace, {}, operation.count, attempted=False)
                if space.bench.virtual:
                    await asyncio.sleep(BATCH)
        except TimeoutError:
            pass
        pods = space.bench.pods.in_namespace(namespace)
        scheduled += sum(bool(pod.spec.node_name) for pod in pods)
        await _delete_all(space, namespace, pods, grace=0)
    if not scheduled:
        raise WorkloadError("no pod was scheduled")


async def _delete_all(
    space: Workspace, namespace: str, pods: Sequence[Pod], grace: int | None = None
) -> None:
    async def delete(i: int) -> None:
        with suppress(ApiError):
            await space.api.delete(PODS, pods[i].name, namespace, grace_period_seconds=grace)

    await parallel(len(pods), delete)


async def delete_pods(space: Workspace, operation: DeletePods) -> None:
    namespace, rate = operation.namespace, operation.delete_pods_per_second
    chosen = [
        pod for pod in space.bench.pods.in_namespace(namespace) if matches(pod, operation.label_selector)
    ]

    async def work() -> None:
        if not rate:
            await _delete_all(space, namespace, chosen)
            return
        for pod in chosen:
            await asyncio.sleep(1 / rate)
            await _delete_all(space, namespace, [pod])

    if operation.skip_wait_to_completion:
        space.background.start("deletePods", work())
    else:
        await work()
