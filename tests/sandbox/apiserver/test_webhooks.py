"""Admission webhooks, called over HTTPS: answers as a real API server's, and what webhooks are sent."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from tests.sandbox.apiserver.kit import Reply, Running, running
from tests.sandbox.apiserver.patch_replay import Answer, Step, recorded
from tests.sandbox.apiserver.webhook_kit import (
    CONFIG_MAPS,
    RECORDED,
    WebhookServer,
    config_map,
    configuration,
    namespace_of,
    normal,
    scenes,
    step,
    webhook_server,
)

Tree = dict[str, Any]
_CONFIG_MAPS = ApiResource("", "v1", "configmaps", True, KubeObject)
ANSWERS = recorded(RECORDED)


@pytest.fixture(scope="module")
def webhooks() -> Iterator[WebhookServer]:
    with webhook_server() as server:
        yield server


@pytest.fixture(scope="module")
def api() -> Iterator[Running]:
    with running() as server:
        yield server


@pytest.fixture
def scene(api: Running, request: pytest.FixtureRequest) -> str:
    """The name of a scene with a namespace of its own."""
    name = request.node.name.replace("_", "-")[5:40]
    ask(api, step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace_of(name)}}))
    return str(name)


def ask(api: Running, one: Step) -> Answer:
    reply = send(api, one)
    warnings = [
        json.loads(text.partition(" - ")[2]) for text in reply.headers.get("warning", "").split(", 299")
        if text
    ]  # fmt: skip
    return Answer(reply.code, reply.tree, warnings)


def send(api: Running, one: Step) -> Reply:
    return api.ask(one.method, one.path, one.body, content_type=one.content_type, user_agent=one.agent)


@pytest.mark.slow
def test_the_answers_are_those_of_a_real_server(api: Running, webhooks: WebhookServer) -> None:
    different = []
    for name, steps in scenes(webhooks).items():
        ask(api, step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace_of(name)}}))
        for one, expected in zip(steps, ANSWERS[name], strict=True):
            answer = normal(ask(api, one))
            if answer[:2] != expected[:2]:  # two warnings are one header of this client
                different.append(f"{name}:\n  {json.dumps(expected)}\n  {json.dumps(answer)}")
    assert not different, "\n".join(different)


def _config(webhooks: WebhookServer, name: str) -> Tree:
    return {"url": webhooks.url(name), "caBundle": webhooks.bundle}


def _create(api: Running, webhooks: WebhookServer, scene: str, kind: str, name: str, **more: Any) -> None:
    own = configuration(kind, namespace_of(scene), _config(webhooks, name), **more)
    assert ask(api, own).code == 201


def test_a_code_that_is_none_of_http(api: Running, webhooks: WebhookServer, scene: str) -> None:
    _create(api, webhooks, scene, "validating", "deny-oddly")
    assert ask(api, config_map(scene)).code == 400


def test_what_a_webhook_is_sent(api: Running, webhooks: WebhookServer, scene: str) -> None:
    _create(api, webhooks, scene, "validating", "warn")
    assert ask(api, config_map(scene)).warnings
    path = f"/api/v1/namespaces/{namespace_of(scene)}/configmaps/one"
    ask(api, step("merge", f"{path}?dryRun=All", {"data": {"a": "c"}}))
    created, updated = (review["request"] for _, review in webhooks.reviews[-2:])
    assert created["operation"] == "CREATE"
    assert created["object"]["data"] == {"a": "b"}
    assert created["oldObject"] is None
    assert created["object"]["metadata"]["uid"]
    assert created["kind"] == created["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert created["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (created["namespace"], created["name"], created["dryRun"]) == (namespace_of(scene), "one", False)
    assert created["options"]["kind"] == "CreateOptions"
    assert (updated["oldObject"]["data"], updated["object"]["data"]) == ({"a": "b"}, {"a": "c"})
    assert (updated["dryRun"], updated["options"]["kind"]) == (True, "PatchOptions")


def test_what_a_webhook_is_sent_about_a_connection(api: Running, webhooks: WebhookServer, scene: str) -> None:
    rules = [{**CONFIG_MAPS, "resources": ["pods/*"], "operations": ["CONNECT"]}]
    _create(api, webhooks, scene, "mutating", "allow", rules=rules)
    pod = f"/api/v1/namespaces/{namespace_of(scene)}/pods/p"
    assert ask(api, step("GET", f"{pod}/exec?command=ls&command=-l&stdin=1&container=c")).code == 404
    (_, review) = webhooks.reviews[-1]
    request = review["request"]
    assert (request["operation"], request["subResource"], request["options"]) == ("CONNECT", "exec", None)
    assert request["object"] == {
        "apiVersion": "v1",
        "kind": "PodExecOptions",
        "stdin": True,
        "container": "c",
        "command": ["ls", "-l"],
    }


def test_a_generated_name_stays(api: Running, webhooks: WebhookServer, scene: str) -> None:
    _create(api, webhooks, scene, "mutating", "label")
    _create(api, webhooks, scene, "validating", "allow")
    body = {"metadata": {"generateName": "some-"}, "data": {"a": "b"}}
    stored = ask(api, step("POST", f"/api/v1/namespaces/{namespace_of(scene)}/configmaps", body)).tree
    mutating, validating = (review["request"] for _, review in webhooks.reviews[-2:])
    assert "name" not in mutating
    assert validating["name"] == validating["object"]["metadata"]["name"] == stored["metadata"]["name"]
    assert validating["object"]["metadata"]["uid"] == stored["metadata"]["uid"]


def test_webhooks_are_called_again_after_others(api: Running, webhooks: WebhookServer, scene: str) -> None:
    for order, (name, policy) in enumerate((("count", "IfNeeded"), ("label", "Never"))):
        own = configuration(
            "mutating", namespace_of(scene), _config(webhooks, name), reinvocationPolicy=policy
        )
        tree = json.loads(own.body or b"")
        tree["metadata"]["name"] += f"-{order}"
        ask(api, step("POST", own.path, tree))
    metadata = ask(api, config_map(scene)).tree["metadata"]
    assert (metadata["annotations"], metadata["labels"]) == ({"seen": "2"}, {"by": "webhook"})


def test_others_are_served_meanwhile(api: Running, webhooks: WebhookServer, scene: str) -> None:
    _create(api, webhooks, scene, "validating", "hold")
    replies: list[Answer] = []
    waiting = threading.Thread(target=lambda: replies.append(ask(api, config_map(scene))))
    waiting.start()
    path = f"/api/v1/namespaces/{namespace_of(scene)}/configmaps"
    names = [item["metadata"]["name"] for item in ask(api, step("GET", path)).tree["items"]]
    assert "one" not in names
    assert not replies
    webhooks.held.set()
    waiting.join(30)
    assert replies[0].code == 201


def test_a_service_that_can_be_reached(api: Running, scene: str) -> None:
    namespace = namespace_of(scene)
    with webhook_server(f"hook.{namespace}.svc") as own:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        service = {"metadata": {"name": "hook"}, "spec": spec}
        ask(api, step("POST", f"/api/v1/namespaces/{namespace}/services", service))
        reference = {"name": "hook", "namespace": namespace, "path": "/label", "port": own.port}
        config = {"service": reference, "caBundle": own.bundle}
        ask(api, configuration("mutating", namespace, config))
        assert ask(api, config_map(scene)).tree["metadata"]["labels"] == {"by": "webhook"}


def test_a_service_of_pods_cannot_be_reached(api: Running, webhooks: WebhookServer, scene: str) -> None:
    namespace = namespace_of(scene)
    spec = {"ports": [{"port": 443}], "selector": {"app": "hook"}}
    service = ask(
        api,
        step(
            "POST", f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": "hook"}, "spec": spec}
        ),
    )
    config = {"service": {"name": "hook", "namespace": namespace, "path": "/x"}, "caBundle": webhooks.bundle}
    ask(api, configuration("validating", namespace, config))
    address = service.tree["spec"]["clusterIP"]
    assert ask(api, config_map(scene)).tree["message"] == (
        f'Internal error occurred: failed calling webhook "{namespace}.example.com": failed to call webhook: '
        f'Post "https://hook.{namespace}.svc:443/x?timeout=10s": dial tcp {address}:443: connect: connection '
        "refused"
    )


def test_writes_in_this_process_are_admitted_too(api: Running, webhooks: WebhookServer, scene: str) -> None:
    rules = [{**CONFIG_MAPS, "operations": ["CREATE"]}]
    _create(api, webhooks, scene, "mutating", "data", rules=rules)
    body = {"metadata": {"name": "inside"}, "data": {"a": "b"}}
    create = api.server.cluster.create(_CONFIG_MAPS, body, namespace_of(scene))
    asyncio.run_coroutine_threadsafe(create, api.loop).result(30)
    path = f"/api/v1/namespaces/{namespace_of(scene)}/configmaps/inside"
    assert ask(api, step("GET", path)).tree["data"] == {"a": "b", "added": "yes"}
