"""The real kubectl applies, patches and edits; what it prints is what it prints on a real API server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sandbox.apiserver.kit import Running
from tests.sandbox.apiserver.kubectl import Kubectl, needs_kubectl

pytestmark = needs_kubectl

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: "nginx:1", ports: [{containerPort: 80}]}
      - {name: side, image: busybox}
"""
NEXT = WEB.replace("nginx:1", "nginx:2").replace("      - {name: side, image: busybox}\n", "")
IMAGES = "jsonpath={.spec.template.spec.containers[*].image}"


@pytest.fixture(scope="module")
def kubectl(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home: Path = tmp_path_factory.mktemp("home")
    return Kubectl(server.server.kubeconfig, home)


def test_client_side_apply_then_server_side_apply(kubectl: Kubectl) -> None:
    apply = ("apply", "-f", "-")
    assert kubectl(*apply, stdin=WEB) == "deployment.apps/web created"
    assert kubectl(*apply, stdin=WEB) == "deployment.apps/web unchanged"
    assert kubectl("set", "env", "deploy/web", "-c", "c", "A=1") == "deployment.apps/web env updated"
    assert kubectl(*apply, stdin=NEXT) == "deployment.apps/web configured"
    assert kubectl("get", "deploy", "web", "-o", IMAGES) == "nginx:2"
    env = "jsonpath={.spec.template.spec.containers[0].env[*].name}"
    assert kubectl("get", "deploy", "web", "-o", env) == "A", "a three-way merge keeps what others set"
    assert "+      - image: busybox" in kubectl("diff", "-f", "-", stdin=WEB, code=1)

    done = "deployment.apps/web serverside-applied"
    assert kubectl(*apply, "--server-side", stdin=WEB) == done, "kubectl takes over from itself"
    refused = kubectl(*apply, "--server-side", "--field-manager=ci", stdin=NEXT, code=1)
    image = '.spec.template.spec.containers[name="c"].image'
    assert f'Apply failed with 1 conflict: conflict with "kubectl": {image}' in refused
    assert kubectl(*apply, "--server-side", "--field-manager=ci", "--force-conflicts", stdin=NEXT) == done
    assert kubectl("get", "deploy", "web", "-o", IMAGES) == "nginx:2 busybox"
    dry = (*apply, "--server-side", "--force-conflicts", "--dry-run=server")
    assert kubectl(*dry, stdin=WEB) == f"{done} (server dry run)"
    last = json.loads(kubectl("apply", "view-last-applied", "deploy/web", "-o", "json"))
    assert [one["image"] for one in last["spec"]["template"]["spec"]["containers"]] == ["nginx:1", "busybox"]


def test_patches_of_three_types(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "api", "--image=a", "--image=b")
    patch = ("patch", "deploy", "api")
    assert kubectl(*patch, "-p", '{"spec":{"replicas":3}}') == "deployment.apps/api patched"
    assert kubectl(*patch, "-p", '{"spec":{"replicas":3}}') == "deployment.apps/api patched (no change)"
    kubectl(*patch, "--type=merge", "-p", '{"spec":{"replicas":4}}')
    kubectl(*patch, "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":5}]')
    assert kubectl("get", "deploy", "api", "-o", "jsonpath={.spec.replicas}") == "5"
    refused = kubectl(
        *patch, "--type=json", "-p", '[{"op":"test","path":"/spec/replicas","value":6}]', code=1
    )
    assert refused == (
        "The request is invalid: the server rejected our request due to an error in our request"
    )
    wrong = kubectl(*patch, "-p", '{"spec":{"replicas":"x"}}', code=1)
    assert wrong.endswith('patch: Invalid value: "map[spec:map[replicas:x]]": unrecognized type: int32')
    kubectl(*patch, "--subresource=status", "-p", '{"status":{"replicas":9}}')
    scaled = kubectl(*patch, "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":6}}')
    assert scaled == "scale.autoscaling/api patched"
    found = json.loads(kubectl("get", "deploy", "api", "-o", "json", "--show-managed-fields"))
    owners = {
        (one["manager"], one.get("subresource")): one["fieldsV1"]
        for one in found["metadata"]["managedFields"]
    }
    assert owners["kubectl-patch", "scale"] == {"f:spec": {"f:replicas": {}}}
    assert owners["kubectl-patch", "status"] == {"f:status": {"f:replicas": {}}}
    assert "f:template" in owners["kubectl-create", None]["f:spec"]


def test_what_was_seen_last_must_be_what_is_replaced(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "shop", "--image=c")
    found = kubectl("get", "deploy", "shop", "-o", "json")
    edited = found.replace('"image": "c"', '"image": "d"')
    assert kubectl("replace", "-f", "-", stdin=edited) == "deployment.apps/shop replaced"
    stale = kubectl("replace", "-f", "-", stdin=found.replace('"image": "c"', '"image": "e"'), code=1)
    assert stale.startswith("Error from server (Conflict)")
    assert kubectl("get", "deploy", "shop", "-o", IMAGES) == "d"
