"""DaemonSets: as kube-controller-manager has them, and what its recordings do not show."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mooring.sandbox.controllers.daemon_set import DaemonSetController
from tests.sandbox.controllers.daemon_scenes import SCENES, change_node, node, nodes, play_scene, run, target
from tests.sandbox.controllers.kit import Embedded, play, template, workload
from tests.sandbox.controllers.set_journal import Journal

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("name", SCENES)
def test_as_kube_controller_manager(name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    assert play(partial(play_scene, name), DaemonSetController) == recorded


async def targets(stage: Embedded) -> list[str]:
    return sorted(target(pod) for pod in await stage.all("pods"))


def test_pods_are_made_for_their_nodes_and_tolerate_what_ails_them() -> None:
    async def scene(stage: Embedded) -> None:
        await nodes(stage, 1)
        own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
        preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        made = template("web", hostNetwork=True, affinity=affinity, tolerations=[own, {"operator": "Exists"}])
        await stage.create(workload("DaemonSet", "web", template=made))
        await stage.rest()
        (pod,) = await stage.all("pods")
        assert target(pod) == "default-0"
        assert pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        found = pod["spec"]["tolerations"]
        assert found.count(own) == 1
        keys = [each.get("key", "").removeprefix("node.kubernetes.io/") for each in found]
        assert keys[:3] == ["", "not-ready", "unreachable"]
        assert keys[3:6] == ["disk-pressure", "memory-pressure", "pid-pressure"]
        assert keys[6:] == ["unschedulable", "network-unavailable"]

    play(scene, DaemonSetController)


def test_nodes_that_come_get_a_pod_and_waiting_pods_go_with_their_node() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(workload("DaemonSet", "web"))
        await nodes(stage, 2)
        await stage.rest()
        assert await targets(stage) == ["default-0", "default-1"]
        await stage.delete("nodes", "default-1")
        await stage.rest()
        assert await targets(stage) == ["default-0"]
        status = (await stage.get("daemonsets", "web"))["status"]
        assert status["desiredNumberScheduled"] == 1

    play(scene, DaemonSetController)


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        ({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}, ["default-1"]),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["default-0"]}]},
         ["default-1", "default-2"]),
        ({"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}, ["default-0", "default-2"]),
    ],
)  # fmt: skip
def test_required_node_affinity_decides(affinity: dict[str, Any], expected: list[str]) -> None:
    async def scene(stage: Embedded) -> None:
        await nodes(stage, 3)
        await change_node(stage, 1, {"metadata": {"labels": {"disk": "ssd"}}})
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [affinity]}}
        made = template("web", affinity={"nodeAffinity": required})
        await stage.create(workload("DaemonSet", "web", template=made))
        await stage.rest()
        assert await targets(stage) == expected

    play(scene, DaemonSetController)


def test_pods_that_fail_again_and_again_are_replaced_less_and_less_often() -> None:
    async def scene(stage: Embedded) -> None:
        await nodes(stage, 1)
        await stage.create(workload("DaemonSet", "web"))
        await stage.rest()
        replaced: list[float] = []
        while len(replaced) < 6:
            (pod,) = await stage.all("pods")
            await stage.end_pod(pod["metadata"]["name"], "Failed")
            while pod["metadata"]["name"] in [each["metadata"]["name"] for each in await stage.all("pods")]:
                await stage.advance(0.25)
            replaced.append(stage.now())
            await stage.rest()
        assert [round(later - earlier) for earlier, later in pairwise(replaced)] == [1, 2, 4, 8, 16]

    play(scene, DaemonSetController)


def test_min_ready_seconds_pass_before_a_pod_is_available() -> None:
    async def scene(stage: Embedded) -> None:
        await nodes(stage, 1)
        await stage.create(workload("DaemonSet", "web", minReadySeconds=30))
        await run(stage, Journal(stage, "daemonsets"), "")
        await stage.rest()
        await run(stage, Journal(stage, "daemonsets"), "")
        status = (await stage.get("daemonsets", "web"))["status"]
        assert (status["numberReady"], status.get("numberAvailable", 0)) == (1, 0)
        await stage.advance(31)
        assert (await stage.get("daemonsets", "web"))["status"]["numberAvailable"] == 1

    play(scene, DaemonSetController)


def test_unschedulable_nodes_have_daemons_too() -> None:
    async def scene(stage: Embedded) -> None:
        await node(stage, 0, unschedulable=True)
        await stage.create(workload("DaemonSet", "web"))
        await stage.rest()
        assert await targets(stage) == ["default-0"]

    play(scene, DaemonSetController)
