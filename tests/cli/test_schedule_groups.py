"""`mooring schedule` with groups of both kinds, and what if there were other nodes or pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mooring.cli import main
from tests.cli.test_schedule import manifests
from tests.core.groups.group_kit import gang, gpu_nodes, gpu_pod

LACKS = (
    "7 of 8 members have a place; train-7 lacks 8 nvidia.com/gpu: "
    "n7 would do after default/web-3 leaves (4 of 8 nvidia.com/gpu free)"
)


@pytest.fixture
def train(tmp_path: Path) -> str:
    return write(tmp_path, *gpu_nodes(8), gpu_pod("web-3", gpus=4, nodeName="n7"), *gang("train", 8))


def write(folder: Path, *objects: dict[str, Any]) -> str:
    file = folder / "objects.yaml"
    file.write_text(manifests(*objects))
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["schedule", *arguments])


def groups(*arguments: str) -> list[dict[str, Any]]:
    result = run(*arguments, "-o", "json")
    assert result.exit_code == 0, result.stderr
    listed: list[dict[str, Any]] = json.loads(result.stdout)["groups"]
    return listed


def test_groups_are_listed_after_the_pods(train: str) -> None:
    lines = run("-f", train).stdout.splitlines()
    assert lines[-2:] == ["GROUP          STATE    WHY", f"default/train  pending  {LACKS}"]
    assert "0 of 8 pods scheduled on 8 nodes, 1 already had a node" in lines


@pytest.mark.parametrize("change", [("--add-node", "n0"), ("--without", "web-3"), ("--add-node", "n7=2")])
def test_what_if(train: str, change: tuple[str, str]) -> None:
    [group] = groups("-f", train, *change)
    assert (group["state"], group["scheduled"]) == ("scheduled", 8)
    assert group["why"] == "8 of 8 members have a node"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("--add-node", "n9"), '--add-node n9: no node "n9" in the manifests'),
        (("--add-node", "n1=0"), "--add-node n1=0: expected NAME=COUNT, with a count up to 5000"),
        (("--without", "web"), "--without web: no such pod in the manifests"),
    ],
)
def test_what_if_of_something_that_does_not_exist(train: str, change: tuple[str, str], problem: str) -> None:
    result = run("-f", train, *change)
    assert result.exit_code == 2
    assert problem in result.stderr


def test_victims_of_a_group_are_named(tmp_path: Path) -> None:
    group, *pods = gang("train", 2, priority=10)
    group["spec"]["priority"] = 10
    low = [gpu_pod(f"low-{i}", nodeName=f"n{i}") for i in range(4)]
    file = write(tmp_path, *gpu_nodes(4), *low, group, *pods)
    [outcome] = groups("-f", file)
    assert (outcome["state"], len(outcome["evicted"])) == ("scheduled", 2)
    lines = run("-f", file).stdout.splitlines()
    assert sum("to make room for podgroup default/train" in line for line in lines) == 2
    assert lines[-1].startswith(
        "default/train  scheduled  2 of 2 members have a node; would evict default/low-"
    )


def test_groups_of_coscheduling(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, "
        "queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: '*'}]}}}]\n"
    )
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"minMember": 3},
    }
    pods = [gpu_pod(f"train-{i}") for i in range(3)]
    for pod in pods:
        pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "train"}
    file = write(tmp_path, *gpu_nodes(2), group, *pods)
    ignored = f"ignored: {file}: PodGroup default/train\nhint: enable the plugin Coscheduling in --config\n"
    assert run("-f", file).stderr == ignored
    [outcome] = groups("-f", file, "--config", str(config))
    assert (outcome["group"], outcome["state"]) == ("default/train", "pending")
    assert outcome["why"].startswith("2 of 3 members have a place; train-2 lacks 8 nvidia.com/gpu")
    explained = CliRunner().invoke(main, ["explain", "podgroup/train", "-f", file, "--config", str(config)])
    assert explained.stdout.startswith("default/train is pending: 2 of 3 members have a place")


def test_groups_that_start_together_wait_for_each_other(tmp_path: Path) -> None:
    web = gpu_pod("web", gpus=1, nodeName="n2")
    file = write(tmp_path, *gpu_nodes(5), web)
    workload = str(Path(__file__).parents[2] / "examples" / "gang" / "workload.yaml")
    waiting = {each["group"]: each for each in groups("-f", file, "-f", workload)}
    assert [each["scheduled"] for each in waiting.values()] == [0, 0]
    assert waiting["default/green-driver"]["why"].endswith("it starts together with default/green-workers")
    started = groups("-f", file, "-f", workload, "--without", "web")
    assert [each["scheduled"] for each in started] == [1, 5]
