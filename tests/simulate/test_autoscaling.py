"""Autoscaler models: nodes come for pending pods after a delay, and go when they are empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config.findings import ConfigError
from mooring.simulate.plan import compile_plan
from mooring.simulate.pod_log import Outcome
from mooring.simulate.running import run_once
from mooring.simulate.scenario import parse_scenario
from mooring.simulate.tables import Tables

NODE = """
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{allocatable: {{cpu: {cpu}, memory: 64Gi, pods: 20}}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec: {containers: [{name: main, image: main, resources: {requests: {cpu: 2}}}]}
"""
SCENARIO = """
apiVersion: mooring/v1alpha1
kind: Simulation
spec:
  cluster: [{generate: {template: first.yaml}}]
  workload: [{generate: {template: pod.yaml, arrivals: {burst: {count: 7}}, runTime: 5m}}]
  autoscaler:
    KIND
    groups:
    - {name: small, template: small.yaml, price: 1.0, delay: 60s}
    - {name: large, template: large.yaml, price: 1.5, delay: 90s}
"""


def simulate(folder: Path, kind: str) -> Tables:
    for name, cpu in (("first", 2), ("small", 4), ("large", 12)):
        (folder / f"{name}.yaml").write_text(NODE.format(name=name, cpu=cpu))
    (folder / "pod.yaml").write_text(POD)
    plan = compile_plan(parse_scenario(SCENARIO.replace("KIND", kind), str(folder / "scenario.yaml")))
    return run_once(plan, plan.policies[0], 0)


def lives(tables: Tables) -> list[tuple[str, float, float]]:
    nodes = tables.nodes
    return list(zip(nodes.name, nodes.added.tolist(), nodes.removed.tolist(), strict=True))


def test_the_cluster_autoscaler_adds_the_group_of_its_expander_and_removes_empty_nodes(
    tmp_path: Path,
) -> None:
    """Six pods are left over, for which both groups have room: the first is taken. The scan is at 10 s."""
    tables = simulate(tmp_path, "kind: cluster-autoscaler\n    expander: most-pods")
    assert set(tables.pods.outcome.tolist()) == {Outcome.FINISHED}
    _, *others = lives(tables)
    assert [name for name, _, _ in others] == ["small-0", "small-1", "small-2"]
    assert {added for _, added, _ in others} == {70.0}
    assert sorted(tables.pods.bound.tolist()) == [0.0] + [70.0] * 6
    for _, _, removed in others:
        assert 70 + 300 + 600 <= removed <= 70 + 300 + 600 + 20


def test_the_karpenter_model_takes_the_type_on_which_a_pod_costs_least(tmp_path: Path) -> None:
    tables = simulate(tmp_path, "kind: karpenter")
    assert [(name, added) for name, added, _ in lives(tables)] == [("first-0", 0.0), ("large-0", 91.0)]
    assert lives(tables)[1][2] <= 91 + 300 + 35


def test_an_unknown_kind_is_reported_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"spec.autoscaler: kind: expected cluster-autoscaler or karpenter"):
        simulate(tmp_path, "kind: hpa")
