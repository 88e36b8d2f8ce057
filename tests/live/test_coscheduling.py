"""PodGroups of scheduler-plugins on a real API server, whose definition is installed late."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.sandbox.cluster.coscheduling import DEFINITION
from tests.live.cluster import TestCluster
from tests.live.replica import Replica, configuration, wait_for
from tests.live.scene import Scene

SCHEDULER = "coscheduler"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def scheduler(cluster: TestCluster, kubeconfig: Path) -> Iterator[Replica]:
    config: dict[str, Any] = configuration(kubeconfig, SCHEDULER)
    config["profiles"][0]["plugins"] = {
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    }
    args = {"permitWaitingTimeSeconds": 1}
    config["profiles"][0]["pluginConfig"] = [{"name": "Coscheduling", "args": args}]
    with Replica(cluster.folder, config) as replica:
        yield replica.ready()
        assert replica.end() == 0, replica.log


@pytest.fixture
def scene(cluster: TestCluster) -> Iterator[Scene]:
    made = Scene(cluster, "coscheduling", SCHEDULER)
    yield made
    made.clear()


def test_a_group_of_scheduler_plugins_starts_whole(scheduler: Replica, scene: Scene) -> None:
    scheduler.says("podgroups.scheduling.x-k8s.io are not served; waiting for their CustomResourceDefinition")
    scene.create(DEFINITIONS, DEFINITION)
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{scene.namespace}/podgroups"
    for name in ("a", "b"):
        scene.node(name, cpu="2")
    labels = {"scheduling.x-k8s.io/pod-group": "train"}
    for i in range(3):
        scene.pod(f"train-{i}", cpu="2", labels=labels)
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "train"}}
    wait_for(lambda: _create(scene, path, {**group, "spec": {"minMember": 3}}), "the definition is served")
    scene.refused("train-0", "PodGroup ")
    assert not any(scene.node_of(f"train-{i}") for i in range(3))
    assert scene.event("train", "ScheduleTimeout")["note"] == "no places for 3 pods within 1s; waiting"
    scene.node("c", cpu="2")
    assert len(set(scene.bound(*(f"train-{i}" for i in range(3))))) == 3


def _create(scene: Scene, path: str, body: dict[str, Any]) -> bool:
    try:
        scene.api.create(path, body)
    except Exception:  # not served yet
        return False
    return True
