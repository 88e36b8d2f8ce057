"""What the real kubectl does with our OpenAPI documents: it validates, and works out what to patch."""

from __future__ import annotations

import json

import pytest

from tests.sandbox.apiserver.kit import Running
from tests.sandbox.apiserver.kubectl import Kubectl, needs_kubectl

pytestmark = needs_kubectl

MISSPELT = """
apiVersion: v1
kind: Pod
metadata: {name: misspelt}
spec:
  nodeSelecter: {a: b}
  containers: [{name: c, image: i, imagee: j}]
"""
UNKNOWN = 'unknown field "spec.containers[0].imagee"', 'unknown field "spec.nodeSelecter"'

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers: %s
"""


@pytest.fixture(scope="module")
def kubectl(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(server.server.kubeconfig, tmp_path_factory.mktemp("home"))


def test_a_misspelt_field_is_refused_by_the_server(kubectl: Kubectl) -> None:
    refusal = kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=MISSPELT, code=1)
    assert refusal == (
        'Error from server (BadRequest): error when creating "STDIN": Pod in version "v1" cannot be handled '
        f"as a Pod: strict decoding error: {', '.join(UNKNOWN)}"
    )


def test_a_misspelt_field_is_warned_of(kubectl: Kubectl) -> None:
    shown = kubectl("create", "--dry-run=server", "--validate=warn", "-f", "-", stdin=MISSPELT)
    assert shown.splitlines() == [
        *(f"Warning: {text}" for text in UNKNOWN),
        "pod/misspelt created (server dry run)",
    ]


def test_apply_merges_lists_by_their_keys(kubectl: Kubectl) -> None:
    """kubectl takes the keys from our documents: a container that it did not write itself stays."""
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT % "[{name: c, image: i}, {name: d, image: j}]")
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}}
    kubectl("patch", "deployment", "web", "--patch", json.dumps(sidecar))
    assert (
        kubectl("apply", "-f", "-", stdin=DEPLOYMENT % "[{name: c, image: k}]")
        == "deployment.apps/web configured"
    )
    found = kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
    assert sorted(found.split()) == ["k", "s"]
