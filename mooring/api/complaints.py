"""msgspec's validation errors of an object, by field."""

from __future__ import annotations

import re
from typing import Any

from mooring.api.errors import MISSING, MalformedObject, child
from mooring.api.resources import QUANTITY_EXPECTED

_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "nothing",
}
_GOT: dict[str, type | tuple[type, ...]] = {
    "str": str, "int": int, "float": float, "bool": bool, "object": dict, "array": list,
}  # fmt: skip
_AT = re.compile(r"(?P<what>.*?)(?: - at `(?P<at>.*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<got>[^`]*)`")
_REQUIRED = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_STEP = re.compile(r"\[\.\.\.\]|\[(\d+)\]|\.?([^.\[\]]+)")


def key_of(obj: dict[str, Any]) -> str:
    """ "namespace/name" of an object that may not decode; what is no text counts as absent."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    namespace, name = text_or_empty(metadata.get("namespace")), text_or_empty(metadata.get("name"))
    return f"{namespace}/{name}" if namespace else name


def text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def malformed(kind: str, obj: Any, message: str) -> MalformedObject:
    """The error for an object which msgspec refused with this message."""
    split = _AT.fullmatch(message)
    what, at = (split["what"], split["at"] or "$") if split else (message, "$")
    key = key_of(obj)
    if at.startswith("key` in `"):  # a map's key is the culprit, not a value
        return MalformedObject(kind, key, at.removeprefix("key` in `$."), _odd_key(obj, at), "text for a key")
    required = _REQUIRED.fullmatch(what)
    if required is not None:
        field, _ = _walk(obj, at, None)
        return MalformedObject(kind, key, child(field, required["name"]), MISSING, "a value")
    expected = _EXPECTED.search(what)
    if expected is None:
        field, value = _walk(obj, at, None)
        return MalformedObject(kind, key, field or kind, value, what)
    field, value = _walk(obj, at, expected["got"])
    return MalformedObject(kind, key, field or kind, value, _words(expected["expected"]))


def _words(types: str) -> str:
    """msgspec's `int | null` as people say it."""
    names = [name.strip() for name in types.split("|")]
    if set(names) >= {"str", "int", "float"}:
        return QUANTITY_EXPECTED
    return " or ".join(_WORDS.get(name, name) for name in names if name != "null")


def _walk(obj: Any, at: str, got: str | None) -> tuple[str, Any]:
    """(field, value) at msgspec's path; `[...]`, which it writes for any member of a map, is looked up."""
    field = ""
    for step in _STEP.finditer(at.removeprefix("$")):
        name: str | int
        if step[0] == "[...]":
            name = _member(obj, got)
        else:
            name = int(step[1]) if step[1] else step[2]
        field = f"{field}[{name}]" if isinstance(name, int) else child(field, name)
        try:
            obj = obj[name]
        except (KeyError, IndexError, TypeError):
            return field, MISSING
    return field, obj


def _member(members: Any, got: str | None) -> str:
    """The name of the first member of the type which the complaint is about."""
    expected_type = _GOT.get(got or "", object)
    if isinstance(members, dict):
        for name, member in members.items():
            if isinstance(member, expected_type) and (got == "bool" or not isinstance(member, bool)):
                return str(name)
    return "..."


def _odd_key(obj: Any, at: str) -> Any:
    _, members = _walk(obj, at.removeprefix("key` in `"), None)
    if not isinstance(members, dict):
        return MISSING
    return next((name for name in members if not isinstance(name, str)), MISSING)
