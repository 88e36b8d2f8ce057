"""Kinds whose versions a webhook converts: asked of a real API server (data/conversions.json) and of the
embedded one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tests.sandbox.apiserver.custom.scenes import (
    APPLY,
    DEFINITIONS,
    MERGE,
    NUMBER,
    TEXT,
    Scenes,
    Step,
    Tree,
    definition,
    objects,
)
from tests.sandbox.apiserver.webhook_kit import CONVERSIONS, WebhookServer

BROKEN = ("broken", "missing", "refused")


def crop(server: WebhookServer, name: str) -> Tree:
    """A definition whose version v1 is stored, with a webhook."""
    kind = "Crop" + name.replace("-", "")
    body = definition(kind, objects(spec=objects(size=TEXT, name=TEXT)))
    schema = {"openAPIV3Schema": objects(spec=objects(count=NUMBER, name={**TEXT, "default": "none"}))}
    body["spec"]["versions"].append({"name": "v2", "served": True, "storage": False, "schema": schema})
    url = "https://127.0.0.1:1/x" if name == "refused" else server.url(name)
    config = {"url": url, "caBundle": server.bundle}
    webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
    body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return body


def path(body: Tree, version: str, name: str = "") -> str:
    plural = body["spec"]["names"]["plural"]
    return f"/apis/example.com/{version}/namespaces/default/{plural}" + (f"/{name}" if name else "")


def obj(body: Tree, version: str, name: str, **spec: object) -> Tree:
    kind = body["spec"]["names"]["kind"]
    metadata = {"name": name, "labels": {"a": "b"}}
    return {"apiVersion": f"example.com/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def wait(body: Tree) -> Step:
    return Step("WAIT", f"{DEFINITIONS}/{body['metadata']['name']}", "Established")


def behaviours(server: WebhookServer) -> Iterator[Step]:
    """What webhooks can answer."""
    bodies = [crop(server, name) for name in (*CONVERSIONS, *BROKEN)]
    for body in bodies:
        yield Step("POST", DEFINITIONS, body)
    yield wait(bodies[-1])
    for body in bodies:
        yield Step("POST", path(body, "v1"), obj(body, "v1", "a", size="3"))
        yield Step("GET", path(body, "v1", "a"))
        yield Step("GET", path(body, "v2", "a"))
        yield Step("POST", path(body, "v2"), obj(body, "v2", "b", count=4))
        yield Step("GET", path(body, "v1"))


def verbs(server: WebhookServer) -> Iterator[Step]:
    """All verbs in both versions, and a change of the stored version."""
    body = crop(server, "convert")
    body["spec"]["names"] = {"plural": "yields", "kind": "Yield"}
    body["metadata"]["name"] = "yields.example.com"
    own = f"{DEFINITIONS}/yields.example.com"
    yield Step("POST", DEFINITIONS, body)
    yield wait(body)
    yield Step("POST", path(body, "v1"), obj(body, "v1", "a", size="3"))
    yield Step("PATCH", path(body, "v2", "a"), {"spec": {"count": 5}}, MERGE)
    yield Step("PATCH", path(body, "v2", "a"), {"spec": {"count": "x"}}, MERGE)
    yield Step("GET", path(body, "v1", "a"))
    yield Step("PATCH", path(body, "v2", "c") + "?fieldManager=m", obj(body, "v2", "c", count=7), APPLY)
    yield Step("PATCH", path(body, "v2", "c") + "?fieldManager=m", obj(body, "v2", "c", count=8), APPLY)
    yield Step("GET", path(body, "v1", "c"))
    yield Step("GET", path(body, "v2"))
    versions = [{**version, "storage": version["name"] == "v2"} for version in body["spec"]["versions"]]
    yield Step("PATCH", own, {"spec": {"versions": versions}}, MERGE)
    yield wait(body)
    yield Step("GET", own)
    yield Step("POST", path(body, "v2"), obj(body, "v2", "d", count=9))
    yield Step("POST", path(body, "v1"), obj(body, "v1", "e", size="10"))
    for version in ("v1", "v2"):
        yield Step("GET", path(body, version))
    yield Step("PATCH", path(body, "v1", "a"), {"metadata": {"labels": {"c": "d"}}}, MERGE)
    yield Step("PATCH", own, {"spec": {"versions": versions[1:]}}, MERGE)
    yield Step("PATCH", f"{own}/status", {"status": {"storedVersions": ["v2"]}}, MERGE)
    yield Step("PATCH", f"{own}/status", {"status": {"storedVersions": ["v3"]}}, MERGE)
    yield Step("PATCH", f"{own}/status", {"status": {"storedVersions": ["v2"]}}, MERGE)
    yield Step("PATCH", path(body, "v2", "d"), {"metadata": {"finalizers": ["example.com/x"]}}, MERGE)
    yield Step("DELETE", path(body, "v1", "d"))
    yield Step("PATCH", path(body, "v1", "d"), {"metadata": {"finalizers": None}}, MERGE)
    yield Step("DELETE", path(body, "v1", "e"))


def conversion_scenes(server: WebhookServer) -> Scenes:
    return {"behaviours": partial(behaviours, server), "verbs of versions": partial(verbs, server)}
