"""scheduler_perf's files: templates, strict parsing, every operation, measurements and thresholds."""

from __future__ import annotations

import json
import os
from math import inf
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.api.objects import Pod
from mooring.cli.simulate import simulate
from mooring.config import ConfigError
from mooring.simulate.perf.go_templates import GoTemplate, TemplateError
from mooring.simulate.perf.measuring import DataItem, check_threshold, quantile
from mooring.simulate.perf.running import Outcome, run_workload
from mooring.simulate.perf.suite import LabelFilter, MetricSelector, Run, load_suite, parse_suite

SUITES = "MOORING_SCHEDULER_PERF"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: pod-, labels: {app: a}}\n" + (
    "spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i,"
    " resources: {requests: {cpu: CPU}}}]}\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node-{{.Index}}", "node-7"),
        ("{{ DivideInt 30000 .Count }}", "3000"),
        ("{{Mod .Index 5}}{{ $.Count }}", "210"),
        ("{{ Mod -7 5 }}", "-2"),
        ("{{ AddInt (Mod .Index 3) 1 .Count }}", "12"),
        ("{{ DivideFloat .Index 2 }} {{ MultiplyFloat 2 3.0 }}", "3.5 6"),
        ("{{ SubtractInt 1.9 0 }} {{ AddFloat 1 0.5 }}", "1 1.5"),
        ("a {{- if lt .Index 5 }} x{{ else if eq .Index 7 }} y{{ else }} z{{ end -}}  b", "a yb"),
        ('{{ $n := .Index | AddInt 3 }}{{ printf "%d-%v" $n "s" }}{{/* no */}}', "10-s"),
        ("{{ with .Count }}{{ . }}{{ end }}", "10"),
    ],
)
def test_template(text: str, expected: str) -> None:
    assert GoTemplate(text).render(7, 10) == expected


@pytest.mark.parametrize(
    "text", ["{{ Nothing 1 }}", "{{ .Other }}", "{{ if .Index }}", "{{ DivideInt 1 0 }}", "{{"]
)
def test_wrong_template(text: str) -> None:
    with pytest.raises(TemplateError):
        GoTemplate(text).render(0, 1)


def suite(tmp_path: Path, operations: list[dict[str, Any]], **case: Any) -> list[Run]:
    workloads = case.pop("workloads", [{"name": "w"}])
    tree = [{"name": "Case", "workloadTemplate": operations, "workloads": workloads, **case}]
    path = tmp_path / "performance-config.yaml"
    path.write_text(yaml.safe_dump(tree))
    for cpu in ("1", "3"):
        (tmp_path / f"pod{cpu}.yaml").write_text(POD.replace("CPU", cpu))
    return load_suite(path)


def run(tmp_path: Path, operations: list[dict[str, Any]], **case: Any) -> tuple[Outcome, list[Pod]]:
    found: list[Pod] = []
    outcome = run_workload(suite(tmp_path, operations, **case)[0], virtual=True, inspect=found.extend)
    return outcome, found


def test_every_problem_of_a_file_is_reported(tmp_path: Path) -> None:
    text = """
- name: A
  workloadTemplate:
  - opcode: createPod
  - {opcode: createPods, countParam: $pods, colectMetrics: true}
  - {opcode: churn, mode: often, templatePaths: [a]}
  workloads: [{name: w}, {name: w, params: {pods: 1}}]
"""
    with pytest.raises(ConfigError) as caught:
        parse_suite(text, tmp_path / "suite.yaml")
    message = str(caught.value)
    assert 'suite.yaml:4: [0].workloadTemplate[0].opcode: unknown opcode "createPod"' in message
    assert 'did you mean "createPods"' in message
    assert 'unknown field "colectMetrics"' in message
    assert "no operation collects metrics" in message
    assert 'no parameter "pods" in the workload' in message
    assert "mode: expected create or recreate" in message
    assert 'two workloads are named "w"' in message


def test_labels() -> None:
    labels = frozenset(["performance", "short"])
    assert LabelFilter("").matches(labels)
    assert LabelFilter("+short,performance").matches(labels)
    assert not LabelFilter("short,-performance").matches(labels)


def test_parameters_and_sets_of_pods(tmp_path: Path) -> None:
    operations = [
        {"opcode": "createNodes", "count": 3,
         "labelNodePrepareStrategy": {"labelKey": "zone", "labelValues": ["a", "b"]}},
        {"opcode": "createNamespaces", "prefix": "ns", "count": 2},
        {"opcode": "createPodSets", "count": 2, "namespacePrefix": "ns", "createPodsOp": {
            "opcode": "createPods", "countParam": "$pods", "podTemplatePath": "pod1.yaml"}},
        {"opcode": "createPods", "count": 2, "collectMetrics": True},
    ]  # fmt: skip
    outcome, pods = run(tmp_path, operations, workloads=[{"name": "w", "params": {"pods": 3}}])
    assert outcome.passed, outcome.problems
    assert (outcome.nodes, outcome.pods, outcome.scheduled) == (3, 8, 8)
    assert {pod.namespace for pod in pods} == {"ns-0", "ns-1", "namespace-3"}
    assert {"SchedulingDuration", "scheduler_scheduling_attempt_duration_seconds"} <= {
        item.labels["Metric"] for item in outcome.items
    }


def test_barriers_deletion_churn_and_updates(tmp_path: Path) -> None:
    (tmp_path / "cordoned.yaml").write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: 'extra-{{.Index}}'}\nspec: {unschedulable: true}\n"
        "status: {capacity: {cpu: '3', pods: '9'}, allocatable: {cpu: '3', pods: '9'}}\n"
    )
    text = (tmp_path / "cordoned.yaml").read_text()
    (tmp_path / "open.yaml").write_text(text.replace("true", "false"))
    (tmp_path / "service.yaml").write_text(
        "apiVersion: v1\nkind: Service\nmetadata: {generateName: s-}\nspec: {ports: [{port: 80}]}\n"
    )
    operations: list[dict[str, Any]] = [
        {"opcode": "startCollectingMetrics", "namespaces": ["late"], "labelSelector": {"app": "a"}},
        {"opcode": "createNodes", "count": 1},
        {"opcode": "createNodes", "count": 1, "nodeTemplatePath": "cordoned.yaml"},
        {"opcode": "churn", "mode": "recreate", "number": 1, "templatePaths": ["service.yaml"]},
        {"opcode": "createPods", "count": 1, "namespace": "early", "podTemplatePath": "pod3.yaml"},
        {"opcode": "createPods", "count": 2, "namespace": "late", "podTemplatePath": "pod3.yaml",
         "skipWaitToCompletion": True},
        {"opcode": "barrier", "stageRequirement": "Attempted"},
        {"opcode": "updateAny", "templatePath": "open.yaml"},
        {"opcode": "deletePods", "namespace": "early", "deletePodsPerSecond": 10},
        {"opcode": "sleep", "duration": "2s"},
        {"opcode": "barrier", "namespaces": ["late"]},
        {"opcode": "stopCollectingMetrics"},
    ]  # fmt: skip
    outcome, pods = run(tmp_path, operations)
    assert outcome.passed, outcome.problems
    assert sorted(pod.namespace for pod in pods if pod.spec.node_name) == ["late", "late"]
    assert "extra-0" in {pod.spec.node_name for pod in pods}


def test_volumes_that_are_bound_to_claims(tmp_path: Path) -> None:
    (tmp_path / "pv.yaml").write_text(
        "apiVersion: v1\nkind: PersistentVolume\n"
        "spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi},"
        " csi: {driver: d.io, volumeHandle: x}}\n"
    )
    (tmp_path / "pvc.yaml").write_text(
        "apiVersion: v1\nkind: PersistentVolumeClaim\n"
        "metadata: {annotations: {pv.kubernetes.io/bind-completed: 'true'}}\n"
        "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
    )
    strategy = {"nodeAllocatable": {"cpu": "8"}, "csiNodeAllocatable": {"d.io": {"count": 2}}}
    operations: list[dict[str, Any]] = [
        {"opcode": "createNodes", "count": 2, "nodeAllocatableStrategy": strategy},
        {"opcode": "createPods", "count": 4, "collectMetrics": True,
         "persistentVolumeTemplatePath": "pv.yaml", "persistentVolumeClaimTemplatePath": "pvc.yaml"},
    ]  # fmt: skip
    outcome, pods = run(tmp_path, operations)
    assert outcome.passed, outcome.problems
    nodes = [pod.spec.node_name for pod in pods]
    assert sorted(map(nodes.count, set(nodes))) == [2, 2]  # the limit of volumes per node


def test_claims_from_templates_and_allocated_without_pods(tmp_path: Path) -> None:
    requests = "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}\n"
    (tmp_path / "class.yaml").write_text(
        "apiVersion: resource.k8s.io/v1beta2\nkind: DeviceClass\nmetadata: {name: c}\n"
    )
    (tmp_path / "claim.yaml").write_text(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: 'claim-{{.Index}}'}\n"
        + requests
    )
    (tmp_path / "template.yaml").write_text(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: t}\nspec:\n  "
        + requests
    )
    pod = POD.replace("CPU", "1m").replace(
        "spec: {", "spec: {resourceClaims: [{name: r, resourceClaimTemplateName: t}], "
    )
    (tmp_path / "claiming.yaml").write_text(pod.replace("resources: {", "resources: {claims: [{name: r}], "))
    operations: list[dict[str, Any]] = [
        {"opcode": "createNodes", "count": 2},
        {"opcode": "createResourceDriver", "driverName": "d.io", "nodes": "node-0-*", "maxClaimsPerNode": 2},
        {"opcode": "createAny", "templatePath": "class.yaml"},
        {"opcode": "createAny", "templatePath": "claim.yaml", "namespace": "init", "count": 3},
        {"opcode": "allocResourceClaims", "namespace": "init"},
        {"opcode": "createAny", "templatePath": "template.yaml", "namespace": "test"},
        {"opcode": "createPods", "namespace": "test", "count": 1, "steadyState": True, "duration": "3s",
         "podTemplatePath": "claiming.yaml", "collectMetrics": True},
        {"opcode": "createPods", "namespace": "test", "count": 2, "podTemplatePath": "claiming.yaml",
         "skipWaitToCompletion": True},
        {"opcode": "sleep", "duration": "5s"},
    ]  # fmt: skip
    outcome, pods = run(tmp_path, operations)
    assert outcome.passed, outcome.problems
    # of four devices three are taken by claims without pods
    assert sorted(bool(pod.spec.node_name) for pod in pods) == [False, True]


@pytest.mark.parametrize("enabled", [True, False])
def test_feature_gates_are_set_as_far_as_they_can_be(tmp_path: Path, enabled: bool) -> None:
    (tmp_path / "class.yaml").write_text(
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: c}\n"
        "spec: {extendedResourceName: d.io/gpu}\n"
    )
    (tmp_path / "rule.yaml").write_text(
        "apiVersion: resource.k8s.io/v1alpha3\nkind: DeviceTaintRule\nmetadata: {name: all}\n"
        "spec: {deviceSelector: {}, taint: {key: d.io/a, effect: NoSchedule}}\n"
    )
    (tmp_path / "gpu.yaml").write_text(POD.replace("cpu: CPU", "d.io/gpu: 1}, limits: {d.io/gpu: 1"))
    operations: list[dict[str, Any]] = [
        {"opcode": "createNodes", "count": 1},
        {"opcode": "createResourceDriver", "driverName": "d.io", "nodes": "node-0-*", "maxClaimsPerNode": 1},
        {"opcode": "createAny", "templatePath": "class.yaml"},
        {"opcode": "createAny", "templatePath": "rule.yaml"},
        {"opcode": "createPods", "count": 1, "podTemplatePath": "gpu.yaml", "collectMetrics": True},
    ]
    gates = {"DRAExtendedResource": enabled, "SchedulerQueueingHints": False, "OfAnotherVersion": True}
    outcome, _ = run(tmp_path, operations, featureGates=gates)
    assert outcome.scheduled == int(enabled)


def test_pods_that_never_fit_fail_the_workload(tmp_path: Path) -> None:
    outcome, _ = run(
        tmp_path,
        [{"opcode": "createNodes", "count": 1}, {"opcode": "createPods", "count": 2, "collectMetrics": True}],
        defaultPodTemplatePath="pod3.yaml",
    )
    assert not outcome.passed
    assert "1 of 2 pods of namespace namespace-1 not scheduled" in outcome.problems[0]
    assert "Insufficient cpu" in outcome.problems[0]


def test_thresholds() -> None:
    item = DataItem({"Average": 100.0}, "pods/s", {"Name": "n", "Metric": "SchedulingThroughput"})
    assert check_threshold([item], 90, MetricSelector()) == []
    assert item.data["AverageThreshold"] == 90
    assert check_threshold([item], 110, MetricSelector()) == [
        "n: SchedulingThroughput Average: 100.0, expected higher than 110"
    ]
    assert check_threshold([item], 90, MetricSelector(expect_lower=True))


def test_quantiles_are_interpolated() -> None:
    counts = {0.1: 5.0, 0.2: 10.0, inf: 10.0, -1: 1.0}
    assert quantile(counts, 0.5) == pytest.approx(0.1)
    assert quantile(counts, 0.75) == pytest.approx(0.15)


def test_the_command_writes_json_as_upstream(tmp_path: Path) -> None:
    suite(
        tmp_path,
        [{"opcode": "createNodes", "count": 1}, {"opcode": "createPods", "count": 1, "collectMetrics": True}],
    )
    result = CliRunner().invoke(
        simulate, ["perf", str(tmp_path), "--virtual", "-o", "json", "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["version"] == "v1"
    assert len({frozenset(item["labels"]) for item in answer["dataItems"]}) == 1  # all have all labels
    assert any(item["labels"]["result"] == "not applicable" for item in answer["dataItems"])
    assert json.loads((tmp_path / "out" / "BenchmarkPerfScheduling.json").read_text()) == answer
    assert (tmp_path / "out" / "Case_w.dat").exists()


def test_suites_of_kubernetes() -> None:
    """All small workloads of the suites in a directory."""
    folder = os.environ.get(SUITES)
    if not folder:
        pytest.skip(f"set {SUITES} to Kubernetes' test/integration/scheduler_perf")
    files = sorted(map(str, Path(folder).glob("**/performance-config.yaml")))
    result = CliRunner().invoke(simulate, ["perf", *files, "--labels", "integration-test,short", "--virtual"])
    assert result.exit_code == 0, result.output
