"""`--plugin` means one thing in every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.command import mooring
from tests.cli.test_schedule import manifests, node, pod

SOURCE = """
from mooring.framework import Plugin, unschedulable

class NoOne(Plugin):
    name = "NoOne"

    def filter(self, state, pod, node):
        return unschedulable("closed today")
"""
EMPTY = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "no_one.py").write_text(SOURCE)
    (tmp_path / "scheduler.yaml").write_text(EMPTY)
    (tmp_path / "cluster.json").write_text(manifests(node("a"), pod("p")))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("plugin", ["no_one:NoOne", "./no_one.py:NoOne"])
def test_without_a_configuration_it_is_enabled(place: Path, plugin: str) -> None:
    scheduled = mooring("schedule", "-f", "cluster.json", "--plugin", plugin, cwd=place)
    assert "1 closed today" in scheduled.stdout
    explained = mooring("explain", "p", "-f", "cluster.json", "--plugin", plugin, cwd=place)
    assert "closed today" in explained.stdout
    listed = json.loads(mooring("plugin", "list", "-o", "json", "--plugin", plugin, cwd=place).stdout)
    assert {row["name"]: row["profiles"] for row in listed}["NoOne"] == {"default-scheduler": 0}
    written = mooring("scheduler", "--plugin", plugin, "--write-config-to", "out.yaml", cwd=place)
    assert written.returncode == 0, written.stderr
    enabled = yaml.safe_load((place / "out.yaml").read_text())["profiles"][0]["plugins"]["multiPoint"]
    assert {"name": "NoOne"} in enabled["enabled"]


@pytest.mark.parametrize(
    "command",
    [
        ("schedule", "-f", "cluster.json"),
        ("explain", "p", "-f", "cluster.json"),
        ("plugin", "list"),
        ("scheduler", "--write-config-to", "out.yaml"),
    ],
)
def test_a_configuration_that_does_not_enable_it_gives_a_warning(
    place: Path, command: tuple[str, ...]
) -> None:
    done = mooring(*command, "--config", "scheduler.yaml", "--plugin", "no_one:NoOne", cwd=place)
    assert done.returncode == 0
    assert "warning: scheduler.yaml: no profile enables plugin NoOne" in done.stderr
    assert "closed today" not in done.stdout
