"""Definitions as protobuf; data/definition.json has the encoding of kube-apiserver v1.36.4."""

from __future__ import annotations

import base64
import json

from mooring.sandbox.apiserver.kinds.protobuf import decode, open_envelope
from mooring.sandbox.apiserver.kinds.types import object_type
from tests.sandbox.apiserver.kit import Running
from tests.sandbox.apiserver.scene import DATA

RECORDED = json.loads((DATA / "definition.json").read_text())
BODY = base64.b64decode(RECORDED["protobuf"])


def test_a_definition_decodes_to_the_json_of_a_real_server() -> None:
    envelope = open_envelope(BODY)
    tree = decode(object_type("apiextensions_v1", "CustomResourceDefinition"), envelope.raw)
    expected = {name: value for name, value in RECORDED["json"].items() if name not in ("kind", "apiVersion")}
    assert (envelope.api_version, envelope.kind) == ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert tree["spec"] == expected["spec"]
    assert tree["status"] == expected["status"]


def test_a_definition_may_be_created_as_protobuf(server: Running) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    reply = server.ask("POST", path, BODY, content_type="application/vnd.kubernetes.protobuf")
    # It is what a GET answers, so it has a version, with which nothing can be created.
    assert (reply.code, reply.tree["message"]) == (
        400,
        "resourceVersion should not be set on objects to be created",
    )
