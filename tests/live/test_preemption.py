"""Preemption on a real API server: victims are marked, deleted and told about; budgets are kept."""

from __future__ import annotations

import pytest

from tests.live.cluster import Object
from tests.live.replica import wait_for
from tests.live.scene import Scene

pytestmark = pytest.mark.usefixtures("scheduler")

BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


@pytest.fixture
def urgent(scene: Scene) -> str:
    """A priority class above the others."""
    name = f"urgent-{scene.namespace}"
    scene.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    return name


def marked(scene: Scene, name: str) -> Object:
    """Wait until a pod is marked as a victim and is being deleted."""

    def look() -> Object | None:
        going = "deletionTimestamp" in scene.get(name)["metadata"]
        return scene.condition(name, "DisruptionTarget") if going else None

    condition = wait_for(look, f"{name} is marked and going")
    assert condition is not None
    return condition


def test_a_victim_makes_room(scene: Scene, urgent: str) -> None:
    node = scene.node("a", cpu="2")
    scene.pod("victim", cpu="2")
    scene.bound("victim")
    made = scene.pod("urgent", cpu="2", priorityClassName=urgent)

    mark = marked(scene, "victim")
    assert (mark["status"], mark["reason"]) == ("True", "PreemptionByScheduler")
    assert mark["message"] == f"{scene.scheduler_name}: preempting to accommodate a higher priority pod"
    event = scene.event("victim", "Preempted")
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert event["note"] == f"Preempted by pod {made['metadata']['uid']} on node {node}"

    # Nobody runs the victim, so it goes on terminating; the place is promised meanwhile.
    wait_for(lambda: scene.get("urgent")["status"].get("nominatedNodeName") == node, "the node is nominated")
    condition = scene.refused("urgent", "Insufficient cpu")
    assert "preemption: 0/1 nodes are available" not in condition["message"]
    assert scene.node_of("urgent") == ""

    scene.delete("victim")
    assert scene.bound("urgent") == [node]
    assert "nominatedNodeName" not in scene.get("urgent")["status"]


def test_a_budget_sends_it_to_another_victim(scene: Scene, urgent: str) -> None:
    """Two nodes, each with a victim of the same priority; one of them is protected."""
    for name in ("a", "b"):
        scene.node(name, cpu="2")
    for name in ("protected", "other"):
        scene.pod(name, cpu="2", labels={"name": name})
    protected, other = scene.bound("protected", "other")
    path = BUDGETS.format(scene.namespace)
    selector = {"matchLabels": {"name": "protected"}}
    budget = {"metadata": {"name": "budget"}, "spec": {"minAvailable": 1, "selector": selector}}
    scene.create(path, budget)
    status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    scene.api.patch(f"{path}/budget/status", {"status": {**status, "observedGeneration": 1}})

    for number in range(3):  # chance alone would not choose the same one each time
        name = f"urgent-{number}"
        scene.pod(name, cpu="2", priorityClassName=urgent)
        marked(scene, "other")
        scene.delete("other")
        assert scene.bound(name) == [other]
        scene.delete(name)
        scene.pod("other", cpu="2", labels={"name": "other"})
        assert scene.bound("other") == [other]
    assert scene.node_of("protected") == protected
    assert "deletionTimestamp" not in scene.get("protected")["metadata"]


def test_pods_that_never_preempt_wait(scene: Scene) -> None:
    name = f"polite-{scene.namespace}"
    body = {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": "Never"}
    scene.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
    scene.node("a", cpu="2")
    scene.pod("there", cpu="2")
    scene.bound("there")
    scene.pod("polite", cpu="2", priorityClassName=name)
    condition = scene.refused("polite", "not eligible due to preemptionPolicy=Never.")
    assert condition["reason"] == "Unschedulable"
    assert "deletionTimestamp" not in scene.get("there")["metadata"]
    scene.delete("there")
    scene.bound("polite")
