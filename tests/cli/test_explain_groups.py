"""`mooring explain podgroup/…` and `mooring pending` with groups, from manifests and from a scheduler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli import main
from tests.cli.test_schedule import manifests
from tests.core.groups.group_kit import gang, gpu_nodes, gpu_pod, members, pod_group
from tests.explain.test_groups import LACKS_ONE


@pytest.fixture
def train(tmp_path: Path) -> str:
    """Eight members, and a node that a pod uses half of."""
    file = tmp_path / "train.yaml"
    file.write_text(manifests(*gpu_nodes(8), gpu_pod("web-3", gpus=4, nodeName="n7"), *gang("train", 8)))
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_a_group_is_explained_from_manifests_without_any_flag(train: str) -> None:
    for name in ("podgroup/train", "pg/train"):
        result = run("explain", name, "-f", train)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.splitlines()[0] == LACKS_ONE


def test_a_group_from_manifests_waits_for_events_of_the_plugins_that_refuse_it(train: str) -> None:
    output = run("explain", "podgroup/train", "-f", train).stdout
    assert (
        "until a pod is added or is deleted, or its requests change (GangScheduling, NodeResourcesFit)"
        in output
    )


def test_as_json_a_group_is_an_explanation(train: str) -> None:
    explanation = json.loads(run("explain", "podgroup/train", "-f", train, "-o", "json").stdout)
    assert (explanation["group"], explanation["state"], explanation["places"]) == (
        "default/train",
        "pending",
        7,
    )
    assert explanation["lacking"][0]["departure"]["pods"] == ["default/web-3"]


def test_a_group_is_one_line_of_the_pending_pods(train: str) -> None:
    lines = run("pending", "-f", train).stdout.splitlines()
    assert lines[:3] == ["8 pods are pending, for one cause", "", f"8 pods: podgroup {LACKS_ONE}"]


def test_several_targets_may_be_groups(train: str) -> None:
    result = run("explain", "podgroup/train", "web-3", "-f", train)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == LACKS_ONE
    assert any(line.startswith("default/web-3 is on n7") for line in result.stdout.splitlines())


def test_an_unknown_group_is_reported_with_a_suggestion(train: str) -> None:
    result = run("explain", "podgroup/trains", "-f", train)
    assert result.exit_code == 1
    assert result.stderr == (
        f"podgroup default/trains: not found in {train}\nhint: did you mean default/train?\n"
    )


def test_the_configuration_decides_whether_groups_count(train: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "featureGates: {GangScheduling: false}\n"
    )
    result = run("explain", "train-2", "-f", train, "--config", str(config))
    assert result.stdout.startswith("default/train-2 is pending: 7 of 8 nodes would take it now")


def test_pods_that_wait_for_members_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "few.yaml"
    file.write_text(manifests(*gpu_nodes(8), pod_group("train", 8), *members("train", 5)))
    assert "5 of 8 pods exist" in run("explain", "train-1", "-f", str(file)).stdout.splitlines()[0]
