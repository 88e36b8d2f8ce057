"""Pods on a real API server: bound, or told why not, in the words that kubectl shows."""

from __future__ import annotations

import re

import pytest

from tests.live.replica import Replica, wait_for
from tests.live.scene import Scene

pytestmark = pytest.mark.usefixtures("scheduler")


def test_a_pod_is_bound_and_told_about(scene: Scene) -> None:
    node = scene.node("a")
    scene.pod("web")
    assert scene.bound("web") == [node]
    event = scene.event("web", "Scheduled")
    assert (event["type"], event["action"]) == ("Normal", "Binding")
    assert event["note"] == f"Successfully assigned {scene.namespace}/web to {node}"
    assert event["reportingController"] == scene.scheduler_name
    condition = scene.condition("web")
    assert condition is not None
    assert condition["status"] == "True"

    described = scene.cluster.kubectl("describe", "pod", "web", f"--namespace={scene.namespace}")
    assert re.search(f"^Node: +{node}/", described, re.MULTILINE)
    (line,) = [line for line in described.splitlines() if "Successfully assigned" in line]
    assert line.split()[:2] == ["Normal", "Scheduled"]


def test_what_does_not_fit_is_told_and_bound_when_a_node_comes(scene: Scene) -> None:
    scene.node("small", cpu="1")
    scene.pod("big", cpu="8")
    condition = scene.refused("big", "Insufficient cpu")
    assert condition["reason"] == "Unschedulable"
    assert "nodes are available: 1 Insufficient cpu" in condition["message"]
    assert condition["observedGeneration"] == scene.get("big")["metadata"]["generation"]
    event = scene.event("big", "FailedScheduling")
    assert (event["type"], event["action"]) == ("Warning", "Scheduling")
    assert event["note"] == condition["message"]
    phase = scene.cluster.kubectl("get", "pod", "big", f"--namespace={scene.namespace}", "--no-headers")
    assert phase.split()[2] == "Pending"

    large = scene.node("large", cpu="16")
    assert scene.bound("big") == [large]
    healed = scene.condition("big")
    assert healed is not None
    assert healed["status"] == "True"
    scene.event("big", "Scheduled")


def test_pods_of_other_schedulers_are_not_touched(scene: Scene) -> None:
    scene.node("a")
    scene.pod("strange", schedulerName="nobody-knows-me")
    scene.pod("ours")
    scene.bound("ours")
    scene.event("ours", "Scheduled")
    strange = scene.get("strange")
    assert "nodeName" not in strange["spec"]
    assert not strange["status"].get("conditions")
    assert scene.events("strange", "FailedScheduling") == []


def test_gates_hold_a_pod_until_they_are_gone(scene: Scene) -> None:
    node = scene.node("a")
    scene.pod("gated", schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}])
    scene.pod("other")
    scene.bound("other")
    condition = scene.condition("gated")
    assert condition is not None
    assert condition["reason"] == "SchedulingGated"  # as the API server wrote it
    path = f"{scene.pods_path}/gated"
    scene.api.patch(path, {"spec": {"schedulingGates": [{"name": "example.com/b"}]}})
    assert scene.node_of("gated") == ""
    scene.api.patch(path, {"spec": {"schedulingGates": []}})
    assert scene.bound("gated") == [node]
    assert scene.events("gated", "FailedScheduling") == []


def test_a_pod_deleted_while_pending_leaves_its_place_to_others(scene: Scene) -> None:
    scene.node("a", cpu="2")
    scene.pod("first", cpu="2")
    scene.bound("first")
    scene.pod("second", cpu="2")
    scene.refused("second")
    scene.delete("second")
    scene.pod("third", cpu="2")
    scene.refused("third")
    scene.delete("first")
    scene.bound("third")


class TestRefusedBindings:
    """A policy of the API server denies the bindings of pods with a label, as an admission webhook may."""

    POLICIES = "/apis/admissionregistration.k8s.io/v1"

    @pytest.fixture(autouse=True)
    def policy(self, scene: Scene) -> str:
        name = scene.namespace
        scene.create(
            f"{self.POLICIES}/validatingadmissionpolicies",
            {
                "metadata": {"name": name},
                "spec": {
                    "matchConstraints": {
                        "resourceRules": [
                            {
                                "apiGroups": [""],
                                "apiVersions": ["v1"],
                                "operations": ["CREATE"],
                                "resources": ["pods/binding"],
                            }
                        ]
                    },
                    "validations": [
                        {
                            "expression": "!object.metadata.name.startsWith('denied')",
                            "message": "bindings are closed on Mondays",
                        }
                    ],
                },
            },
        )
        scene.create(
            f"{self.POLICIES}/validatingadmissionpolicybindings",
            {
                "metadata": {"name": name},
                "spec": {
                    "policyName": name,
                    "validationActions": ["Deny"],
                    "matchResources": {
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}
                    },
                },
            },
        )
        return name

    def test_are_told_retried_with_backoff_and_disturb_nobody(
        self, scene: Scene, scheduler: Replica, policy: str
    ) -> None:
        node = scene.node("a")
        self._wait_until_in_force(scene)
        scene.pod("denied")
        scene.pod("other")
        assert scene.bound("other") == [node]
        condition = scene.refused("denied", "bindings are closed on Mondays")
        assert condition["reason"] == "SchedulerError"
        assert condition["message"].startswith('running Bind plugin "DefaultBinder": ')
        first = scene.event("denied", "FailedScheduling")
        assert first["note"] == condition["message"]

        def repeated() -> list[int]:
            events = scene.events("denied", "FailedScheduling")
            return [e["series"]["count"] for e in events if e.get("series")]

        (count,) = wait_for(repeated, "the repeats become a series")
        assert count >= 2
        told = scheduler.lines("Failed to bind pod", f"{scene.namespace}/denied", "closed on Mondays")
        assert len([line for line in told if line.startswith("E")]) == 1
        scene.api.delete(f"{self.POLICIES}/validatingadmissionpolicybindings/{policy}")
        assert scene.bound("denied") == [node]

    def _wait_until_in_force(self, scene: Scene) -> None:
        """The API server takes a moment to know its own policies."""
        path = scene.pods_path
        body = {"target": {"kind": "Node", "name": "nowhere"}}

        def denied() -> bool:
            name = "denied-probe"
            scene.api.create(path, scene.pod_body(name, schedulerName="nobody"))
            try:
                scene.api.create(f"{path}/{name}/binding", {"metadata": {"name": name}, **body})
            except Exception as refusal:
                return "Mondays" in str(refusal)
            finally:
                scene.delete(name)
            return False

        wait_for(denied, "the policy is in force", every=0.2)
