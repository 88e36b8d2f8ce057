"""Gangs in a simulation: arrival, size, duration and topology level, with and without the gates."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from mooring.config import ConfigError
from mooring.simulate.plan import Plan, compile_plan
from mooring.simulate.pod_log import Outcome
from mooring.simulate.running import run_once
from mooring.simulate.scenario import parse_scenario
from mooring.simulate.tables import Tables

NODE = """
apiVersion: v1
kind: Node
metadata: {name: gpu}
status: {allocatable: {cpu: "64", memory: 256Gi, pods: "110"}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers: [{name: main, image: train, resources: {requests: {cpu: "64"}}}]
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
featureGates: {GenericWorkload: true, GangScheduling: true, TopologyAwareWorkloadScheduling: true}
"""
SCENARIO = """
apiVersion: mooring/v1alpha1
kind: Simulation
spec:
  cluster:
  - generate: {template: node.yaml, count: 8, labels: {rack: [r1, r2]}}
  workload:
  - generate:
      template: pod.yaml
      name: train
      arrivals: {every: 60s}
      count: 12
      runTime: {exponential: 5m}
      gang: GANG
  policies:
  - {name: gangs, config: gangs.yaml}
  - {name: one-by-one}
"""


def plan_of(folder: Path, gang: str) -> Plan:
    for name, text in (("node", NODE), ("pod", POD), ("gangs", CONFIG)):
        (folder / f"{name}.yaml").write_text(text)
    return compile_plan(parse_scenario(SCENARIO.replace("GANG", gang), str(folder / "scenario.yaml")))


def starts(tables: Tables) -> dict[str, set[float]]:
    """When the members of each gang started."""
    moments: dict[str, set[float]] = defaultdict(set)
    for name, bound in zip(tables.pods.name, tables.pods.bound.tolist(), strict=True):
        moments[name.rpartition("-")[0]].add(bound)
    return moments


def test_members_start_together_and_run_equally_long(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "{size: {uniform: [2, 4]}, topology: rack}")
    gangs, one_by_one = (run_once(plan, policy, 0) for policy in plan.policies)
    assert set(gangs.pods.outcome.tolist()) == {Outcome.FINISHED}
    assert all(len(moments) == 1 for moments in starts(gangs).values())
    assert any(len(moments) > 1 for moments in starts(one_by_one).values())
    again = run_once(plan, plan.policies[0], 0)
    assert starts(again) == starts(gangs)


def test_a_gang_larger_than_a_rack_never_starts(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "{size: 5, topology: rack}")
    tables = run_once(plan, plan.policies[0], 0)
    assert Outcome.FINISHED not in set(tables.pods.outcome.tolist())
    elastic = plan_of(tmp_path, "{size: 5, minCount: 4, topology: rack}")
    assert Outcome.FINISHED in set(run_once(elastic, elastic.policies[0], 0).pods.outcome.tolist())


@pytest.mark.parametrize(
    ("gang", "problem"),
    [
        ("{size: {uniforms: [1, 2]}}", 'gang: unknown distribution "uniforms"'),
        ("{size: 2, minCount: 0}", "gang: minCount: expected at least 1, found 0"),
        ("{sizes: 2}", "sizes"),
    ],
)
def test_an_invalid_gang_is_reported(tmp_path: Path, gang: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        plan_of(tmp_path, gang)
