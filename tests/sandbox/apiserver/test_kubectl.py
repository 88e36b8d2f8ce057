"""The real kubectl against the embedded server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sandbox.apiserver.kit import Running
from tests.sandbox.apiserver.kubectl import Kubectl, needs_kubectl

pytestmark = needs_kubectl


@pytest.fixture(scope="module")
def kubectl(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home: Path = tmp_path_factory.mktemp("home")
    return Kubectl(server.server.kubeconfig, home)


def test_it_knows_the_server(kubectl: Kubectl) -> None:
    assert "Server Version: v1.36.0+mooring" in kubectl("version")
    resources = kubectl("api-resources")
    assert "deployments                         deploy       apps/v1" in resources


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
    rules = [line.split() for line in kubectl("auth", "can-i", "--list").splitlines()][1:]
    assert rules[:2] == [["*.*", "[]", "[]", "[*]"], ["[*]", "[]", "[*]"]]
    assert ["selfsubjectreviews.authentication.k8s.io", "[]", "[]", "[create]"] in rules  # of a role


def test_watching_until_something_happens(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "fleeting")
    kubectl("wait", "--for=jsonpath={.status.phase}=Active", "namespace/fleeting", "--timeout=10s")
    kubectl("delete", "namespace", "fleeting", "--wait=false")
    phase = kubectl("get", "namespace", "fleeting", "-o", "jsonpath={.status.phase}")
    assert phase == "Terminating"


def test_a_token_of_an_account_is_as_good(kubectl: Kubectl) -> None:
    kubectl("get", "pods")  # what kubectl learns of the server here it need not ask for later
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot", "--duration=20m")
    shown = kubectl(f"--token={token}", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    assert shown == "system:serviceaccount:default:robot"
    refused = kubectl(f"--token={token}x", "get", "pods", code=1)
    assert refused == "error: You must be logged in to the server (Unauthorized)"


def test_what_it_cannot_connect_to_is_told_to_it_alone(
    kubectl: Kubectl, caplog: pytest.LogCaptureFixture
) -> None:
    override = {"spec": {"nodeName": "nowhere"}}
    kubectl("run", "still", "--image=i", f"--overrides={json.dumps(override)}")
    refused = kubectl("exec", "still", "--", "ls", code=1)
    assert refused == 'error: unable to upgrade connection: container not found ("still")'
    forwarding = kubectl("port-forward", "pod/still", "8080:80", code=1)
    assert "unable to forward port because pod is not running" in forwarding
    assert not caplog.records


@pytest.mark.slow
def test_a_drain_waits_for_the_budget(server: Running, kubectl: Kubectl) -> None:
    """A refused eviction is tried again until the budget allows it."""
    kubectl("create", "-f", "-", stdin="apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    override = {"spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0}}
    kubectl("run", "kept", "--image=i", "--labels=a=b", f"--overrides={json.dumps(override)}")
    running = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "pod", "kept", "--subresource=status", "-p", running)
    kubectl("create", "pdb", "budget", "--selector=a=b", "--min-available=1")
    allow = ("patch", "pdb", "budget", "--subresource=status", "--type=merge", "-p")
    kubectl(*allow, '{"status":{"observedGeneration":1,"disruptionsAllowed":0}}')
    draining = kubectl.start("drain", "n1", "--force", "--timeout=60s", errors=True)
    assert draining.stdout is not None
    try:
        told: list[str] = []
        while not any("will retry" in line for line in told):
            told.append(draining.stdout.readline())
            assert told[-1], told
        kubectl(*allow, '{"status":{"disruptionsAllowed":1}}')
        rest, _ = draining.communicate(timeout=60)
    finally:
        draining.kill()
    assert draining.returncode == 0, (told, rest)
    assert "pod/kept evicted" in rest
    assert kubectl("get", "pdb", "budget", "-o", "jsonpath={.status.disruptionsAllowed}") == "0"


def test_watching_with_the_type_of_what_happens(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "seen", "--from-literal=a=b")
    watching = kubectl.start("get", "configmap", "seen", "-w", "--output-watch-events", "--no-headers")
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline().split()[:3] == ["ADDED", "seen", "1"]
        kubectl("patch", "configmap", "seen", "-p", '{"data":{"c":"d"}}')
        assert watching.stdout.readline().split()[:3] == ["MODIFIED", "seen", "2"]
        kubectl("delete", "configmap", "seen")
        assert watching.stdout.readline().split()[:3] == ["DELETED", "seen", "2"]
    finally:
        watching.terminate()
        watching.communicate(timeout=30)
