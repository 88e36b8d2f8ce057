"""Pods whose resources change while they run."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.kinds import NODES, PODS
from mooring.client.api_errors import ApiError
from mooring.client.port import PatchType
from mooring.sandbox.programs import volume
from tests.sandbox.kubelet.kit import Nodes, condition, node, play

Tree = dict[str, Any]
CGROUPS = {"name": "cgroups", "hostPath": {"path": "/sys/fs/cgroup"}}


def main(requests: Tree, limits: Tree | None = None, **fields: Any) -> Tree:
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    return {"name": "main", "image": "busybox", "command": ["sleep", "1d"], "resources": resources, **fields}


async def resize(
    stage: Nodes, requests: Tree, limits: Tree | None = None, name: str = "web", wait: float = 1
) -> Tree:
    """Ask for other resources, and return the pod a while later."""
    spec = {"containers": [{"name": "main", "resources": main(requests, limits)["resources"]}]}
    await stage.cluster.patch(
        PODS, name, {"spec": spec}, "default", kind=PatchType.STRATEGIC, subresource="resize"
    )
    await stage.advance(wait)
    return await stage.get("pods", name)


def container(pod: Tree) -> Tree:
    status: Tree = pod["status"]["containerStatuses"][0]
    return status


def execute(stage: Nodes, pod: Tree, script: str) -> str:
    """Run a script in a pod, and return what it prints."""
    outcome = stage.server.api.containers.execute(
        pod["metadata"]["uid"], "main", ["sh", "-c", script], None, is_dry=False
    )
    assert outcome is not None
    return "".join(text for _, text in outcome.output)


def test_resources_are_allocated_first_and_then_given() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[main({"cpu": "1"})])
        pod = await resize(stage, {"cpu": "2"}, wait=0.001)
        assert condition(pod, "PodResizeInProgress")["status"] == "True"
        assert condition(pod, "PodResizeInProgress")["observedGeneration"] == 2
        assert container(pod)["allocatedResources"] == {"cpu": "2"}
        assert container(pod)["resources"] == {"requests": {"cpu": "1"}}
        await stage.advance(1)
        pod = await stage.get("pods", "web")
        assert not condition(pod, "PodResizeInProgress")
        assert container(pod)["resources"] == {"requests": {"cpu": "2"}}
        assert container(pod)["restartCount"] == 0
        assert pod["status"]["allocatedResources"] == {"cpu": "2"}
        assert pod["status"]["resources"] == {"requests": {"cpu": "2"}}
        events = {each.reason: each.message for each in await stage.events()}
        asked = '{"containers":[{"name":"main","resources":{"requests":{"cpu":"2"}}}],"generation":2}'
        assert events["ResizeStarted"] == f"Pod resize started: {asked}"
        assert events["ResizeCompleted"] == f"Pod resize completed: {asked}"

    play(scene)


def test_a_resize_that_a_node_has_no_room_for_waits() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[main({"cpu": "1"})])
        await stage.run_pod("other", cpu="2")
        with pytest.raises(ApiError, match="allocatable resources: cpu, requested: 5000, allocatable: 4000"):
            await resize(stage, {"cpu": "5"})
        deferred = await resize(stage, {"cpu": "3"})
        assert condition(deferred, "PodResizePending")["reason"] == "Deferred"
        assert container(deferred)["allocatedResources"] == {"cpu": "1"}
        await stage.delete("pods", "other")
        await stage.advance(1)
        pod = await stage.get("pods", "web")
        assert container(pod)["allocatedResources"] == {"cpu": "3"}
        assert not condition(pod, "PodResizePending")
        message = next(one.message for one in await stage.events() if one.reason == "ResizeDeferred")
        assert message.startswith('Pod resize Deferred: {"containers":[')
        assert message.endswith('"generation":2,"error":"Node didn\'t have enough resource: cpu, '
                                'requested: 3000, used: 2000, capacity: 4000"}')  # fmt: skip

    play(scene, nodes=[node(cpu="4")])


def test_a_resize_is_infeasible_on_a_node_that_has_become_too_small() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[main({"cpu": "1"})])
        await stage.end()
        await resize(stage, {"cpu": "4"})
        status = {"status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"}}}
        await stage.cluster.patch(NODES, "node-1", status, kind=PatchType.MERGE, subresource="status")
        stage.begin()
        await stage.advance(1)
        pod = await stage.get("pods", "web")
        assert condition(pod, "PodResizePending")["reason"] == "Infeasible"
        assert container(pod)["resources"] == {"requests": {"cpu": "1"}}
        assert "ResizeInfeasible" in await stage.reasons()

    play(scene, nodes=[node(cpu="4")])


def test_the_room_that_a_pod_leaves_is_given_by_priority_and_makes_more() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                            "metadata": {"name": "high"}, "value": 10})  # fmt: skip
        for name in ("low", "leaving"):
            await stage.run_pod(name, containers=[main({"cpu": "1", "memory": "2Gi"})])
        await stage.run_pod(
            "high", containers=[main({"cpu": "1", "memory": "2Gi"})], priorityClassName="high"
        )
        await stage.run_pod("swap", containers=[main({"cpu": "1", "memory": "2Gi"})])
        await resize(stage, {"cpu": "2", "memory": "2Gi"}, name="low")
        await resize(stage, {"cpu": "2", "memory": "2Gi"}, name="high")
        await resize(stage, {"cpu": "500m", "memory": "4Gi"}, name="swap")
        await stage.delete("pods", "leaving")
        await stage.advance(2)
        given = {name: container(await stage.get("pods", name))["resources"]["requests"]
                 for name in ("low", "high", "swap")}  # fmt: skip
        assert given["high"]["cpu"] == "2"
        assert given["swap"] == {"cpu": "500m", "memory": "4Gi"}
        assert given["low"]["cpu"] == "1"

    play(scene, nodes=[node(cpu="4", memory="8Gi")])


def test_a_resize_restarts_containers_whose_policy_says_so() -> None:
    async def scene(stage: Nodes) -> None:
        policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        await stage.run_pod(containers=[main({"cpu": "1", "memory": "1Gi"}, resizePolicy=policy)])
        status = container(await resize(stage, {"cpu": "1", "memory": "2Gi"}))
        assert status["restartCount"] == 0
        status = container(await resize(stage, {"cpu": "2", "memory": "2Gi"}))
        assert status["restartCount"] == 1
        assert "running" in status["state"]
        assert "Killing" in await stage.reasons()

    play(scene)


def test_a_container_is_not_given_less_memory_than_it_uses() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[main({"memory": "40Mi"}, {"memory": "40Mi"})])
        pod = await resize(stage, {"memory": "10Mi"}, {"memory": "10Mi"})
        problem = condition(pod, "PodResizeInProgress")
        assert problem["reason"] == "Error"
        assert "memory limit (10485760) below current usage (20971520)" in problem["message"]
        assert container(pod)["resources"]["limits"] == {"memory": "40Mi"}
        assert container(pod)["allocatedResources"] == {"memory": "10Mi"}
        pod = await resize(stage, {"memory": "30Mi"}, {"memory": "30Mi"})
        assert not condition(pod, "PodResizeInProgress")
        assert container(pod)["resources"]["limits"] == {"memory": "30Mi"}
        assert "ResizeError" in await stage.reasons()

    play(scene)


def test_cgroup_files_follow_a_resize() -> None:
    read = "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu.weight /sys/fs/cgroup/memory.max"

    async def scene(stage: Nodes) -> None:
        mount = [{"name": "cgroups", "mountPath": "/host"}]
        spec = main({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}, volumeMounts=mount)
        pod = await stage.run_pod(containers=[spec], volumes=[CGROUPS])
        assert execute(stage, pod, read) == "200000 100000\n100\n1073741824\n"
        assert execute(stage, pod, "cat /proc/1/oom_score_adj") == "875\n"
        await resize(stage, {"cpu": "20m"}, {"cpu": "30m", "memory": "1Gi"})
        assert execute(stage, pod, read) == "3000 100000\n6\n1073741824\n"
        uid = pod["metadata"]["uid"].replace("-", "_")
        folder = f"/host/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"
        assert execute(stage, pod, f"find /host -name '*{uid}*'") == f"{folder}\n"
        assert execute(stage, pod, f"head -n 1 {folder}/cpu.max") == "3000 100000\n"

    play(scene, nodes=[node(memory="8Gi")])


def test_resizes_without_end_leave_room_on_the_disk_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume, "MOST_HISTORY", 100_000)

    async def scene(stage: Nodes) -> None:
        mount = [{"name": "cgroups", "mountPath": "/host"}]
        resources = {"cpu": "100m"}
        pod = await stage.run_pod(
            containers=[main(resources, resources, volumeMounts=mount)], volumes=[CGROUPS]
        )
        await stage.advance(1)
        execute(stage, pod, "cat /sys/fs/cgroup/cpu.max")
        for number in range(60):
            resources = {"cpu": f"{101 + number}m"}
            await resize(stage, resources, resources)
        assert execute(stage, pod, "cat /sys/fs/cgroup/cpu.max") == "16000 100000\n"
        assert execute(stage, pod, "echo a > /host/a; cat /host/a") == "a\n"

    play(scene)


def test_limits_of_a_pod_stand_in_for_those_of_its_containers() -> None:
    async def scene(stage: Nodes) -> None:
        resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
        pod = await stage.run_pod(containers=[main({})], resources=resources)
        assert pod["status"]["resources"] == resources
        assert pod["status"]["allocatedResources"] == {"cpu": "1"}
        assert execute(stage, pod, "cat /sys/fs/cgroup/cpu.max") == "200000 100000\n"

    play(scene)


def test_a_resize_that_waits_is_remembered_by_the_next_process() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(containers=[main({"cpu": "1"})])
        await stage.run_pod("other", cpu="2")
        await resize(stage, {"cpu": "3"})
        await stage.end()
        stage.begin()
        await stage.advance(1)
        assert container(await stage.get("pods", "web"))["allocatedResources"] == {"cpu": "1"}
        await stage.delete("pods", "other")
        await stage.advance(2)
        assert container(await stage.get("pods", "web"))["resources"] == {"requests": {"cpu": "3"}}

    play(scene, nodes=[node(cpu="4")])
