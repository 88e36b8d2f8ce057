"""Values as Go prints them: the form used in the API server's messages about patches."""

from __future__ import annotations

from typing import Any

from mooring.sandbox.apiserver.errors import show


def go_value(value: Any) -> str:
    """Format a value like `%v`: `map[a:1 b:[x y]]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{go_value(value[name])}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_value(item) for item in value) + "]"
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else _number_or_boolean(value)


def go_syntax(value: Any) -> str:
    """Format a value like `%#v`: Go syntax."""
    if isinstance(value, dict):
        members = ", ".join(f"{show(name)}:{go_syntax(value[name])}" for name in sorted(value))
        return f"map[string]interface {{}}{{{members}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(go_syntax(item) for item in value) + "}"
    if value is None:
        return "interface {}(nil)"
    return show(value) if isinstance(value, str) else _number_or_boolean(value)


def go_type(value: Any) -> str:
    """Format the type of a value like `%T`."""
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    names = {bool: "bool", int: "int64", float: "float64", str: "string"}
    return names.get(value.__class__, "<nil>")


def go_kind(value: Any) -> str:
    """Return the name of a value's kind in Go's reflection."""
    if isinstance(value, dict):
        return "map"
    return "slice" if isinstance(value, list) else go_type(value)


def json_name(value: Any) -> str:
    """Return Go's JSON decoder's name for the type of a value."""
    if isinstance(value, bool):
        return "bool"
    names = {dict: "object", list: "array", int: "number", float: "number", str: "string"}
    return names.get(value.__class__, "null")


def _number_or_boolean(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
