"""Cells and columns, compared with those of a real API server."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.sandbox.apiserver.builtin import builtin_registry
from mooring.sandbox.apiserver.printing.ages import Ages, human_duration
from mooring.sandbox.apiserver.printing.columns import Printer
from mooring.sandbox.apiserver.printing.custom_columns import custom_printer
from mooring.sandbox.apiserver.printing.printers import PRINTERS, SCALE
from tests.sandbox.apiserver.scene import Recorded, Tree, recorded_tables, without_ages

TABLES = {table.path: table for table in recorded_tables()}
REGISTRY = builtin_registry()
NOW = 1_800_000_000.0


def printer(table: Recorded) -> Printer:
    if table.group == "example.com":
        rows = TABLES["apiextensions.k8s.io/v1/customresourcedefinitions"].rows
        definitions = {row.object["spec"]["names"]["plural"]: row.object for row in rows}
        versions = {one["name"]: one for one in definitions[table.plural]["spec"]["versions"]}
        return custom_printer(versions[table.version].get("additionalPrinterColumns", ()))
    resource = REGISTRY.find(table.group, table.version, table.plural)
    assert resource is not None
    return resource.printer


def stored(table: Recorded) -> dict[str, Tree]:
    """Objects by name in the version that is stored, which is another one for two resources."""
    elsewhere = {
        "events.k8s.io/v1/events": "events",
        "autoscaling/v1/horizontalpodautoscalers": "autoscaling/v2/horizontalpodautoscalers",
    }
    rows = TABLES[elsewhere.get(table.path, table.path)].rows
    return {row.object["metadata"]["name"]: row.object for row in rows}


@pytest.mark.parametrize("path", TABLES)
def test_the_columns_are_those_of_a_real_server(path: str) -> None:
    found = [
        [column[member] for member in ("name", "type", "format", "priority")]
        for column in printer(TABLES[path]).definitions
    ]
    assert found == TABLES[path].columns


@pytest.mark.parametrize("path", TABLES)
def test_the_cells_are_those_of_a_real_server(path: str) -> None:
    table, objects = TABLES[path], stored(TABLES[path])
    for row in table.rows:
        obj = objects[row.object["metadata"]["name"]]
        cells = printer(table).cells(obj, Ages(NOW))
        assert [without_ages(cell) for cell in cells] == row.cells, obj["metadata"]["name"]


def test_kinds_that_nobody_thought_of_show_when_they_were_created() -> None:
    resource = REGISTRY.find("rbac.authorization.k8s.io", "v1", "clusterroles")
    assert resource is not None
    obj = {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert resource.printer.cells(obj, Ages(NOW)) == ["a", "2026-01-01T00:00:00Z"]


def test_every_printer_is_of_a_kind_that_is_served() -> None:
    served = builtin_registry({"GenericWorkload", "DRADeviceTaintRules"})
    assert PRINTERS.keys() <= {resource.storage for resource in served}


@pytest.mark.parametrize("name", PRINTERS)
@pytest.mark.parametrize("rest", [{}, {"spec": {}, "status": {}}, {"spec": None, "status": None}])
def test_objects_that_hold_nothing_are_printed_too(name: str, rest: Tree) -> None:
    """Bookmarks are such objects."""
    cells = PRINTERS[name].cells({"metadata": {"resourceVersion": "7"}, **rest}, Ages(NOW))
    assert len(cells) == len(PRINTERS[name].columns)


def test_columns_tell_what_they_mean() -> None:
    definitions = {one["name"]: one for one in PRINTERS["pods"].definitions}
    assert definitions["Status"]["description"] == "The aggregate status of the containers in this pod."
    assert definitions["Age"]["description"].startswith("CreationTimestamp is a timestamp representing")
    assert definitions["Age"]["description"].count("\n\n") == 1
    undescribed = {
        (name, one["name"])
        for name, found in PRINTERS.items()
        for one in found.definitions
        if not one["description"]
    }
    assert undescribed == {("runtimeclasses.node.k8s.io", "Handler")}


def test_pods_that_ended_say_so() -> None:
    pods = PRINTERS["pods"]
    ended = pods.conditions({"metadata": {}, "status": {"phase": "Failed"}})
    assert ended == [
        {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    ]
    assert pods.conditions({"metadata": {}, "status": {"phase": "Running"}}) == []


@pytest.mark.parametrize(
    ("name", "obj", "cells"),
    [
        (
            "certificatesigningrequests.certificates.k8s.io",
            {
                "spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600},
                "status": {"conditions": [{"type": "Approved"}, {"type": "Failed"}], "certificate": "x"},
            },
            ["a", "<unknown>", "s", "u", "60m", "Approved,Failed,Issued"],
        ),
        (
            "ipaddresses.networking.k8s.io",
            {"spec": {"parentRef": {"resource": "services", "namespace": "d", "name": "web"}}},
            ["a", "services/d/web"],
        ),
        (
            "apiservices.apiregistration.k8s.io",
            {
                "spec": {"service": {"namespace": "b", "name": "c"}},
                "status": {"conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]},
            },
            ["a", "b/c", "False (Gone)", "<unknown>"],
        ),
        (
            "mutatingadmissionpolicies.admissionregistration.k8s.io",
            {"spec": {"mutations": [{}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}},
            ["a", 1, "v1/ConfigMap", "<unknown>"],
        ),
    ],
)
def test_kinds_without_recordings(name: str, obj: Tree, cells: list[Any]) -> None:
    assert PRINTERS[name].cells({"metadata": {"name": "a"}, **obj}, Ages(NOW)) == cells


def test_a_scale_has_columns_of_its_own() -> None:
    scale = {"metadata": {"name": "web"}, "spec": {"replicas": 3}, "status": {"replicas": 2}}
    assert SCALE.cells(scale, Ages(NOW)) == ["web", 3, 2, "<unknown>"]


# ---- ages -----------------------------------------------------------------------------------------

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR, "8h"),
        (48 * HOUR - 1, "47h"),
        (2 * DAY, "2d"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (8 * YEAR - 1, "7y364d"),
        (8 * YEAR, "8y"),
    ],
)
def test_ages_have_the_figures_that_matter(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@given(st.floats(0, 30 * YEAR))
def test_an_age_is_never_longer_than_it_was_and_right_to_a_tenth(seconds: float) -> None:
    units = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "y": YEAR}
    parts = re.findall(r"(\d+)([smhdy])", human_duration(seconds))
    told = sum(int(number) * units[unit] for number, unit in parts)
    assert told <= seconds < told + max(1, 0.13 * seconds)


def test_ages_are_of_one_moment() -> None:
    ages = Ages(1000.0)
    assert ages.since("1970-01-01T00:10:00Z") == "6m40s"
    assert ages.since("1970-01-01T00:16:40.500000Z") == "0s"
    assert ages.since(None) == "<unknown>"


# ---- odd values -----------------------------------------------------------------------------------


@given(st.sampled_from(sorted(PRINTERS)), st.data())
def test_half_filled_objects_are_printed(name: str, data: st.DataObject) -> None:
    """Whatever validation let through: any member of a recorded object may be missing."""
    paths = [path for path in TABLES if _storage(path) == name]
    rows = [row for path in paths for row in TABLES[path].rows]
    if rows:
        row = data.draw(st.sampled_from(rows))
        obj = _thinned(row.object, data)
        PRINTERS[name].cells(obj, Ages(NOW))


def _storage(path: str) -> str:
    table = TABLES[path]
    return f"{table.plural}.{table.group}" if table.group else table.plural


def _thinned(obj: Tree, data: st.DataObject) -> Tree:
    spec_and_status = {name: _thin(value, data) for name, value in obj.items() if name != "metadata"}
    return {"metadata": obj["metadata"], **spec_and_status}


def _thin(value: Any, data: st.DataObject) -> Any:
    """The value without one of its members, or with one of them thinned."""
    if not isinstance(value, dict) or not value:
        return value
    name = data.draw(st.sampled_from(sorted(value)))
    if data.draw(st.booleans()):
        return {key: member for key, member in value.items() if key != name}
    return {**value, name: _thin(value[name], data)}
