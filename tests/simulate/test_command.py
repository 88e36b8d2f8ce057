"""`mooring simulate`: runs on disk, determinism, resuming, expectations, comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mooring.cli.simulate import simulate
from mooring.simulate import running
from mooring.simulate.plan import Plan
from mooring.simulate.policies import Policy
from mooring.simulate.tables import Tables
from tests.simulate.test_scenario import HEAD, NODE, POD

POLICIES = "  policies: [{name: default}, {name: packed, config: packed.yaml}]\n"
SCENARIO = (
    HEAD.replace("spec:", "metadata: {name: test}\nspec:")
    + """  seeds: 1..2
  cluster: [{generate: {template: node.yaml, count: 3}}]
  workload:
  - generate: {template: pod.yaml, arrivals: {poisson: 30/min}, runTime: {exponential: 9s}, for: 2m}
"""
    + POLICIES
)
PACKED = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "packed.yaml").write_text(PACKED)
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    return tmp_path


def call(*args: object) -> Result:
    return CliRunner().invoke(simulate, [str(arg) for arg in args], catch_exceptions=False)


def answer(*args: object) -> Any:
    result = call(*args, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def files(root: Path) -> dict[str, bytes]:
    """The files of runs, without their timings."""
    found = sorted(path for path in root.rglob("*") if path.is_file() and path.name != "timing.json")
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def test_a_scenario_runs_and_leaves_tables(folder: Path) -> None:
    result = call(folder / "scenario.yaml", "--out", folder / "runs")
    assert result.exit_code == 0, result.output
    assert "POLICY" in result.output
    assert "No differences to default" in result.output
    run = folder / "runs" / "packed" / "seed-2"
    assert sorted(path.name for path in run.iterdir()) == [
        "nodes.csv.gz", "pods.csv.gz", "run.json", "shapes.json", "timing.json",
    ]  # fmt: skip
    record, tables = running.read_run(run)
    assert record.metrics["bound"] == len(tables.pods) == record.metrics["finished"]


def test_runs_are_the_same_bytes_with_any_number_of_workers(folder: Path) -> None:
    call(folder / "scenario.yaml", "--out", folder / "one")
    call(folder / "scenario.yaml", "--out", folder / "two", "--workers", 2)
    assert files(folder / "one") == files(folder / "two")


def test_a_golden_run_stays_as_it_is(folder: Path) -> None:
    """Another machine or another version of the simulator gives the same placements."""
    found = answer(folder / "scenario.yaml", "--out", folder / "runs")
    metrics = {(run["policy"], run["seed"]): run["metrics"] for run in found["runs"]}
    golden = [
        (metrics[key]["pods"], metrics[key]["attempts"], round(metrics[key]["wait.mean"], 6))
        for key in (("default", 1), ("packed", 1), ("default", 2), ("packed", 2))
    ]
    assert golden == GOLDEN


def test_finished_runs_are_not_repeated_unless_something_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(folder / "scenario.yaml", "--out", folder / "runs")
    made: list[int] = []
    real = running.run_once

    def run_once(plan: Plan, policy: Policy, seed: int, progress: running.Progress | None) -> Tables:
        made.append(seed)
        return real(plan, policy, seed, progress)

    monkeypatch.setattr(running, "run_once", run_once)
    call(folder / "scenario.yaml", "--out", folder / "runs")
    assert not made
    (folder / "runs" / "packed" / "seed-1" / "run.json").unlink()
    call(folder / "scenario.yaml", "--out", folder / "runs")
    assert made == [1]
    (folder / "pod.yaml").write_text(POD.replace("cpu: '1'", "cpu: '2'"))
    call(folder / "scenario.yaml", "--out", folder / "runs")
    assert len(made) == 5


def test_an_expectation_that_fails_is_exit_code_1_with_the_pod(folder: Path) -> None:
    (folder / "scenario.yaml").write_text(SCENARIO + "  expect: [{metric: wait.mean, within: [50, 60]}]\n")
    result = call(folder / "scenario.yaml", "--out", folder / "runs")
    assert result.exit_code == 1
    assert "FAILED: default: wait.mean" in result.output
    assert "longest wait: workload-0-" in result.output
    (folder / "scenario.yaml").write_text(SCENARIO + "  expect: [{metric: wait.maen, within: [50, 60]}]\n")
    result = call(folder / "scenario.yaml", "--out", folder / "runs")
    assert result.exit_code == 2
    assert 'no metric "wait.maen": did you mean "wait.mean"?' in result.output


def test_two_runs_are_compared_pod_by_pod(folder: Path) -> None:
    call(folder / "scenario.yaml", "--out", folder / "runs")
    runs = [folder / "runs" / policy / "seed-1" for policy in ("default", "packed")]
    same = call("compare", runs[0], runs[0])
    assert same.exit_code == 0
    assert "first difference" not in same.output
    result = call("compare", *runs, "--scenario", folder / "scenario.yaml", "--tolerance", 1000)
    assert "first difference: default/workload-0-" in result.output
    assert "policy default:" in result.output
    assert "policy packed:" in result.output
    other = call("compare", runs[0], folder / "runs" / "packed" / "seed-2")
    assert other.exit_code == 2
    assert "different arrivals" in other.output


def test_check_policies_seeds_and_settings_of_the_command_line(folder: Path) -> None:
    result = call("check", folder / "scenario.yaml")
    assert result.exit_code == 0
    assert "2 policies, 2 seeds" in result.output
    found = answer(
        folder / "scenario.yaml", "--policy", f"mine={folder}/packed.yaml", "--seeds", 1, "--until", "30s",
        "--set", "unschedulable=reject", "--out", folder / "runs",
    )  # fmt: skip
    (run,) = found["runs"]
    assert (run["policy"], run["seed"], run["virtualSeconds"]) == ("mine", 1, 30)
    wrong = call(folder / "scenario.yaml", "--set", "polices.x=1")
    assert wrong.exit_code == 2
    missing = call(folder / "none.yaml")
    assert missing.exit_code == 2
    assert "none.yaml: No such file or directory" in missing.output


GOLDEN = [(69, 129, 1.331563), (69, 129, 1.331563), (60, 171, 2.854851), (60, 171, 2.854851)]


PLUGIN = """
from mooring.framework import Plugin

class Last(Plugin):
    name = "Last"

    def score(self, state, pod, node):
        return 100 if node.name == "n-2" else 0
"""


def test_plugins_of_a_policy_run_unless_its_configuration_says_otherwise(folder: Path) -> None:
    (folder / "last.py").write_text(PLUGIN)
    (folder / "off.yaml").write_text(
        PACKED.replace(
            "- pluginConfig:", "- plugins: {multiPoint: {disabled: [{name: Last}]}}\n  pluginConfig:"
        )
    )
    policies = [
        '{name: alone, plugins: ["./last.py:Last"]}',
        '{name: packed, config: packed.yaml, plugins: ["last:Last"]}',
        '{name: disabled, config: off.yaml, plugins: ["last:Last"]}',
    ]
    text = SCENARIO.replace(POLICIES, f"  policies: [{', '.join(policies)}]\n").replace("1..2", "1")
    (folder / "scenario.yaml").write_text(text.replace("30/min", "1/min") + "  ties: first\n")
    assert call(folder / "scenario.yaml", "--out", folder / "out").exit_code == 0
    used = {}
    for policy in ("alone", "packed", "disabled"):
        _, tables = running.read_run(folder / "out" / policy / "seed-1")
        used[policy] = {tables.nodes.name[row] for row in tables.pods.node.tolist()}
    assert used["alone"] == used["packed"] == {"n-2"}
    assert used["disabled"] != {"n-2"}


def test_a_mistyped_command_is_no_scenario() -> None:
    result = call("chek", "scenario.yaml")
    assert result.exit_code == 2
    assert 'hint: did you mean "check"?' in result.output


def test_a_full_disk_leaves_nothing_half_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(tables: Tables, folder: Path) -> None:
        (folder / "pods.csv.gz").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(running, "write_tables", fail)
    result = call(folder / "scenario.yaml", "--out", folder / "runs")
    assert result.exit_code == 2
    assert "seed-1: No space left on device\nhint: --out" in result.output
    assert not [path for path in (folder / "runs").rglob("*") if path.is_file()]
    assert "--until: expected a duration" in call(folder / "scenario.yaml", "--until", "-5m").output
