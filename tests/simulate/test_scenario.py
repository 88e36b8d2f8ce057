"""Scenario files: strict decoding, and problems with file, line, field and hint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mooring.config.findings import ConfigError
from mooring.simulate.distributions import parse_distribution
from mooring.simulate.plan import Plan, compile_plan
from mooring.simulate.processes import parse_process
from mooring.simulate.random_streams import stream
from mooring.simulate.scenario import load_scenario
from mooring.simulate.units import format_span, parse_rate, parse_seeds, parse_span
from tests.simulate.runs import EXAMPLES

HEAD = "apiVersion: mooring/v1alpha1\nkind: Simulation\nspec:\n"
NODES = "  cluster: [{generate: {template: node.yaml, count: 2}}]\n"
PODS = "  workload: [{generate: {template: pod.yaml, arrivals: {burst: {count: 3}}, runTime: 10s}}]\n"
NODE = "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: '2', pods: '10'}}}"
SPEC = "{containers: [{name: c, resources: {requests: {cpu: '1'}}}]}"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: " + SPEC + "}"
JOB = (
    "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, "
    "spec: {parallelism: 2, completions: 2, template: {spec: " + SPEC + "}}}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "pod.yaml").write_text(POD)
    return tmp_path


def compile_text(folder: Path, text: str) -> Plan:
    (folder / "scenario.yaml").write_text(text)
    return compile_plan(load_scenario(folder / "scenario.yaml"))


def problems(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        compile_text(folder, text)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            NODES + PODS + "  sedes: 3\n",
            'scenario.yaml:6: spec.sedes: unknown field "sedes"\n  hint: did you mean "seeds"?',
        ),
        (
            NODES + PODS + "  seeds: x\n",
            "scenario.yaml:6: spec.seeds: expected a seed, a range such as 42..51",
        ),
        (NODES + PODS + "  until: 3 days\n", "scenario.yaml:6: spec.until: expected a duration such as"),
        (
            NODES + PODS + "  depth: deep\n",
            "scenario.yaml:6: spec.depth: expected core or cluster or perf, found",
        ),
        (PODS, "spec.cluster: no nodes"),
        (NODES, "spec.workload: no pods arrive"),
        (
            NODES + "  workload: [{generate: {template: pod.yaml, arrivals: {poison: 2/s}, for: 1h}}]\n",
            'spec.workload[0].generate: arrivals: unknown arrival process "poison": did you mean "poisson"',
        ),
        (
            NODES + "  workload: [{generate: {template: pod.yaml, arrivals: {poisson: 2/s}}}]\n",
            "arrivals without end: give for, count, or until",
        ),
        (
            NODES
            + "  workload: [{generate: {template: pod.yaml, runTime: {lognormal: {median: 1h, p95: 1m}}}}]\n",
            "runTime: lognormal: expected 0 < median <= p95",
        ),
        (NODES + "  workload: [{generate: {template: none.yaml}}]\n", "none.yaml: No such file or directory"),
        (
            NODES + "  workload: [{}]\n",
            "spec.workload[0]: expected exactly one of trace, generate, manifests",
        ),
        (NODES + "  workload: [{trace: {format: openb, path: x.csv}}]\n", 'unknown trace format "openb"'),
        (NODES + PODS + "  policies: [{name: a, config: no.yaml}]\n", "no.yaml: No such file or directory"),
        (NODES + PODS + "  policies: [{name: a}, {name: a}]\n", 'two policies are named "a"'),
        (NODES + PODS + "  policies: [{name: a, plugins: ['nowhere:X']}]\n", "nowhere"),
        (
            NODES + PODS + "  expect: [{metric: bound, within: [3]}]\n",
            "expected two numbers: [lowest, highest]",
        ),
        (
            NODES + PODS + "  events: [{at: 1h, nodes: {fail: {count: 0}}}]\n",
            "count: expected a number from 1",
        ),
        (NODES + PODS + "  events: [{at: soon, apply: pod.yaml}]\n", "expected a duration"),
    ],
)
def test_problems_name_file_line_field_and_hint(folder: Path, body: str, expected: str) -> None:
    assert expected in problems(folder, HEAD + body)


def test_a_truncated_trace_and_one_without_nodes_are_reported(folder: Path) -> None:
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,1000,1024,0")
    text = HEAD + "  cluster: [{trace: {format: openb-nodes, path: nodes.csv}}]\n" + PODS
    assert "nodes.csv:2: expected 5 columns\n  hint: the file may be truncated" in problems(folder, text)
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\n")
    assert "nodes.csv: no nodes in the file" in problems(folder, text)
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,many,1024,0,\n")
    assert "nodes.csv:2: cpu_milli: expected a number that is not negative" in problems(folder, text)
    (folder / "nodes.csv").write_text("sn,cpu\nn,1\n")
    assert "nodes.csv:1: no column cpu_milli, memory_mib, gpu, model" in problems(folder, text)


def test_adding_a_source_does_not_change_the_others(folder: Path) -> None:
    first = (
        "  - generate: {template: pod.yaml, arrivals: {poisson: 1/s}, runTime: {exponential: 5s}, for: 1m}\n"
    )
    second = "  - generate: {template: pod.yaml, arrivals: {poisson: 2/s}, runTime: 1s, for: 1m}\n"
    alone = compile_text(folder, HEAD + NODES + "  workload:\n" + first).inputs(7)[1]
    both = compile_text(folder, HEAD + NODES + "  workload:\n" + first + second).inputs(7)[1]
    mine = np.array([name.startswith("workload-0") for name in both.names])
    assert np.array_equal(both.time[mine], alone.time)
    assert np.array_equal(both.run_time[mine], alone.run_time)
    assert len(both) > len(alone)
    assert bool(np.all(np.diff(both.time) >= 0))


def test_templates_with_an_index_make_a_pod_for_each(folder: Path) -> None:
    (folder / "pod.yaml").write_text(
        POD.replace("name: p", "name: 'p-{{ index }}', labels: {app: 'a{{ index }}'}")
    )
    objects, arrivals = compile_text(folder, HEAD + NODES + PODS).inputs(0)
    assert [obj.name for obj in objects] == ["n-0", "n-1"]
    assert list(arrivals.names) == ["p-0", "p-1", "p-2"]
    assert arrivals.templates[2].pod.metadata.labels == {"app": "a2"}


def test_workloads_arrive_with_the_pods_that_controllers_make(folder: Path) -> None:
    (folder / "pod.yaml").write_text(JOB)
    _, arrivals = compile_text(folder, HEAD + NODES + PODS.replace(", runTime: 10s", "")).inputs(0)
    assert len(arrivals) == 6
    assert all(template.replaced for template in arrivals.templates)
    assert set(arrivals.run_time.tolist()) == {1.0}


def test_units() -> None:
    assert [parse_span(each) for each in (90, "1h30m", "7d", "250ms", "0")] == [90, 5400, 604800, 0.25, 0]
    assert [parse_rate(each) for each in ("2/s", "300/min", "36/h")] == [2, 5, 0.01]
    assert parse_seeds("42..44") == [42, 43, 44]
    assert parse_seeds([3, 1, 3]) == [3, 1]
    assert [format_span(each) for each in (0, 0.25, 42.5, 3700, 90000)] == [
        "0s",
        "250ms",
        "42.5s",
        "1h 1m",
        "1d 1h",
    ]
    for wrong in (
        -1,
        "x",
        True,
        None,
        "1h 30m",
        float("nan"),
        float("inf"),
        "9" * 400 + "s",
        1e300,
        "999999999999h",
    ):
        with pytest.raises(ValueError, match="expected a duration"):
            parse_span(wrong)


@pytest.mark.parametrize(
    ("spec", "mean", "p95"),
    [
        ("10s", 10, 10),
        ({"exponential": "10s"}, 10, 29.96),
        ({"uniform": ["5s", "15s"]}, 10, 14.5),
        ({"lognormal": {"median": "10s", "p95": "60s"}}, 18.1, 60),
        ({"weibull": {"scale": "10s", "shape": 2}}, 8.86, 17.3),
    ],
)
def test_distributions_have_the_moments_they_promise(spec: object, mean: float, p95: float) -> None:
    values = parse_distribution(spec, Path())(stream(1, "x"), 200_000)
    assert values.mean() == pytest.approx(mean, rel=0.02)
    assert np.percentile(values, 95) == pytest.approx(p95, rel=0.02)


def test_daily_curves_cron_and_bursts() -> None:
    times = parse_process({"poisson": "1/s", "daily": [["6h", 3.0], ["18h", 1.0]]})(
        stream(1, "x"), 2 * 86400.0
    )
    hour = (times % 86400) // 3600
    day, night = (hour >= 6) & (hour < 18), (hour < 6) | (hour >= 18)
    assert day.sum() / night.sum() == pytest.approx(3, rel=0.02)
    assert len(times) == pytest.approx(2 * 43200 * 4, rel=0.02)
    assert parse_process({"cron": "30 6 * * *"})(stream(1, "x"), 2 * 86400.0).tolist() == [23400, 109800]
    assert parse_process({"burst": {"count": 3, "at": "1h"}})(stream(1, "x"), 1e9).tolist() == [3600] * 3
    assert parse_process({"every": "10m"})(stream(1, "x"), 3600.0).tolist() == [
        0,
        600,
        1200,
        1800,
        2400,
        3000,
    ]


def test_the_examples_compile() -> None:
    for file in (EXAMPLES / "simulate" / "packing.yaml", EXAMPLES / "fgd" / "synthetic.yaml"):
        assert compile_plan(load_scenario(file)).policies
