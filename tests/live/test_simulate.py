"""Simulation against a real API server: scheduler_perf's workloads, snapshots and recordings."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from mooring.cli.simulate import simulate
from tests.live.control_plane import ControlPlane
from tests.simulate.test_scenario import NODE, POD

SUITE = """
- name: Basic
  workloadTemplate:
  - {opcode: createNodes, count: 3}
  - {opcode: createPods, count: 4, namespace: perf-early, skipWaitToCompletion: true}
  - {opcode: barrier}
  - {opcode: createPods, count: 5, namespace: perf-late, collectMetrics: true}
  workloads: [{name: small}]
"""


def test_a_workload_runs_and_leaves_nothing(control_plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "performance-config.yaml").write_text(SUITE)
    kubeconfig = str(control_plane.kubeconfig())
    result = CliRunner().invoke(simulate, ["perf", str(tmp_path), "--kubeconfig", kubeconfig])
    assert result.exit_code == 0, result.output
    assert result.output.split("Basic/small")[1].split()[:3] == ["3", "9", "9"]
    folder = tmp_path / "snapshot"
    result = CliRunner().invoke(simulate, ["import", "--kubeconfig", kubeconfig, "-o", str(folder)])
    assert result.exit_code == 0, result.output
    names = [item["metadata"]["name"] for item in json.loads((folder / "nodes.json").read_text())["items"]]
    assert not [name for name in names if name.startswith("node-0-")]
    assert not (folder / "secrets.json").exists()


def test_a_recording_starts_with_what_is_there(control_plane: ControlPlane, tmp_path: Path) -> None:
    out = tmp_path / "cluster.jsonl"
    kubeconfig = str(control_plane.kubeconfig())
    result = CliRunner().invoke(
        simulate, ["record", "--kubeconfig", kubeconfig, "-o", str(out), "--for", "5", "--scrub"]
    )
    assert result.exit_code == 0, result.output
    header, *lines = map(json.loads, out.read_text().splitlines())
    assert header["scrubbed"]
    assert "Namespace" in {line["object"]["kind"] for line in lines}


SCENARIO = """
apiVersion: mooring/v1alpha1
kind: Simulation
spec:
  depth: perf
  cluster: [{generate: {template: node.yaml, count: 2}}]
  workload: [{generate: {template: pod.yaml, arrivals: {every: 100ms}, count: 4, runTime: 300ms}}]
"""


def test_a_scenario_runs_at_depth_perf_and_leaves_nothing(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "pod.yaml").write_text(POD)
    control_plane.kubectl("run", "stranded", "--image=a", "--overrides", '{"spec": {"nodeName": "gone"}}')
    control_plane.kubectl("run", "other", "--image=a", "--overrides", '{"spec": {"schedulerName": "other"}}')
    kubeconfig = str(control_plane.kubeconfig())
    command = [str(tmp_path / "scenario.yaml"), "--kubeconfig", kubeconfig, "--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(simulate, [*command, "-o", "json"])
    assert result.exit_code == 0, result.output
    (record,) = json.loads(result.stdout)["runs"]
    assert record["metrics"]["finished"] == 4
    assert record["metrics"]["pods"] == 4, "pods that were there before count"
    folder = tmp_path / "snapshot"
    result = CliRunner().invoke(simulate, ["import", "--kubeconfig", kubeconfig, "-o", str(folder)])
    names = [item["metadata"]["name"] for item in json.loads((folder / "nodes.json").read_text())["items"]]
    assert not {"n-0", "n-1"} & set(names)
    control_plane.kubectl("delete", "pod", "stranded", "other", "--force", "--grace-period=0")
