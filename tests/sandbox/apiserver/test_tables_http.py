"""Tables over HTTP: what clients ask for, and what they get."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

from mooring.testing import VirtualClock
from tests.sandbox.apiserver.kit import Running, Tree, pod, running

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(scope="module")
def server(clock: VirtualClock) -> Iterator[Running]:
    """A server whose clock stands, with three pods that are 90 seconds old."""
    with running(clock=clock) as found:
        for name in ("a", "b", "c"):
            assert found.ask("POST", PODS, pod(name)).code == 201
        clock.advance(90)
        yield found


def test_a_list_is_a_table_with_the_metadata_of_its_objects(server: Running) -> None:
    reply = server.ask("GET", PODS, accept=KUBECTL)
    assert reply.headers["content-type"] == "application/json"
    table = reply.tree
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {
        "resourceVersion": server.ask("GET", PODS).tree["metadata"]["resourceVersion"]
    }
    assert [column["name"] for column in table["columnDefinitions"]][:5] == [
        "Name", "Ready", "Status", "Restarts", "Age",
    ]  # fmt: skip
    assert [row["cells"][:5] for row in table["rows"]] == [
        [name, "0/1", "Pending", "0", "90s"] for name in ("a", "b", "c")
    ]
    first = table["rows"][0]["object"]
    assert (first["kind"], first["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert first["metadata"] == server.ask("GET", f"{PODS}/a").tree["metadata"]
    assert "spec" not in first


def test_rows_hold_the_object_its_metadata_or_nothing(server: Running) -> None:
    def included(value: str) -> Tree | None:
        found: Tree | None = server.ask("GET", f"{PODS}/a?includeObject={value}", accept=TABLE).tree["rows"][
            0
        ]["object"]
        return found

    assert included("None") is None
    assert included("Object") == server.ask("GET", f"{PODS}/a").tree
    assert included("") == included("Metadata")
    refusal = server.ask("GET", f"{PODS}/a?includeObject=Some", accept=TABLE)
    assert (refusal.code, refusal.tree["reason"]) == (400, "BadRequest")
    assert refusal.tree["message"] == (
        "Unable to convert to Table as requested: includeObject: "
        "Invalid value: \"Some\": must be 'Metadata', 'Object', 'None', or empty"
    )


def test_one_object_is_a_table_of_one_row(server: Running) -> None:
    table = server.ask("GET", f"{PODS}/b", accept=TABLE).tree
    assert [row["cells"][0] for row in table["rows"]] == ["b"]
    version = server.ask("GET", f"{PODS}/b").tree["metadata"]["resourceVersion"]
    assert table["metadata"] == {"resourceVersion": version}


def test_pages_go_on_where_they_ended(server: Running) -> None:
    table = server.ask("GET", f"{PODS}?limit=2", accept=TABLE).tree
    assert table["metadata"]["remainingItemCount"] == 1
    rest = server.ask("GET", f"{PODS}?limit=2&continue={table['metadata']['continue']}", accept=TABLE).tree
    assert [row["cells"][0] for row in table["rows"] + rest["rows"]] == ["a", "b", "c"]


def test_a_list_of_nothing_has_columns(server: Running) -> None:
    table = server.ask("GET", "/api/v1/namespaces/default/replicationcontrollers", accept=TABLE).tree
    assert table["rows"] == []
    assert table["columnDefinitions"][0]["name"] == "Name"


def test_the_old_version_of_tables_is_served_too(server: Running) -> None:
    old = server.ask("GET", PODS, accept="application/json;as=Table;v=v1beta1;g=meta.k8s.io").tree
    assert old["apiVersion"] == "meta.k8s.io/v1beta1"
    assert old["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", "PodList"),
        ("application/json;as=Chart;v=v1;g=meta.k8s.io,application/json", "PodList"),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json", "PodList"),
        (f"application/json;as=Chart;v=v1;g=meta.k8s.io,{TABLE}", "Table"),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", "Status"),
    ],
)
def test_what_cannot_be_served_is_passed_over(server: Running, accept: str, kind: str) -> None:
    assert server.ask("GET", PODS, accept=accept).tree["kind"] == kind


def test_refusals_are_no_tables(server: Running) -> None:
    assert server.ask("GET", f"{PODS}/none", accept=TABLE).tree["kind"] == "Status"


def test_a_written_object_may_come_back_as_a_table(server: Running) -> None:
    table = server.ask("POST", f"{PODS}?dryRun=All", pod("d"), accept=TABLE).tree
    assert table["rows"][0]["cells"][0] == "d"


def test_a_scale_is_a_table(server: Running) -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    server.ask("POST", deployments, {"metadata": {"name": "web"}, "spec": spec})
    table = server.ask("GET", f"{deployments}/web/scale?includeObject=None", accept=TABLE).tree
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Desired",
        "Available",
        "Age",
    ]
    assert table["rows"] == [{"cells": ["web", 2, 0, "0s"], "object": None}]


# ---- watches --------------------------------------------------------------------------------------


def lines(server: Running, path: str) -> list[Tree]:
    """The events of a watch that ends by itself."""
    connection = server.connect()
    try:
        connection.request("GET", path, headers=server.headers(Accept=TABLE))
        answer: http.client.HTTPResponse = connection.getresponse()
        return [json.loads(line) for line in answer.read().splitlines()]
    finally:
        connection.close()


def test_a_watch_tells_its_columns_once(server: Running) -> None:
    events = lines(server, f"{PODS}?watch=1&timeoutSeconds=1")
    assert [event["type"] for event in events] == ["ADDED"] * 3
    tables = [event["object"] for event in events]
    assert [table["kind"] for table in tables] == ["Table"] * 3
    assert [table["rows"][0]["cells"][0] for table in tables] == ["a", "b", "c"]
    assert tables[0]["columnDefinitions"][0]["name"] == "Name"
    assert [table["columnDefinitions"] for table in tables[1:]] == [None, None]
    assert tables[0]["metadata"] == {
        "resourceVersion": tables[0]["rows"][0]["object"]["metadata"]["resourceVersion"]
    }


def test_a_bookmark_is_a_row_of_its_own(server: Running) -> None:
    asked = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    events = lines(server, f"{PODS}?watch=1&timeoutSeconds=1&{asked}&includeObject=None")
    mark = next(event for event in events if event["type"] == "BOOKMARK")
    row = mark["object"]["rows"][0]
    assert row["cells"][:5] == ["", "0/0", "", "0", "<unknown>"]
    assert row["object"]["metadata"] == {
        "resourceVersion": mark["object"]["metadata"]["resourceVersion"],
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


def test_a_custom_resource_has_the_columns_of_its_definition(server: Running) -> None:
    names = {"kind": "Buoy", "plural": "buoys"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "additionalPrinterColumns": [
            {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
            {"name": "What", "type": "string", "jsonPath": ".kind"},
        ],
    }
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "buoys.example.com"}, "spec": spec}
    server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    buoy = {
        "apiVersion": "example.com/v1",
        "kind": "Buoy",
        "metadata": {"name": "a"},
        "spec": {"colour": "red"},
    }
    table = server.ask("POST", "/apis/example.com/v1/buoys", buoy, accept=TABLE).tree
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Colour", "What"]
    assert [row["cells"] for row in table["rows"]] == [["a", "red", "Buoy"]]


def test_reviews_are_not_converted_to_tables(server: Running) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    refusal = server.ask("POST", path, body, accept=TABLE)
    assert refusal.code == 406
    resource = "selfsubjectaccessreviews.authorization.k8s.io"
    assert refusal.tree["message"] == f"the resource {resource} does not support being converted to a Table"
