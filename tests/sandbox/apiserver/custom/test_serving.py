"""Definitions at work: what is served when, across restarts and changes, and what becomes of objects."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from tests.sandbox.apiserver.custom.scenes import (
    CREW,
    DEFINITIONS,
    STICKY_JOB,
    TEXT,
    Tree,
    crew,
    definition,
    spec,
)
from tests.sandbox.apiserver.kit import Direct, running

MERGE = "application/merge-patch+json"


class Custom:
    """A server without HTTP, and shorter ways to ask it about definitions and what they define."""

    def __init__(self, direct: Direct) -> None:
        self.direct = direct

    def define(self, body: Tree, **params: str) -> Tree:
        return self.definitions("create", body=body, **params)

    def definitions(self, verb: str, *args: Any, **kwargs: Any) -> Tree:
        return self.direct.tree(
            verb, "customresourcedefinitions", *args, group="apiextensions.k8s.io", **kwargs
        )

    def change(self, name: str, **spec: Any) -> Tree:
        return self.definitions("patch", name, {"spec": spec}, content_type=MERGE)

    def crews(self, verb: str, *args: Any, **kwargs: Any) -> Tree:
        return self.direct.tree(verb, "crews", *args, group="example.com", **kwargs)

    @property
    def served(self) -> list[str]:
        return sorted(f"{one.plural} {one.version}" for one in self.direct.api.registry if one.custom)


@pytest.fixture
def custom(direct: Direct) -> Custom:
    return Custom(direct)


def test_what_is_defined_is_served_at_once(custom: Custom) -> None:
    before = custom.direct.api.registry.generation
    custom.define(CREW)
    assert custom.served == ["crews v1", "crews v1beta1"]
    assert custom.direct.api.registry.generation > before  # discovery follows that
    found = custom.direct.api.registry.of_kind("example.com/v1", "Crew")
    assert found is not None
    assert (found.short_names, found.categories, found.list_kind) == (("cw",), ("all",), "CrewList")
    assert list(found.subresources) == ["scale", "status"]


def test_a_watch_sees_a_definition_become_established(custom: Custom) -> None:
    custom.define(CREW)
    events = custom.direct.store.table("customresourcedefinitions.apiextensions.k8s.io").events
    assert [event.type for event in events] == ["ADDED", "MODIFIED"]


def test_a_dry_run_serves_nothing(custom: Custom) -> None:
    custom.define(CREW, dryRun="All")
    assert custom.served == []


def test_versions_are_served_as_the_definition_says(custom: Custom) -> None:
    custom.define(CREW)
    versions = deepcopy(CREW["spec"]["versions"])
    versions[1]["served"] = False
    custom.change("crews.example.com", versions=versions)
    assert custom.served == ["crews v1"]
    custom.change("crews.example.com", versions=CREW["spec"]["versions"])
    assert custom.served == ["crews v1", "crews v1beta1"]


def test_fields_may_become_selectable_later(custom: Custom) -> None:
    body = deepcopy(CREW)
    for version in body["spec"]["versions"]:
        version.pop("selectableFields", None)
    custom.define(body)
    custom.crews("create", body=crew("a", spec={"color": "red"}))
    with pytest.raises(ApiError, match="not a known field selector"):
        custom.crews("list", fieldSelector="spec.color=red")
    custom.change("crews.example.com", versions=CREW["spec"]["versions"])
    found = custom.crews("list", fieldSelector="spec.color=red")
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]


def test_new_defaults_are_seen_in_old_objects(custom: Custom) -> None:
    custom.define(CREW)
    made = custom.crews("create", body=crew("a", spec={"color": "red"}))
    versions = deepcopy(CREW["spec"]["versions"])
    properties = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["size"]["default"] = 3
    custom.change("crews.example.com", versions=versions)
    found = custom.crews("get", "a")
    assert found["spec"] == {"color": "red", "size": 3}
    assert found["metadata"] == made["metadata"]
    relabelled = custom.crews("patch", "a", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert relabelled["metadata"]["generation"] == 1


def test_objects_of_a_definition_without_served_versions_go_with_it(custom: Custom) -> None:
    custom.define(CREW)
    custom.crews("create", body=crew("a"))
    hidden = [{**version, "served": False} for version in CREW["spec"]["versions"]]
    custom.change("crews.example.com", versions=hidden)
    assert custom.served == []
    custom.definitions("delete", "crews.example.com")
    assert not custom.direct.store.table("crews.example.com").records
    assert custom.definitions("list")["items"] == []


def test_a_definition_may_come_back(custom: Custom) -> None:
    for _ in range(2):
        custom.define(CREW)
        custom.crews("create", body=crew("a"))
        custom.definitions("delete", "crews.example.com")
        assert custom.served == []


def test_a_definition_with_a_finalizer_of_its_own_stays(custom: Custom) -> None:
    body = deepcopy(CREW)
    body["metadata"]["finalizers"] = ["example.com/mine"]
    custom.define(body)
    custom.crews("create", body=crew("a"))
    custom.definitions("delete", "crews.example.com")
    found = custom.definitions("get", "crews.example.com")
    assert found["metadata"]["finalizers"] == ["example.com/mine"]
    assert custom.crews("list")["items"] == []
    with pytest.raises(ApiError, match="create not allowed while custom resource definition is terminating"):
        custom.crews("create", body=crew("b"))
    custom.definitions("patch", "crews.example.com", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert custom.served == []


def test_kinds_of_kubernetes_stay_what_they_are(custom: Custom) -> None:
    body = definition("Ingress", spec(a=TEXT))
    body["metadata"] = {
        "name": "ingresses.networking.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for this test"},
    }
    body["spec"]["group"] = "networking.k8s.io"
    body["spec"]["names"] = {"plural": "ingresses", "kind": "Ingress"}
    rule = {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}}
    ingress = {"metadata": {"name": "a"}, **rule}
    custom.direct.tree("create", "ingresses", body=ingress, group="networking.k8s.io")
    custom.define(body)
    assert custom.served == []
    custom.definitions("delete", "ingresses.networking.k8s.io")
    assert custom.direct.tree("get", "ingresses", "a", group="networking.k8s.io")["metadata"]["name"] == "a"


@pytest.mark.parametrize("name", [None, "", 7])
def test_a_version_needs_a_name(custom: Custom, name: object) -> None:
    nameless = deepcopy(CREW)
    nameless["spec"]["versions"][0].pop("name")
    if name is not None:
        nameless["spec"]["versions"][0]["name"] = name
    with pytest.raises(ApiError) as caught:
        custom.define(nameless)
    assert caught.value.code == (400 if name == 7 else 422)
    assert custom.served == []


def test_cluster_wide_kinds(custom: Custom) -> None:
    body = definition("Fleet", spec(a=TEXT))
    body["spec"]["scope"] = "Cluster"
    custom.define(body)
    fleet = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "a"}}
    made = custom.direct.tree("create", "fleets", body=fleet, group="example.com")
    assert "namespace" not in made["metadata"]


# ---- across restarts ------------------------------------------------------------------------------

CREWS = "/apis/example.com/v1/namespaces/default/crews"
JOBS = "/apis/example.com/v1/namespaces/default/stickyjobs"


def test_definitions_and_objects_outlive_the_server(tmp_path: Path) -> None:
    job = {"apiVersion": "example.com/v1", "kind": "StickyJob", "metadata": {"name": "a"}}
    with running(data_dir=tmp_path) as server:
        assert server.ask("POST", DEFINITIONS, STICKY_JOB).code == 201
        assert server.ask("POST", DEFINITIONS, CREW).code == 201
        assert server.ask("POST", JOBS, job).code == 201
        status = {"status": {"lastNode": "node-1"}}
        assert server.ask("PATCH", f"{JOBS}/a/status", status, content_type=MERGE).code == 200
        assert server.ask("POST", CREWS, crew("a", spec={"color": "red"})).code == 201
    with running(data_dir=tmp_path) as server:
        assert server.ask("GET", f"{JOBS}/a").tree["status"] == {"lastNode": "node-1"}
        assert server.ask("GET", f"{CREWS}?fieldSelector=spec.color%3Dred").tree["items"]
        assert server.ask("POST", CREWS, crew("b", spec={"color": 5})).code == 422
        resources = server.ask("GET", "/apis/example.com/v1").tree["resources"]
        assert [one["name"] for one in resources] == [
            "crews", "crews/scale", "crews/status", "stickyjobs", "stickyjobs/status",
        ]  # fmt: skip


def test_a_deletion_that_was_begun_is_finished_after_a_restart(tmp_path: Path) -> None:
    held = crew("a")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    with running(data_dir=tmp_path) as server:
        server.ask("POST", DEFINITIONS, CREW)
        server.ask("POST", CREWS, held)
        server.ask("DELETE", f"{DEFINITIONS}/crews.example.com")
    with running(data_dir=tmp_path) as server:
        assert server.ask("GET", f"{DEFINITIONS}/crews.example.com").code == 200
        assert server.ask("POST", CREWS, crew("b")).code == 403
        free = {"metadata": {"finalizers": None}}
        assert server.ask("PATCH", f"{CREWS}/a", free, content_type=MERGE).code == 200
        assert server.ask("GET", f"{DEFINITIONS}/crews.example.com").code == 404
        assert server.ask("GET", CREWS).code == 404
