"""The real kubectl against the embedded server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.embedded.kit import Running
from tests.embedded.kubectl import Kubectl, needs_kubectl

pytestmark = needs_kubectl


@pytest.fixture(scope="module")
def kubectl(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home: Path = tmp_path_factory.mktemp("home")
    return Kubectl(server.server.kubeconfig, home)


def test_it_knows_the_server(kubectl: Kubectl) -> None:
    assert "Server Version: v1.36.0+mooring" in kubectl("version")
    resources = kubectl("api-resources")
    assert "deployments                         deploy       apps/v1" in resources


def test_the_life_of_a_config_map(kubectl: Kubectl) -> None:
    assert kubectl("create", "configmap", "a", "--from-literal=x=y") == "configmap/a created"
    assert kubectl("label", "configmap", "a", "l=v") == "configmap/a labeled"
    assert kubectl("annotate", "configmap", "a", "n=v") == "configmap/a annotated"
    found = json.loads(kubectl("get", "configmap", "a", "-o", "json"))
    assert found["data"] == {"x": "y"}
    assert found["metadata"]["labels"] == {"l": "v"}
    assert kubectl("get", "configmaps", "-l", "l=v", "-o", "name") == "configmap/a"
    assert kubectl("delete", "configmap", "a") == 'configmap "a" deleted'
    missing = kubectl("get", "configmap", "a", code=1)
    assert missing == 'Error from server (NotFound): configmaps "a" not found'


def test_objects_that_it_writes_in_protobuf(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2", "--port=80")
    found = json.loads(kubectl("get", "deployment", "web", "-o", "json"))
    assert found["spec"]["replicas"] == 2
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 80}] or container["ports"][0]["containerPort"] == 80
    kubectl("scale", "deployment", "web", "--replicas=0")
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "0"
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    kubectl("create", "priorityclass", "high", "--value=1000")
    assert kubectl("get", "priorityclass", "high", "-o", "jsonpath={.value}") == "1000"


def test_who_one_is_and_what_one_may(kubectl: Kubectl) -> None:
    assert "mooring-admin" in kubectl("auth", "whoami")
    assert kubectl("auth", "can-i", "create", "pods") == "yes"


def test_watching_until_something_happens(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "fleeting")
    kubectl("wait", "--for=jsonpath={.status.phase}=Active", "namespace/fleeting", "--timeout=10s")
    kubectl("delete", "namespace", "fleeting", "--wait=false")
    phase = kubectl("get", "namespace", "fleeting", "-o", "jsonpath={.status.phase}")
    assert phase == "Terminating"
