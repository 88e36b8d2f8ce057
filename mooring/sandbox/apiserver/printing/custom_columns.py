"""Tables of custom resources: the `additionalPrinterColumns` of a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.printing.ages import Ages
from mooring.sandbox.apiserver.printing.columns import AGE, NAME, Cell, Column, Printer
from mooring.sandbox.apiserver.printing.jsonpath import JSONPath, JSONPathError


def custom_printer(additional: Sequence[Tree]) -> Printer:
    """Build the printer of a version's `additionalPrinterColumns`; without any, objects show their age.

    Raises JSONPathError for an invalid path.
    """
    if not additional:
        return Printer(NAME, AGE._replace(type="date"))
    return Printer(NAME, *(_column(definition) for definition in additional))


def _column(definition: Tree) -> Column:
    path: str = definition["jsonPath"]
    return Column(
        definition["name"],
        _cell(JSONPath(path), definition["type"]),
        definition.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        definition["type"],
        definition.get("format", ""),
        definition.get("priority", 0),
    )


def _cell(path: JSONPath, type: str) -> Cell:
    def cell(obj: Tree, ages: Ages) -> Any:
        try:
            values = path.find(obj)
        except (JSONPathError, RecursionError):
            return None
        if not values:
            return None
        return _text(values[0]) if type == "string" else _value(values[0], type, ages)

    return cell


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return encode_json(value).decode()


def _value(value: Any, type: str, ages: Ages) -> Any:
    """Convert a value to the type of its column; None if it has another type."""
    if type == "boolean":
        return value if isinstance(value, bool) else None
    if type == "date":
        return _age(value, ages) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if type == "integer" else float(value)


def _age(time: str, ages: Ages) -> str:
    try:
        return ages.since(time)
    except ValueError:
        return "<invalid>"
