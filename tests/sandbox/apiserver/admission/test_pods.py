"""What admission makes of pods and of the namespaces they are in."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from tests.sandbox.apiserver.kit import Direct, pod

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], {NOT_READY, UNREACHABLE}),
        ([{"key": NOT_READY, "operator": "Exists"}], {UNREACHABLE}),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}], {UNREACHABLE}),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}], {NOT_READY, UNREACHABLE}),
        ([{"operator": "Exists"}], set()),
        ([{"operator": "Exists", "effect": "NoSchedule"}], {NOT_READY, UNREACHABLE}),
    ],
)
def test_pods_stay_for_a_while_on_nodes_that_fail(
    direct: Direct, given: list[dict[str, Any]], added: set[str]
) -> None:
    made = direct.tree("create", "pods", body=pod("p", tolerations=given))["spec"]["tolerations"]
    assert made[: len(given)] == given
    assert {one["key"] for one in made[len(given) :]} == added
    assert all(one["tolerationSeconds"] == 300 for one in made[len(given) :])


def test_a_pod_gets_the_place_of_its_node(direct: Direct) -> None:
    direct.ask(
        "create", "nodes", body={"metadata": {"name": "n", "labels": {ZONE: "z", REGION: "r", "a": "b"}}}
    )
    direct.ask("create", "nodes", body={"metadata": {"name": "nowhere"}})
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    direct.ask("create", "pods", body=pod("p"))
    direct.ask("create", "pods", "p", binding, subresource="binding")
    assert direct.tree("get", "pods", "p")["metadata"]["labels"] == {ZONE: "z", REGION: "r"}
    made = direct.tree("create", "pods", body=pod("q", nodeName="n"))
    assert made["metadata"]["labels"] == {ZONE: "z", REGION: "r"}
    assert "labels" not in direct.tree("create", "pods", body=pod("r", nodeName="nowhere"))["metadata"]
    assert "labels" not in direct.tree("create", "pods", body=pod("s", nodeName="ghost"))["metadata"]


def refused(direct: Direct, *args: Any, **kwargs: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        direct.ask(*args, **kwargs)
    return caught.value


def test_nothing_new_in_namespaces_that_are_not_there_or_go(direct: Direct) -> None:
    assert refused(direct, "create", "pods", body=pod("p"), namespace="ghost").code == 404
    direct.ask("create", "namespaces", body={"metadata": {"name": "going"}})
    direct.ask("create", "configmaps", body={"metadata": {"name": "old"}}, namespace="going")
    direct.ask("delete", "namespaces", "going")
    error = refused(direct, "create", "pods", body=pod("p"), namespace="going")
    assert (error.code, error.details["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    patch = {"content_type": "application/merge-patch+json", "namespace": "going"}
    direct.ask("patch", "configmaps", "old", {"data": {"a": "b"}}, **patch)
    direct.ask("delete", "configmaps", "old", namespace="going")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_namespaces_that_stay(direct: Direct, name: str) -> None:
    error = refused(direct, "delete", "namespaces", name)
    assert (error.code, error.message) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )
