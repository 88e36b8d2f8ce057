"""The real kubectl and a custom kind: all that a scheduler's user does with one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.apiserver.custom.scenes import CREW, STICKY_JOB
from tests.sandbox.apiserver.kit import running
from tests.sandbox.apiserver.kubectl import Kubectl, needs_kubectl

pytestmark = needs_kubectl


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    with running() as server:
        yield Kubectl(server.server.kubeconfig, tmp_path)


def job(name: str, **spec: Any) -> str:
    metadata = {"name": name}
    return json.dumps(
        {"apiVersion": "example.com/v1", "kind": "StickyJob", "metadata": metadata, "spec": spec}
    )


def test_the_life_of_a_custom_kind(kubectl: Kubectl) -> None:
    body = deepcopy(STICKY_JOB)
    body["spec"]["names"]["shortNames"] = ["sj"]
    column = {"name": "Node", "type": "string", "jsonPath": ".status.lastNode"}
    body["spec"]["versions"][0]["additionalPrinterColumns"] = [column]
    defined = "customresourcedefinition.apiextensions.k8s.io/stickyjobs.example.com"
    assert kubectl("apply", "-f", "-", stdin=json.dumps(body)) == f"{defined} created"
    waited = kubectl("wait", "--for=condition=Established", "crd/stickyjobs.example.com", "--timeout=5s")
    assert waited == f"{defined} condition met"

    assert kubectl("create", "-f", "-", stdin=job("a", template={})) == "stickyjob.example.com/a created"
    assert kubectl("apply", "-f", "-", stdin=job("b", template={})) == "stickyjob.example.com/b created"
    applied = kubectl("apply", "--server-side", "-f", "-", stdin=job("c", template={}))
    assert applied == "stickyjob.example.com/c serverside-applied"
    kubectl("patch", "sj", "a", "--subresource=status", "--type=merge", "-p", '{"status":{"lastNode":"n1"}}')
    rows = [line.split() for line in kubectl("get", "sj").splitlines()]
    assert rows == [["NAME", "NODE"], ["a", "n1"], ["b"], ["c"]]
    assert "lastNode <string>" in kubectl("explain", "stickyjob.status.lastNode")

    refused = kubectl("apply", "-f", "-", stdin=job("b", tmplate={}), code=1)
    assert 'strict decoding error: unknown field "spec.tmplate"' in refused
    warned = kubectl("apply", "--validate=warn", "-f", "-", stdin=job("b", tmplate={}))
    assert warned == 'Warning: unknown field "spec.tmplate"\nstickyjob.example.com/b configured'

    deleted = kubectl("delete", "crd", "stickyjobs.example.com")
    assert deleted == 'customresourcedefinition.apiextensions.k8s.io "stickyjobs.example.com" deleted'
    assert "could not find the requested resource" in kubectl("get", "stickyjobs", code=1)


def test_scale_versions_and_fields_of_a_custom_kind(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=json.dumps(CREW))
    spec = {"size": 1, "color": "red"}
    body = {"apiVersion": "example.com/v1", "kind": "Crew", "metadata": {"name": "a"}, "spec": spec}
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    assert kubectl("scale", "crew", "a", "--replicas=5") == "crew.example.com/a scaled"
    assert kubectl("get", "crew", "a", "-o", "jsonpath={.spec.size}") == "5"
    assert kubectl("get", "cw", "--field-selector=spec.color=red", "-o", "name") == "crew.example.com/a"
    assert kubectl("get", "cw", "--field-selector=spec.color=blue", "-o", "name") == ""
    warning, _, beta = kubectl("get", "crews.v1beta1.example.com", "a", "-o", "json").partition("\n")
    assert warning == "Warning: example.com/v1beta1 Crew is deprecated; use example.com/v1 Crew"
    found = json.loads(beta)
    assert (found["apiVersion"], found["spec"]) == ("example.com/v1beta1", {"color": "red"})
    assert "crew.example.com/a" in kubectl("get", "all")
