"""What if: a copy of the cluster, changed and scheduled; the cluster itself stays as it is."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from mooring.api.meta import KubeObject
from mooring.testing import make_node, make_pod
from mooring.web import what_if
from mooring.web.what_if import changed_config
from tests.web.kit import Page, serving


def evaluate(objects: list[KubeObject], changes: dict[str, Any], status: int = 200) -> Any:
    answers = []

    async def scenario(page: Page) -> None:
        before = (await page.get("/v1/cluster")).json
        reply = await page.post("/v1/what-if", changes)
        assert reply.status == status, reply.body
        assert (await page.get("/v1/cluster")).json == before
        answers.append(reply.json)

    serving(objects, scenario)
    return answers[0]


def placements(result: Any) -> dict[str, tuple[str, str, str]]:
    return {
        row["pod"].removeprefix("default/"): (
            row.get("now", ""), row.get("then", ""), row.get("result", "same"),
        )
        for row in result["pods"]
    }  # fmt: skip


def test_a_pending_pod_fits_on_another_node() -> None:
    objects = [
        make_node("n1", cpu="1"),
        make_pod("a", requests={"cpu": "1"}, node_name="n1"),
        make_pod("b", requests={"cpu": "1"}),
    ]
    result = evaluate(objects, {"addNodes": [{"like": "n1"}]})
    assert placements(result) == {"a": ("n1", "n1", "same"), "b": ("", "n1-copy-1", "scheduled")}
    assert result["counts"] == {"same": 1, "scheduled": 1}


def test_a_manifest_is_added_and_workloads_become_pods() -> None:
    manifest = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""
    result = evaluate([make_node("n1")], {"manifest": manifest})
    assert [row["then"] for row in result["pods"]] == ["n1", "n1"]
    assert result["counts"] == {"new": 2}


def test_weights_and_arguments_change_where_pods_go() -> None:
    objects = [
        make_node("n1", cpu="4", memory="4Gi"),
        make_node("n2", cpu="4", memory="4Gi"),
        make_pod("old", requests={"cpu": "1", "memory": "1Gi"}, node_name="n1"),
        make_pod("new", requests={"cpu": "1", "memory": "1Gi"}),
    ]
    assert placements(evaluate(objects, {}))["new"][1] == "n2"
    args = {"scoringStrategy": {"type": "MostAllocated"}}
    packed = {"args": {"NodeResourcesFit": args}, "weights": {"NodeResourcesFit": 100}}
    assert placements(evaluate(objects, packed))["new"][1] == "n1"


def test_taints_removed_nodes_and_pods_placed_again() -> None:
    objects = [make_node("n1"), make_node("n2"), make_pod("a", node_name="n1")]
    tainted = {"taints": [{"node": "n1", "taint": "x=y:NoSchedule"}], "reschedule": True}
    assert placements(evaluate(objects, tainted)) == {"a": ("n1", "n2", "moved")}
    assert placements(evaluate(objects, {"removeNodes": ["n1", "n2"]})) == {"a": ("n1", "", "pending")}


def test_invalid_changes_say_what_is_wrong() -> None:
    def message(changes: dict[str, Any], status: int = 400) -> str:
        return str(evaluate([make_node("n1")], changes, status)["message"])

    assert 'node "n9" not found' in message({"removeNodes": ["n9"]})
    assert "expected key=value:Effect" in message({"taints": [{"node": "n1", "taint": "x"}]})
    assert 'plugin "Nope" is not enabled' in message({"weights": {"Nope": 1}})
    assert "line 2" in message({"manifest": "kind: Pod\n  name: [x"})
    assert "scoringStrategy" in message({"args": {"NodeResourcesFit": {"scoringStrategy": 1}}}, 422)


def test_what_is_added_is_bounded_in_all() -> None:
    many = {"addNodes": [{"like": "n1", "count": 3000}] * 2}
    assert "at most 5000 nodes" in evaluate([make_node("n1")], many, 400)["message"]
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"note": "x" * 50_000}},
        "spec": {"containers": [{"name": "main"}]},
    }
    spec = {"replicas": 9000, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    large = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "large"}, "spec": spec}
    assert "exceed 128 MiB" in evaluate([make_node("n1")], {"manifest": json.dumps(large)}, 400)["message"]


def test_a_kept_copy_answers_as_a_new_one_does() -> None:
    """Each question is asked of a copy that others were asked of before, while the cluster changes."""
    manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: extra}\nspec: {containers: [{name: c}]}"
    questions: list[dict[str, Any]] = [
        {"addNodes": [{"like": "n1", "count": 2}], "manifest": manifest},
        {"removeNodes": ["n2"]},
        {"taints": [{"node": "n1", "taint": "x=y:NoExecute"}], "reschedule": True},
        {"manifest": manifest.replace("extra", "small").replace("spec: {", "spec: {priority: 9, ")},
        {},
    ]
    objects: list[KubeObject] = [
        *(make_node(f"n{i}", cpu="2") for i in (1, 2, 3)),
        *(make_pod(f"on-{i}", requests={"cpu": "1"}, node_name=f"n{i}") for i in (1, 2, 3)),
        make_pod("small", requests={"cpu": "1"}),
        make_pod("urgent", requests={"cpu": "2"}, priority=10),
        make_pod("large", requests={"cpu": "9"}),
    ]
    later = make_pod("later", requests={"cpu": "1"})

    async def scenario(page: Page) -> None:
        assert (await page.post("/v1/what-if/prepare", {})).status == 200
        kept = [await ask(page, each) for each in questions]
        page.core.apply(later)
        page.core.delete(objects[0])
        kept += [await ask(page, each) for each in (questions[1], {})]
        assert kept == fresh

    async def ask(page: Page, question: dict[str, Any]) -> Any:
        return comparable((await page.post("/v1/what-if", question)).json)

    def comparable(answer: Any) -> Any:
        """Of equally good nodes and victims, others may be chosen, so that a pod may move or stay."""
        results = [result for _, then, result in placements(answer).values() if not then or result == "new"]
        return sorted(results), sum(answer["counts"].values()), answer["nodes"]

    fresh = [evaluate(objects, each) for each in questions]
    fresh += [evaluate([*objects[1:], later], each) for each in (questions[1], {})]
    fresh = [comparable(each) for each in fresh]
    serving(objects, scenario)


def test_a_configuration_with_thousands_of_errors_does_not_delay_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []

    def note(config: Any, changes: Any) -> Any:
        threads.append(threading.current_thread())
        return changed_config(config, changes)

    monkeypatch.setattr(what_if, "changed_config", note)
    resources = [{"name": f"{n}", "weight": 1} for n in range(100)]
    args = {"scoringStrategy": {"type": "None", "resources": resources}}
    evaluate([make_node("n1")], {"args": {"NodeResourcesFit": args}}, 422)
    assert threads
    assert threading.main_thread() not in threads
