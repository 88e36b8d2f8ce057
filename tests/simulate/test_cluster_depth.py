"""Depth `cluster` (the whole sandbox in virtual time), and that it decides as depth `core` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.client.virtual_time import JumpingSelector
from mooring.simulate.cluster_depth import ClusterRun
from mooring.simulate.engine import Clock, CoreRun
from mooring.simulate.invariants import check_run
from mooring.simulate.manifests import contents_of
from mooring.simulate.plan import compile_plan
from mooring.simulate.pod_log import Outcome
from mooring.simulate.policies import Policy
from mooring.simulate.running import run_once, run_to_folder
from mooring.simulate.scenario import parse_scenario
from tests.simulate.runs import arrivals_of, nodes, template
from tests.simulate.test_scenario import NODE, POD

pods = st.tuples(st.integers(0, 40), st.sampled_from(["250m", "1", "3"]), st.integers(1, 30))


@settings(max_examples=6, deadline=None)
@given(st.lists(pods, min_size=1, max_size=12), st.integers(1, 3), st.integers(0, 3))
def test_both_depths_place_pods_identically(drawn: list[tuple[int, str, int]], count: int, seed: int) -> None:
    kinds = {cpu: template(cpu) for cpu in {cpu for _, cpu, _ in drawn}}
    # Fractions keep arrivals and departures apart: within one instant the depths order events differently.
    coming = sorted((10.0 * t + i / 64, cpu, 10.0 * life + 0.3) for i, (t, cpu, life) in enumerate(drawn))
    arrivals = arrivals_of(*[(time, kinds[cpu], life) for time, cpu, life in coming])
    policy = Policy("default", folder=Path("/nonexistent"))
    clock = Clock()
    core = CoreRun(policy.scheduler(clock, seed), clock, nodes(count, "3"), arrivals)
    core.run()
    cluster = ClusterRun(policy, seed, nodes(count, "3"), arrivals)
    cluster.run()
    check_run(cluster)
    for name in ("node", "attempts", "outcome"):
        assert list(core.log.integers(name)) == list(cluster.log.integers(name)), name
    for name in ("created", "bound", "ended"):
        np.testing.assert_allclose(core.log.column(name), cluster.log.column(name), atol=1e-4)


def job_spec(
    parallelism: int, completions: int | None, mode: str, life: float, cpu: str, more: dict[str, str]
) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"mooring/run-time": f"{life}s", **more}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {
        "parallelism": parallelism,
        "completionMode": mode,
        "backoffLimit": 2,
        "template": template,
    }
    return spec if completions is None else {**spec, "completions": completions}


jobs = st.builds(
    job_spec,
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from(["NonIndexed", "Indexed"]),
    st.sampled_from([0.4, 9.3, 61.7, 150.1]),
    st.sampled_from(["500m", "1", "2"]),
    st.sampled_from([{}, {}, {"mooring/exit-code": "1"}, {"mooring/start-delay": "3.2s"}]),
)
policies = st.sampled_from(["Allow", "Forbid", "Replace"])


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(jobs, policies | st.none()), min_size=1, max_size=3), st.integers(1, 3))
def test_both_depths_run_jobs_and_cron_jobs_identically(
    drawn: list[tuple[dict[str, Any], str | None]], count: int
) -> None:
    manifests = [_manifest(number, *each) for number, each in enumerate(drawn)]
    policy = Policy("default", folder=Path("/nonexistent"))
    clock = Clock()
    objects = contents_of([(tree, "test") for tree in manifests]).objects
    core = CoreRun(
        policy.scheduler(clock, 0), clock, [*nodes(count, "3"), *objects], arrivals_of(), until=900.0
    )
    core.run()
    check_run(core)
    cluster = ClusterRun(policy, 0, nodes(count, "3"), arrivals_of(), manifests=manifests, until=900.0)
    cluster.run()
    check_run(cluster)
    assert rows_of(core) == rows_of(cluster)


def _manifest(number: int, spec: dict[str, Any], policy: str | None) -> dict[str, Any]:
    """A Job, or a CronJob that starts at minutes of its own: within one instant the order differs."""
    metadata = {"name": f"work-{number}", "namespace": "default"}
    if policy is None:
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    cron = {"schedule": f"{number}-59/4 * * * *", "concurrencyPolicy": policy, "jobTemplate": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": cron}


def rows_of(run: CoreRun | ClusterRun) -> list[tuple[object, ...]]:
    """What became of each pod, without the part of its name that a cluster draws at random."""
    log = run.log
    return sorted(
        (
            *(str(round(log.column(name)[row], 3)) for name in ("created", "bound", "ended")),
            log.names[row].rpartition("-")[0],
            log.node[row],
            log.outcome[row],
            log.attempts[row],
        )
        for row in range(len(log))
    )


SCENARIO = """
apiVersion: mooring/v1alpha1
kind: Simulation
metadata: {name: rollout}
spec:
  depth: cluster
  until: 119m
  cluster:
  - manifests: objects.yaml
  events:
  - {at: 10m, apply: new-version.yaml}
  - {at: 20m, apply: more-quota.yaml}
"""
OBJECTS = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {capacity: {cpu: 8, memory: 16Gi, pods: 20}, allocatable: {cpu: 8, memory: 16Gi, pods: 20}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1", resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: few}
spec: {hard: {count/pods: "5"}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "*/30 * * * *"
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {mooring/run-time: 20s}}
        spec:
          restartPolicy: Never
          containers: [{name: report, image: report, resources: {requests: {cpu: 1}}}]
"""


def test_controllers_roll_out_and_run_jobs_in_virtual_time(tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text(OBJECTS)
    deployment = OBJECTS.split("---")[1].replace("web:1", "web:2")
    (tmp_path / "new-version.yaml").write_text(deployment)
    quota = OBJECTS.split("---")[2].replace('"5"', '"9"')
    (tmp_path / "more-quota.yaml").write_text(quota)
    plan = compile_plan(parse_scenario(SCENARIO, str(tmp_path / "rollout.yaml")))
    tables = run_once(plan, plan.policies[0], 0)
    owners = [tables.shapes[shape].owner for shape in tables.pods.shape.tolist()]
    outcomes = tables.pods.outcome.tolist()
    jobs = [outcome for owner, outcome in zip(owners, outcomes, strict=True) if owner.startswith("Job/")]
    assert jobs == [Outcome.FINISHED] * 3
    web = [
        outcome for owner, outcome in zip(owners, outcomes, strict=True) if owner.startswith("ReplicaSet/")
    ]
    assert web.count(Outcome.RUNNING) == 4
    assert web.count(Outcome.DELETED) == 4, "the pods of the old version"
    replaced = tables.pods.created[np.array(outcomes) == Outcome.RUNNING]
    assert 600 <= replaced.min() <= replaced.max() <= 660
    assert tables.end == 7140


def test_idle_time_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No watch is restarted and no heartbeat sent: time jumps from one hourly look at events to the next."""
    jumps = 0
    select = JumpingSelector.select

    def count(self: JumpingSelector, timeout: float | None = None) -> Any:
        nonlocal jumps
        jumps += bool(timeout)
        return select(self, timeout)

    monkeypatch.setattr(JumpingSelector, "select", count)
    policy = Policy("default", folder=Path("/nonexistent"))
    run = ClusterRun(policy, 0, nodes(3), arrivals_of(), until=10 * 86400.0)
    run.run()
    assert run.end == 10 * 86400.0
    assert jumps < 300


THREE_DEPTHS = """
apiVersion: mooring/v1alpha1
kind: Simulation
spec:
  cluster: [{generate: {template: node.yaml, count: 2}}]
  workload: [{generate: {template: pod.yaml, arrivals: {every: 100ms}, count: 4, runTime: 300ms}}]
"""


def test_one_scenario_runs_at_three_depths(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "pod.yaml").write_text(POD)
    for depth in ("core", "cluster", "perf"):
        scenario = parse_scenario(THREE_DEPTHS, str(tmp_path / "scenario.yaml"), {"depth": depth})
        plan = compile_plan(scenario)
        record = run_to_folder(plan, plan.policies[0], 0, tmp_path / depth)
        assert record.metrics["finished"] == 4, depth
        assert ("throughput.bound_per_second" in record.metrics) == (depth == "perf")
