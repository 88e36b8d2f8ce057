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


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: main, resources: {requests: {cpu: 1}}}]}
"""
DRAINING = """
apiVersion: mooring/v1alpha1
kind: Simulation
spec:
  until: 40m
  cluster: [{generate: {template: first.yaml}}]
  workload:
  - generate: {template: pod.yaml, arrivals: {burst: {count: 1}}, runTime: 5m}
  - generate: {template: web.yaml, arrivals: {burst: {count: 1}}}
  autoscaler:
    KIND
    groups:
    - {name: small, template: small.yaml, price: 1.0, delay: 60s}
    - {name: large, template: large.yaml, price: 1.5, delay: 60s}
"""


def drain(folder: Path, kind: str, pod_cpu: int = 2) -> Tables:
    """A pod that needs `pod_cpu` for five minutes, and a Deployment of one replica that stays."""
    for name, cpu in (("first", 2), ("small", 4), ("large", 12)):
        (folder / f"{name}.yaml").write_text(NODE.format(name=name, cpu=cpu))
    (folder / "pod.yaml").write_text(POD.replace("cpu: 2", f"cpu: {pod_cpu}"))
    (folder / "web.yaml").write_text(DEPLOYMENT if pod_cpu == 2 else DEPLOYMENT.replace("cpu: 1", "cpu: 3"))
    plan = compile_plan(parse_scenario(DRAINING.replace("KIND", kind), str(folder / "scenario.yaml")))
    return run_once(plan, plan.policies[0], 0)


def test_the_cluster_autoscaler_drains_a_node_whose_pods_fit_elsewhere(tmp_path: Path) -> None:
    """The first node is free again after five minutes; the new one was added at 70 s."""
    tables = drain(tmp_path, "kind: cluster-autoscaler")
    _, (name, added, removed) = lives(tables)
    assert (name, added) == ("small-0", 70.0)
    assert 70 + 600 <= removed <= 70 + 600 + 20
    pods = tables.pods
    assert pods.outcome.tolist() == [Outcome.FINISHED, Outcome.EVICTED, Outcome.RUNNING]
    assert pods.replaces.tolist() == [-1, -1, 1]
    assert [tables.nodes.name[row] for row in pods.node.tolist()] == ["first-0", "small-0", "first-0"]


def test_draining_can_be_turned_off(tmp_path: Path) -> None:
    tables = drain(tmp_path, "kind: cluster-autoscaler\n    drainBelow: 0")
    assert Outcome.EVICTED not in tables.pods.outcome.tolist()


def test_the_karpenter_model_replaces_a_node_by_a_cheaper_one(tmp_path: Path) -> None:
    """Both pods share a large node; when the first has finished, a small one suffices."""
    tables = drain(tmp_path, "kind: karpenter", pod_cpu=9)
    nodes = {name: (added, removed) for name, added, removed in lives(tables)}
    assert list(nodes) == ["first-0", "large-0", "small-0"]
    assert nodes["large-0"][1] == nodes["small-0"][0]
    assert 61 + 300 + 30 + 60 <= nodes["small-0"][0] <= 61 + 300 + 30 + 60 + 5
    assert tables.nodes.name[tables.pods.node[-1]] == "small-0"
