"""Conversion by webhooks where answers are not compared with a real server's: watches, tables, restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.apiserver.custom.conversion_scenes import crop, obj, path
from tests.sandbox.apiserver.custom.scenes import DEFINITIONS, MERGE, Tree
from tests.sandbox.apiserver.kit import Running, running
from tests.sandbox.apiserver.webhook_kit import WebhookServer, webhook_server

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture(scope="module")
def webhooks() -> Iterator[WebhookServer]:
    with webhook_server() as found:
        yield found


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as found:
        yield found


def define(server: Running, body: Tree) -> None:
    assert server.ask("POST", DEFINITIONS, body).code == 201


def create(server: Running, body: Tree, name: str, size: str) -> None:
    assert server.ask("POST", path(body, "v1"), obj(body, "v1", name, size=size)).code == 201


def watch(server: Running, where: str) -> list[Any]:
    connection = server.connect()
    connection.request("GET", f"{where}?watch=1&timeoutSeconds=1", headers=server.headers())
    lines = connection.getresponse().read().splitlines()
    connection.close()
    return [json.loads(line) for line in lines]


def test_watches(server: Running, webhooks: WebhookServer) -> None:
    body = crop(webhooks, "convert")
    define(server, body)
    create(server, body, "a", "3")
    (event,) = watch(server, path(body, "v2"))
    assert (event["type"], event["object"]["apiVersion"]) == ("ADDED", "example.com/v2")
    assert event["object"]["spec"] == {"count": 3}
    rows = server.ask("GET", path(body, "v2"), accept=TABLE).tree["rows"]
    assert [row["cells"][0] for row in rows] == ["a"]


def test_a_watch_ends_with_the_error_of_the_webhook(server: Running, webhooks: WebhookServer) -> None:
    body = crop(webhooks, "fail")
    define(server, body)
    create(server, body, "a", "3")
    (event,) = watch(server, path(body, "v2"))
    assert event["type"] == "ERROR"
    assert (
        event["object"]["message"] == "conversion webhook for example.com/v1, Kind=Cropfail failed: not today"
    )


def test_objects_from_before_the_webhook(server: Running, webhooks: WebhookServer) -> None:
    """They are in the version that was stored then, whatever the definition stores now."""
    body = crop(webhooks, "relabel")
    conversion = body["spec"].pop("conversion")
    define(server, body)
    create(server, body, "a", "3")
    versions = [{**version, "storage": version["name"] == "v2"} for version in body["spec"]["versions"]]
    change = {"spec": {"conversion": conversion, "versions": versions}}
    own = f"{DEFINITIONS}/{body['metadata']['name']}"
    assert server.ask("PATCH", own, change, content_type=MERGE).code == 200
    assert server.ask("GET", path(body, "v2", "a")).tree["spec"] == {"count": 3}
    assert server.ask("GET", path(body, "v1", "a")).tree["spec"] == {"size": "3"}


def test_a_list_is_converted_in_few_calls(server: Running, webhooks: WebhookServer) -> None:
    body = crop(webhooks, "more")
    define(server, body)
    for number in range(5):
        create(server, body, f"a{number}", str(number))
    before = len(webhooks.reviews)
    items = server.ask("GET", path(body, "v2")).tree["items"]
    assert [item["spec"]["count"] for item in items] == [0, 1, 2, 3, 4]
    assert len(webhooks.reviews) == before + 1


def test_stored_versions_outlive_the_server(tmp_path: Path, webhooks: WebhookServer) -> None:
    body = crop(webhooks, "convert")
    with running(data_dir=tmp_path) as server:
        define(server, body)
        create(server, body, "a", "3")
        versions = [{**version, "storage": version["name"] == "v2"} for version in body["spec"]["versions"]]
        own = f"{DEFINITIONS}/{body['metadata']['name']}"
        changed = server.ask("PATCH", own, {"spec": {"versions": versions}}, content_type=MERGE).tree
        assert changed["status"]["storedVersions"] == ["v1", "v2"]
        create(server, body, "b", "4")
    with running(data_dir=tmp_path) as server:
        items = server.ask("GET", path(body, "v2")).tree["items"]
        assert [item["spec"]["count"] for item in items] == [3, 4]


def test_fields_are_selected_in_the_version_of_the_request(server: Running, webhooks: WebhookServer) -> None:
    body = crop(webhooks, "convert")
    names = body["spec"]["names"]
    names |= {"plural": "selecteds", "kind": "Selected", "singular": "selected", "listKind": "SelectedList"}
    body["metadata"]["name"] = f"selecteds.{body['spec']['group']}"
    first, second = body["spec"]["versions"]
    first["selectableFields"], second["selectableFields"] = (
        [{"jsonPath": f".spec.{field}"}] for field in ("size", "count")
    )
    define(server, body)
    create(server, body, "old", "3")
    new = obj(body, "v2", "new", count=3)
    assert server.ask("POST", path(body, "v2"), new).code == 201
    create(server, body, "other", "4")

    def select(version: str, selector: str) -> list[str]:
        tree = server.ask("GET", f"{path(body, version)}?fieldSelector={selector}").tree
        return [one["metadata"]["name"] for one in tree["items"]]

    assert select("v1", "spec.size=3") == select("v2", "spec.count=3") == ["new", "old"]
    change = {"spec": {"size": "4"}}
    assert server.ask("PATCH", path(body, "v1", "new"), change, content_type=MERGE).code == 200
    assert select("v2", "spec.count=4") == ["new", "other"]
    assert server.ask("GET", f"{path(body, 'v1')}?fieldSelector=spec.count=3").code == 400

    second["selectableFields"] = []  # what is stored no longer has the field
    found = server.ask("GET", f"{DEFINITIONS}/{body['metadata']['name']}").tree
    found["spec"]["versions"][1].pop("selectableFields")
    assert server.ask("PUT", f"{DEFINITIONS}/{body['metadata']['name']}", found).code == 200
    assert select("v1", "spec.size=3") == ["old"]
