"""Gangs in a simulation: arrival, size, duration and topology level, with and without the gates."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from mooring.config import ConfigError
from mooring.simulate.gang_metrics import find_gangs, gang_metrics
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


JOBS = """name,arrival,duration,size,level,min,cpu
a,0,100,4,rack,,64
b,10,100,8,,6,64
c,20,50,1,,,64
"""


def trace_plan(folder: Path, trace: str, **files: str) -> Plan:
    for name, text in (("node.yaml", NODE), ("gangs.yaml", CONFIG), *files.items()):
        (folder / name.replace("_", ".")).write_text(text)
    head, _, tail = SCENARIO.partition("  workload:")
    policies = tail.partition("  policies:")[2] + "  - {name: compat, config: gangs.yaml, compat: true}\n"
    text = f"{head}  workload: [{{trace: {trace}}}]\n  policies:{policies}"
    return compile_plan(parse_scenario(text, str(folder / "scenario.yaml")))


def test_jobs_of_a_csv_file_are_gangs_with_their_level_and_minimum(tmp_path: Path) -> None:
    plan = trace_plan(tmp_path, "{format: jobs, path: jobs.csv}", jobs_csv=JOBS)
    tables = run_once(plan, plan.policies[0], 0)
    gangs = {gang.name: gang for gang in find_gangs(tables)}
    assert {name: (len(gang.pods), gang.min_count) for name, gang in gangs.items()} == {
        "a": (4, 4),
        "b": (8, 6),
    }
    assert (gangs["a"].started, gangs["b"].started) == (0.0, 100.0)  # 4 of 8 nodes are not enough for 6
    racks = {tables.pods.node[row] % 2 for row in gangs["a"].pods}
    assert len(racks) == 1
    metrics = gang_metrics(tables)
    assert (metrics["gangs.started"], metrics["gangs.wait.max"], metrics["gangs.held_seconds"]) == (2, 90, 0)


def test_one_by_one_members_hold_nodes_before_their_gang_starts(tmp_path: Path) -> None:
    plan = trace_plan(tmp_path, "{format: jobs, path: jobs.csv}", jobs_csv=JOBS)
    gangs, one_by_one, compat = (gang_metrics(run_once(plan, each, 0)) for each in plan.policies)
    assert one_by_one["gangs.held_seconds"] == 4 * 90 > gangs["gangs.held_seconds"]
    assert one_by_one["utilisation.cpu"] < gangs["utilisation.cpu"]
    assert gangs["gangs.wait.max"] == 90 < compat["gangs.wait.max"] <= 101  # after the next backoff
    assert gang_metrics(run_once(plan, plan.policies[2], 0)) == compat


SWF = "".join(f"{i} {60 * i} 0 300 4 -1 -1 4 -1 -1 1 7 1 1 1 1 -1 -1\n" for i in range(4))


def test_jobs_of_a_published_trace_are_gangs_where_asked_for(tmp_path: Path) -> None:
    options = "options: {processors_per_pod: 2}"
    alone = trace_plan(tmp_path, f"{{format: swf, path: log.swf, {options}}}", log_swf=SWF)
    assert find_gangs(run_once(alone, alone.policies[0], 0)) == []
    gang = "gang: {topology: rack, minCount: 1}"
    plan = trace_plan(tmp_path, f"{{format: swf, path: log.swf, {options}, {gang}}}", log_swf=SWF)
    gangs = find_gangs(run_once(plan, plan.policies[0], 0))
    assert [(gang.name, len(gang.pods), gang.min_count) for gang in gangs] == [
        (f"job-{i}", 2, 1) for i in range(4)
    ]


def test_free_room_counts_as_scattered_where_no_pod_of_the_workload_fits(tmp_path: Path) -> None:
    jobs = "arrival,duration,size,cpu\n0,100,8,40\n0,100,2,20\n"
    plan = trace_plan(tmp_path, "{format: jobs, path: jobs.csv}", jobs_csv=jobs)
    metrics = gang_metrics(run_once(plan, plan.policies[0], 0))
    # 8 pods leave 24 of 64 free on each node, 2 more leave 4 on two of them: 152 in all. Of ten pods, 8 fit
    # nowhere and 2 fit where 24 are free.
    assert metrics["fragmentation.cpu"] == pytest.approx(100 * (0.8 * 152 + 0.2 * 8) / 152)


@pytest.mark.parametrize(
    ("jobs", "problem"),
    [
        ("arrival,size\n0,1\n", "no column duration"),
        ("arrival,duration,size\n0,1,0\n", "size: expected at least 1"),
        ("arrival,duration,size,min\n0,1,2,3\n", "min: expected a number from 1 to 2, found 3"),
        ("arrival,duration,size,cpu\n0,1,2,many\n", "jobs.csv:2: cpu"),
    ],
)
def test_an_invalid_file_of_jobs_is_reported(tmp_path: Path, jobs: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        trace_plan(tmp_path, "{format: jobs, path: jobs.csv}", jobs_csv=jobs)


def test_gangs_of_a_trace_arrive_as_recorded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="gangs arrive as recorded"):
        trace_plan(tmp_path, "{format: jobs, path: jobs.csv, arrivals: shuffled}", jobs_csv=JOBS)


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
