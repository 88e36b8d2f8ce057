"""Columns that a CustomResourceDefinition names by JSONPath."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.sandbox.apiserver.printing.ages import Ages
from mooring.sandbox.apiserver.printing.custom_columns import custom_printer
from mooring.sandbox.apiserver.printing.jsonpath import JSONPath, JSONPathError

SHIP = {
    "metadata": {"name": "a", "labels": {"example.com/flag": "de", "x": "y"}},
    "spec": {
        "holds": ["coal", "ore", "grain"],
        "crew": [{"name": "ann", "age": 17, "paid": True}, {"name": "bob", "age": 40, "paid": False}],
        "tons": 12000,
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.tons", [12000]),
        ("$.spec.tons", [12000]),
        (".spec['tons']", [12000]),
        (".metadata.labels.example\\.com/flag", ["de"]),
        (".metadata.labels['example\\.com/flag']", ["de"]),
        (".metadata.labels['example.com/flag']", []),
        (".spec.holds[0]", ["coal"]),
        (".spec.holds[-1]", ["grain"]),
        (".spec.holds[-1:]", ["grain"]),
        (".spec.holds[0:2]", ["coal", "ore"]),
        (".spec.holds[::2]", ["coal", "grain"]),
        (".spec.holds[*]", ["coal", "ore", "grain"]),
        (".spec.holds[0,2]", ["coal", "grain"]),
        (".spec['tons','none']", [12000]),
        (".spec.crew[*].name", ["ann", "bob"]),
        (".metadata.labels.*", ["de", "y"]),
        (".spec.crew[?(@.age>=18)].name", ["bob"]),
        (".spec.crew[?(@.age<18)].name", ["ann"]),
        (".spec.crew[?(@.name!='ann')].age", [40]),
        ('.spec.crew[?(@.name=="ann")].age', [17]),
        (".spec.crew[?(@.paid==true)].name", ["ann"]),
        (".spec.crew[?(@.title)].name", []),
        (".spec.crew[?(@.age)].name", ["ann", "bob"]),
        ('.spec.crew[?(@.name==")]")].name', []),
        ("..age", [17, 40]),
        (".spec.none.at.all", []),
        (".spec.holds.none", []),
    ],
)
def test_paths_lead_where_they_lead_for_kubernetes(path: str, found: list[Any]) -> None:
    assert JSONPath(path).find(SHIP) == found


@pytest.mark.parametrize(
    "path",
    [
        ".spec[",
        ".spec[a]",
        ".spec[]",
        '.spec["a"]',
        "spec",
        "....a",
        ".a[?(@.b=~'x')]",
        ".a b",
        ".a[0:1:0]",
        ".a[?(@.b",
    ],
)
def test_paths_that_cannot_be_read_are_refused(path: str) -> None:
    with pytest.raises(JSONPathError):
        JSONPath(path)


@pytest.mark.parametrize(
    "path",
    [
        ".spec.holds[7]",
        ".spec.tons[0]",
        ".spec.tons[?(@.a)]",
        ".spec.crew[?(@.age=='x')]",
        ".spec.holds[0:9]",
    ],
)
def test_what_a_value_has_not_leaves_the_cell_empty(path: str) -> None:
    printer = custom_printer([{"name": "X", "type": "string", "jsonPath": path}])
    assert printer.cells(SHIP, Ages(0)) == ["a", None]


def test_a_column_without_description_tells_its_path() -> None:
    printer = custom_printer([{"name": "Tons", "type": "integer", "jsonPath": ".spec.tons", "priority": 1}])
    assert printer.definitions[1] == {
        "name": "Tons",
        "type": "integer",
        "format": "",
        "description": "Custom resource definition column (in JSONPath format): .spec.tons",
        "priority": 1,
    }


@pytest.mark.parametrize(
    ("type", "value", "cell"),
    [
        ("string", 1.0, "1"),
        ("string", 1.5, "1.5"),
        ("string", True, "true"),
        ("string", None, "null"),
        ("string", {"a": [1]}, '{"a":[1]}'),
        ("integer", 2.7, 2),
        ("integer", "2", None),
        ("integer", True, None),
        ("number", 2, 2.0),
        ("boolean", "true", None),
        ("date", 5, None),
        ("date", "soon", "<invalid>"),
        ("date", "1970-01-01T00:00:00Z", "10s"),
    ],
)
def test_cells_are_of_the_type_of_their_column(type: str, value: Any, cell: Any) -> None:
    printer = custom_printer([{"name": "X", "type": type, "jsonPath": ".x"}])
    assert printer.cells({"metadata": {"name": "a"}, "x": value}, Ages(10.0))[1] == cell


def test_a_path_that_multiplies_values_is_given_up() -> None:
    tree: Any = {"b": 1}
    for _ in range(40):
        tree = {"b": tree, "c": [tree]}
    with pytest.raises(JSONPathError, match="visits more than"):
        JSONPath(".a..b..b..b").find({"a": tree})
