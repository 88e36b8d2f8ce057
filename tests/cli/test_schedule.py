"""`mooring schedule`, through the installed command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import mooring

ROOT = Path(__file__).parent.parent.parent
QUICKSTART = str(ROOT / "examples" / "quickstart")


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": allocatable},
    }


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def manifests(*objects: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def test_the_quickstart() -> None:
    result = mooring("schedule", "-f", QUICKSTART)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["POD", "NODE", "WHY"]
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines[1:-2]}
    assert rows["default/batch-2"] == ["<evicted>", "from node-a2, to make room for default/hotfix"]
    assert rows["default/train"] == ["gpu-b2", "the only one of 4 nodes that fits"]
    assert rows["default/db-1"][0] == "<pending>"
    assert "1 node(s) didn't match pod anti-affinity rules" in rows["default/db-1"][1]
    assert "ahead of" in rows["default/web-1"][1]
    assert lines[-1] == "7 of 8 pods scheduled on 4 nodes, 1 evicted, 1 already had a node"


def test_explain_tells_scores_and_refusals() -> None:
    result = mooring("schedule", "-f", QUICKSTART, "--explain", "default/web-2", "--explain", "nobody")
    assert "default/web-2 (default-scheduler): scheduled to" in result.stdout
    assert "TaintToleration: node(s) had untolerated taint(s)" in result.stdout
    assert "PodTopologySpread" in result.stdout
    assert "--explain nobody: no such pod in the manifests" in result.stderr
    assert result.returncode == 1


def test_json_has_outcomes_and_whole_decisions() -> None:
    result = mooring("schedule", "-f", "-", "-o", "json", stdin=manifests(node("a"), node("b"), pod("p")))
    answer = json.loads(result.stdout)
    outcome = answer["outcomes"][0]
    assert (outcome["pod"], outcome["state"]) == ("default/p", "scheduled")
    decision = answer["decisions"][0]
    assert decision["node"] == outcome["node"]
    assert decision["feasible"] == ["a", "b"]
    assert decision["scores"]["NodeResourcesFit"]["weight"] == 1
    assert len(decision["total"]) == 2


def test_a_malformed_object_is_named_and_the_others_are_scheduled() -> None:
    bad_node = node("broken", cpu="4 cores")
    bad_pod = pod("odd", nodeSelector={"a": "b"})
    expression = {"key": "zone", "operator": "Near", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    bad_pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    result = mooring("schedule", "-f", "-", stdin=manifests(node("a"), bad_node, bad_pod, pod("fine")))
    assert result.returncode == 1
    assert "Node broken: status.allocatable.cpu" in result.stderr
    assert '"4 cores"' in result.stderr
    assert "Pod default/odd: spec.affinity.nodeAffinity" in result.stderr
    assert '"Near"' in result.stderr
    assert "default/fine  a" in result.stdout
    assert "1 of 1 pod scheduled on 1 node" in result.stdout


def test_a_configuration_picks_the_plugins(tmp_path: Path) -> None:
    (tmp_path / "packing.py").write_text(
        "from mooring.framework import Plugin\n"
        "class OnlyB(Plugin):\n"
        "    name = 'OnlyB'\n"
        "    def score(self, state, pod, node):\n"
        "        return 100 if node.name == 'b' else 0\n"
    )
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "OnlyB"}]}}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    (tmp_path / "objects.json").write_text(
        manifests(node("a"), node("b"), node("c"), *(pod(f"p{i}") for i in range(3)))
    )
    options = ("--config", "config.yaml", "--plugin", "packing:OnlyB")
    result = mooring("schedule", "-f", "objects.json", *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert [line.split()[1] for line in result.stdout.splitlines()[1:4]] == ["b", "b", "b"]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--config", "missing.yaml"], "missing.yaml: No such file or directory"),
        (["--plugin", "nowhere:Plugin"], '--plugin nowhere:Plugin: no module named "nowhere" in'),
        (["--plugin", "nowhere"], 'expected "module:Class"'),
        (["-f", "missing-manifest.yaml"], "missing-manifest.yaml: No such file or directory"),
    ],
)
def test_what_cannot_be_used_is_named_and_exits_2(args: list[str], text: str, tmp_path: Path) -> None:
    result = mooring("schedule", "-f", "-", *args, cwd=tmp_path, stdin="")
    assert result.returncode == 2
    assert text in result.stderr
    assert "Traceback" not in result.stderr


def test_pods_nobody_tries_say_why() -> None:
    gated = pod("gated", schedulingGates=[{"name": "example.com/quota"}])
    foreign = pod("foreign", schedulerName="other")
    result = mooring("schedule", "-f", "-", stdin=manifests(node("a"), gated, foreign))
    assert "gated by SchedulingGates: example.com/quota" in result.stdout
    assert 'no profile has schedulerName "other"' in result.stdout


@pytest.mark.slow
def test_the_seed_decides_among_equals() -> None:
    objects = manifests(*(node(f"n{i}") for i in range(8)), pod("p"))
    places = {
        mooring("schedule", "-f", "-", "--seed", str(seed), stdin=objects).stdout.splitlines()[1].split()[1]
        for seed in range(4)
    }
    assert len(places) > 1
    again = [mooring("schedule", "-f", "-", "--seed", "3", stdin=objects).stdout for _ in range(2)]
    assert again[0] == again[1]


def workload(kind: str, name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name, cpu)["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def test_workloads_come_with_their_pods() -> None:
    """As their controllers would make them. One complaint about a template is enough, however many pods."""
    objects = (
        node("n1"),
        node("n2"),
        workload("Deployment", "web", replicas=2),
        workload("DaemonSet", "agent", cpu="100m"),
        workload("Deployment", "bad", cpu="lots", replicas=5),
        workload("StatefulSet", "odd", replicas="two"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}},
    )
    result = mooring("schedule", "-f", "-", stdin=manifests(*objects))
    assert result.returncode == 1
    rows = [line.split()[:2] for line in result.stdout.splitlines()[1:-2]]
    web = sorted(where for name, where in rows if name.startswith("default/web-"))
    assert web == ["n1", "n2"]
    assert sorted(row for row in rows if row[0].startswith("default/agent")) == [
        ["default/agent-n1", "n1"],
        ["default/agent-n2", "n2"],
    ]
    assert len(rows) == 4
    ignored, bad, odd = result.stderr.splitlines()
    assert ignored == "ignored: <stdin>: ConfigMap shop/settings"
    assert odd == 'skipped: <stdin>: StatefulSet default/odd: spec.replicas: found "two", expected an integer'
    assert bad == (
        "skipped: <stdin>: Deployment default/bad: spec.template.spec.containers[0].resources.requests.cpu: "
        'found "lots", expected a quantity such as "100m" or "1Gi"'
    )


def test_what_only_a_cluster_knows_is_missed_once_for_all_pods_of_a_workload() -> None:
    objects = (node("n1"), workload("Deployment", "web", replicas=3))
    objects[1]["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    result = mooring("schedule", "-f", "-", stdin=manifests(*objects))
    assert result.returncode == 1
    (missed,) = result.stderr.splitlines()
    assert missed.startswith("skipped: <stdin>: Deployment default/web: Pod default/web-")
    assert 'spec.priorityClassName: found "urgent"' in missed


def test_hostile_manifests_are_reported_and_the_rest_is_scheduled(tmp_path: Path) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "huge"},
        "spec": {
            "replicas": 2147483647,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]},
        },
    }
    named = pod("evil\x1b[2J")
    for name, tree in {
        "1.json": node("n"),
        "2.json": deployment,
        "3.json": named,
        "4.json": pod("fine"),
    }.items():
        (tmp_path / name).write_text(json.dumps(tree))
    (tmp_path / "5.yaml").write_text("a: &a [*a]\n")
    result = mooring("schedule", "-f", str(tmp_path))
    assert "default/fine" in result.stdout
    assert "2.json: Deployment default/huge: needs more than 150,000 pods" in result.stderr
    assert "5.yaml: document at line 1: not YAML: excessive aliasing" in result.stderr
    assert "\x1b" not in result.stdout + result.stderr


def test_a_manifest_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"kind: \xff")
    result = mooring("schedule", "-f", str(tmp_path / "bad.yaml"))
    assert result.returncode == 2
    assert f"{tmp_path / 'bad.yaml'}: byte 6: not UTF-8" in result.stderr


def test_pending_pods_fail_a_run_on_request() -> None:
    objects = manifests(node("a"), pod("big", cpu="9"))
    assert mooring("schedule", "-f", "-", stdin=objects).returncode == 0
    assert mooring("schedule", "-f", "-", "--fail-on-pending", stdin=objects).returncode == 3
    fine = mooring(
        "schedule", "-f", "-", "--fail-on-pending", "-o", "yaml", stdin=manifests(node("a"), pod("p"))
    )
    assert fine.returncode == 0
    assert fine.stdout.startswith("outcomes:\n- pod: default/p\n  state: scheduled\n")


def test_groups_of_both_kinds_start_whole_or_not_at_all(tmp_path: Path) -> None:
    def group(api: str, name: str, **spec: Any) -> dict[str, Any]:
        return {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}

    gates = {"GenericWorkload": True, "GangScheduling": True}
    config = (ROOT / "examples" / "coscheduling" / "scheduler-config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(f"{config}featureGates: {json.dumps(gates)}\n")
    labelled = [pod(f"cos-{i}", "2") for i in range(3)]
    for each in labelled:
        each["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "cos"}
    native = [pod(f"own-{i}", "2", schedulingGroup={"podGroupName": "own"}) for i in range(2)]
    objects = manifests(
        node("a"),
        node("b"),
        group("scheduling.x-k8s.io/v1alpha1", "cos", minMember=3),
        group("scheduling.k8s.io/v1alpha2", "own", schedulingPolicy={"gang": {"minCount": 2}}),
        *labelled,
        *native,
    )
    result = mooring("schedule", "-f", "-", "--config", str(tmp_path / "config.yaml"), stdin=objects)
    assert result.returncode == 0, result.stderr
    rows = {line.split()[0]: line.split()[1] for line in result.stdout.splitlines() if "/" in line}
    assert all(rows[f"default/cos-{i}"] in ("a", "b") for i in range(3))
    assert all(rows[f"default/own-{i}"] == "<pending>" for i in range(2))
