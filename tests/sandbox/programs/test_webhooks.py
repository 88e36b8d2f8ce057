"""The webhooks of agnhost answer as the program does."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from mooring.api.meta import ObjectMeta
from mooring.sandbox.programs.conversion import convert_resources
from mooring.sandbox.programs.files import TEMPORARY, Files, Mount
from mooring.sandbox.programs.program import run_program
from mooring.sandbox.programs.servers import AnswerPost
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec
from mooring.sandbox.programs.volume import Volume
from mooring.sandbox.programs.webhooks import AdmissionWebhooks

Tree = dict[str, Any]
PODS = {"group": "", "version": "v1", "resource": "pods"}
CONFIG_MAPS = {"group": "", "version": "v1", "resource": "configmaps"}
V1, V2 = "stable.example.com/v1", "stable.example.com/v2"
UNWANTED = {"webhook-e2e-test": "webhook-disallow"}
SIDECAR = {"image": "side", "name": "webhook-added-sidecar", "resources": {}}


def respond(answer: AnswerPost, path: str, api_version: str, request: Tree) -> Tree:
    body = json.dumps({"kind": "Review", "apiVersion": api_version, "request": {"uid": "u", **request}})
    answered = asyncio.run(_answer(answer, path, body.encode()))
    assert answered["apiVersion"] == api_version
    response: Tree = answered["response"]
    assert response.pop("uid") == "u"
    return response


async def _answer(answer: AnswerPost, path: str, body: bytes) -> Tree:
    answered = await answer(path, body)
    tree: Tree = json.loads(answered.body)
    return tree


def pod(labels: Tree | None = None, name: str = "c") -> Tree:
    return {"metadata": {"name": "p", "labels": labels or {}}, "spec": {"containers": [{"name": name}]}}


@pytest.mark.parametrize(
    ("path", "request_", "message"),
    [
        ("/always-deny", {}, "this webhook denies all requests"),
        ("/pods", {"object": pod(UNWANTED)}, "the pod contains unwanted label;"),
        ("/pods", {"object": pod(name="webhook-disallow")}, "the pod contains unwanted container name;"),
        ("/pods", {"object": pod(), "resource": CONFIG_MAPS}, "expect resource to be /v1, Resource=pods"),
        ("/crd", {"object": {"metadata": {"labels": UNWANTED}}}, "the crd contains unwanted label"),
    ],
)
def test_admission_webhooks_deny(path: str, request_: Tree, message: str) -> None:
    request = {"operation": "CREATE", "resource": PODS, **request_}
    response = respond(AdmissionWebhooks(), path, "admission.k8s.io/v1", request)
    assert response == {"allowed": False, "status": {"message": message}}


@pytest.mark.parametrize(
    ("path", "request_", "patch"),
    [
        ("/add-label", {"object": pod()}, ("add", "/metadata/labels", {"added-label": "yes"})),
        ("/add-label", {"object": pod({"a": "b"})}, ("add", "/metadata/labels/added-label", "yes")),
        ("/add-label", {"object": pod({"added-label": "yes"})}, None),
        ("/mutating-pods", {"object": pod()}, None),
        ("/mutating-pods-sidecar", {"object": pod()}, ("add", "/spec/containers/-", SIDECAR)),
        ("/mutating-pods-sidecar", {"object": pod(name="webhook-added-sidecar")}, None),
        (
            "/mutating-custom-resource",
            {"object": {"data": {"mutation-start": "yes"}}},
            ("add", "/data/mutation-stage-1", "yes"),
        ),
    ],
)
def test_admission_webhooks_change(path: str, request_: Tree, patch: tuple[str, str, Any] | None) -> None:
    request = {"operation": "CREATE", "resource": PODS, **request_}
    response = respond(AdmissionWebhooks("side"), path, "admission.k8s.io/v1beta1", request)
    assert response["allowed"]
    patches = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    assert [tuple(one.values()) for one in patches] == ([] if patch is None else [patch])


def test_resources_are_converted() -> None:
    def convert(target: str, *objects: Tree) -> Tree:
        request = {"desiredAPIVersion": target, "objects": objects}
        return respond(convert_resources, "/crdconvert", "apiextensions.k8s.io/v1", request)

    old = {"apiVersion": V1, "hostPort": "h:1"}
    new = {"apiVersion": V2, "host": "h", "port": "1"}
    assert convert(V2, old)["convertedObjects"] == [new]
    assert convert(V1, new)["convertedObjects"] == [old]
    failed = convert(V2, {"apiVersion": V1, "hostPort": "h"})["result"]
    assert failed == {"status": "Failure", "message": "invalid hostPort value `h`"}
    assert convert(V1, old)["result"]["status"] == "Failure"


@pytest.mark.parametrize("answer", [AdmissionWebhooks(), convert_resources])
def test_invalid_requests(answer: AnswerPost) -> None:
    async def codes() -> list[int]:
        path = "/crdconvert" if answer is convert_resources else "/pods"
        bodies = (b"", b"[]", b'{"apiVersion": "v1", "request": []}', b'{"apiVersion": 1}')
        answers = [await answer(path, body) for body in bodies]
        return [one.status for one in (*answers, await answer("/other", b""), await answer("/readyz", b""))]

    assert asyncio.run(codes()) == [400, 400, 400, 400, 404, 200]


def test_a_server_needs_its_certificate() -> None:
    volume = Volume(complete=True, known=(TEMPORARY,))
    spec = ContainerSpec(
        image="agnhost:2", args=["crd-conversion-webhook", "--alsologtostderr", "--tls-cert-file=/pair/crt"]
    )
    outcome = run_program(spec, Sources(ObjectMeta(name="p")), Files([Mount("/pair", volume)]), 0.0)
    assert outcome is not None
    assert (outcome.exit_code, outcome.server) == (255, None)
    assert outcome.output == ((0.0, "open /pair/crt: no such file or directory\n"),)
