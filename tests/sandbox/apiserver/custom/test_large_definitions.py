"""Large definitions are served by the time that their write is answered, like small ones."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from mooring.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from mooring.client.port import PatchType
from mooring.sandbox.apiserver.context.drafting import LARGE
from mooring.sandbox.apiserver.context.options import ListOptions
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.apiserver.verbs.watching import watch_objects
from tests.sandbox.apiserver.kit import Running

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"content_type": PatchType.MERGE.value}


def definition(plural: str, properties: int, **more: Any) -> dict[str, Any]:
    kind = plural.capitalize()
    fields = {f"p{number}": {"type": "string", "maxLength": 100} for number in range(properties)} | more
    spec = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": kind}
    body = {"group": "large.example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.large.example.com"},
        "spec": body,
    }


@pytest.mark.parametrize(("plural", "properties"), [("smalls", 5), ("larges", LARGE // 20)])
def test_the_life_of_a_definition(server: Running, plural: str, properties: int) -> None:
    path, objects = (
        f"{CRDS}/{plural}.large.example.com",
        f"/apis/large.example.com/v1/namespaces/default/{plural}",
    )
    assert server.ask("POST", CRDS, definition(plural, properties)).code == 201
    kind = {"apiVersion": "large.example.com/v1", "kind": plural.capitalize()}
    for number in range(20):
        body = {**kind, "metadata": {"name": f"o{number}"}, "spec": {"p0": "x" * 100}}
        assert server.ask("POST", objects, body).code == 201
    conditions = server.ask("GET", path).tree["status"]["conditions"]
    assert {one["type"]: one["status"] for one in conditions} == {
        "NamesAccepted": "True",
        "Established": "True",
    }

    with_default = definition(plural, properties, added={"type": "string", "default": "d"})
    assert server.ask("PATCH", path, {"spec": with_default["spec"]}, **MERGE).code == 200
    until(lambda: all(one["spec"].get("added") == "d" for one in server.ask("GET", objects).tree["items"]))

    assert server.ask("DELETE", path).code == 200
    until(lambda: server.ask("GET", path).code == 404)
    assert server.ask("GET", objects).code == 404
    table = server.server.api.store.table(f"{plural}.large.example.com")
    assert not table.records


def test_names_that_another_definition_has(server: Running) -> None:
    first, second = definition("firsts", LARGE // 20), definition("seconds", LARGE // 20)
    second["spec"]["names"]["kind"] = "Firsts"
    for body in (first, second):
        assert server.ask("POST", CRDS, body).code == 201
    paths = [f"{CRDS}/{body['metadata']['name']}" for body in (first, second)]
    assert accepted(server, paths[1]) == "False"
    server.ask("DELETE", paths[0])
    until(lambda: accepted(server, paths[1]) == "True")
    server.ask("DELETE", paths[1])


def accepted(server: Running, path: str) -> str:
    conditions = server.ask("GET", path).tree["status"]["conditions"]
    return str(next(one["status"] for one in conditions if one["type"] == "NamesAccepted"))


def until(condition: Any) -> None:
    """Wait for what happens soon after an answer."""
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize("properties", [5, LARGE // 20])
def test_what_is_established_is_served(properties: int) -> None:
    """Controllers look for new kinds when they see the condition."""
    established = []

    async def scene() -> None:
        async with EmbeddedServer() as server:
            api, body = server.api, definition("watcheds", properties)

            async def watch() -> None:
                crds = api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
                assert crds is not None
                async for batch in watch_objects(api, crds, "", ListOptions(resource_version="1")).batches():
                    if any(b'"Established"' in record.tail for _, record in batch.changes):
                        served = api.registry.find("large.example.com", "v1", "watcheds")
                        established.append(served is not None)
                        return

            watching = asyncio.create_task(watch())
            await asyncio.sleep(0)
            await EmbeddedCluster(api).create(CUSTOM_RESOURCE_DEFINITIONS, body)
            await asyncio.wait_for(watching, 30)

    asyncio.run(scene())
    assert established == [True]
