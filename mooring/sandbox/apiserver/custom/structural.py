"""Whether the schema of a definition is structural: each value has a place that specifies it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.api.go_regexp import PatternError, compile_pattern
from mooring.sandbox.apiserver.errors import Cause, forbidden_value, invalid_value, required
from mooring.sandbox.apiserver.kinds.schema_leaves import is_leaf
from mooring.sandbox.apiserver.objects import Tree

ROOT, ITEM, FIELD = "at the root", "for specified array items", "for specified object fields"
_JUNCTORS: Final = ("anyOf", "allOf", "oneOf")
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
_NOT_NESTED: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
"""Members that belong to the structure, so not below anyOf and the like."""


def check_structure(schema: Tree, path: str) -> list[Cause]:
    """Return what keeps a schema from being structural, in the order in which Kubernetes reports it."""
    return sorted([*_structure(schema, ROOT, path), *_complete(schema, schema, path, path)], key=str)


def _structure(schema: Tree, level: str, path: str) -> Iterator[Cause]:
    kind, items = schema.get("type"), schema.get("items")
    if kind == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _structure(items, ITEM, f"{path}.items")
    for name, held in (schema.get("properties") or {}).items():
        if is_leaf(held):
            continue
        yield from _structure(held, FIELD, f"{path}.properties[{name}]")
    additional = schema.get("additionalProperties")
    if additional is not None and level is ROOT:
        yield forbidden_value(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _structure(additional, FIELD, f"{path}.additionalProperties")
    yield from _extensions(schema, path)
    yield from _nested_validations(schema, path)
    yield from _type(schema, level, path)
    yield from _resource(schema, level, path)


def _extensions(schema: Tree, path: str) -> Iterator[Cause]:
    if schema.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(name):
                why = "must be false if x-kubernetes-int-or-string is true"
                yield invalid_value(f"{path}.{name}", True, why)


def _type(schema: Tree, level: str, path: str) -> Iterator[Cause]:
    kind, at = schema.get("type") or "", f"{path}.type"
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        why = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid_value(at, kind, why) if kind else required(at, why)
    elif not kind and not _says_otherwise(schema):
        yield required(at, f"must not be empty {level}")
    if level is ROOT and kind not in ("", "object"):
        yield invalid_value(at, kind, "must be object at the root")


def _says_otherwise(schema: Tree) -> bool:
    """Whether the type of a value is known without `type`."""
    names = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    return any(schema.get(name) for name in names)


def _resource(schema: Tree, level: str, path: str) -> Iterator[Cause]:
    """Check kind, apiVersion and metadata, of the objects themselves and of embedded ones."""
    properties, embedded = schema.get("properties") or {}, schema.get("x-kubernetes-embedded-resource")
    if embedded and schema.get("additionalProperties") is not None:
        why = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden_value(f"{path}.additionalProperties", why)
    if embedded and not properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
        why = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", why)
    if not (embedded or level is ROOT):
        return
    for name, expected in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if name in properties and properties[name].get("type") != expected:
            at, type = f"{path}.properties[{name}].type", properties[name].get("type") or ""
            yield invalid_value(at, type, f"must be {expected}")
    if level is ROOT and _says_too_much(properties.get("metadata") or {}):
        why = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield forbidden_value(f"{path}.properties[metadata]", why)


def _says_too_much(metadata: Tree) -> bool:
    if set(metadata.get("properties") or {}) - {"name", "generateName"}:
        return True
    return bool(set(metadata) - {"type", "properties", "default"})


# ---- validations below anyOf and the like ---------------------------------------------------------


def _nested_validations(schema: Tree, path: str) -> Iterator[Cause]:
    for name in _JUNCTORS:
        alternatives: list[Tree] = schema.get(name) or []
        if name == "anyOf" and alternatives == _EITHER:
            continue
        for index, nested in enumerate(alternatives):
            either = name == "allOf" and not index and nested.get("anyOf") == _EITHER
            yield from _nested(nested, f"{path}.{name}[{index}]", either)
    if isinstance(schema.get("not"), dict):
        yield from _nested(schema["not"], f"{path}.not", False)
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except PatternError as error:
            why = f"must be a valid regular expression, but isn't: {error}"
            yield invalid_value(f"{path}.pattern", pattern, why)


def _nested(schema: Tree, path: str, either: bool) -> Iterator[Cause]:
    without = {name: value for name, value in schema.items() if name != "anyOf"} if either else schema
    yield from _nested_validations(without, path)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items", False)
    for name, held in (schema.get("properties") or {}).items():
        yield from _nested(held, f"{path}.properties[{name}]", False)
    for name, why in _NOT_NESTED.items():
        if schema.get(name) or (name == "default" and schema.get(name) is not None):
            yield forbidden_value(f"{path}.{name}", why)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden_value(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _complete(nested: Tree, schema: Any, path: str, at: str, *, below: bool = False) -> Iterator[Cause]:
    """What is validated must be in the structure as well; `at` is the path of the validation."""
    if not isinstance(schema, dict):
        yield required(path, f"because it is defined in {at}")
        return
    for name in _JUNCTORS:
        for index, one in enumerate(nested.get(name) or ()):
            yield from _complete(one, schema, path, f"{at}.{name}[{index}]", below=True)
    if isinstance(nested.get("not"), dict):
        yield from _complete(nested["not"], schema, path, f"{at}.not", below=True)
    if not below:
        return
    if isinstance(nested.get("items"), dict):
        yield from _complete(nested["items"], schema.get("items"), f"{path}.items", f"{at}.items", below=True)
    for name, held in (nested.get("properties") or {}).items():
        member = (schema.get("properties") or {}).get(name)
        place = f"properties[{name}]"
        yield from _complete(held, member, f"{path}.{place}", f"{at}.{place}", below=True)
