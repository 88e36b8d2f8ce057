"""Validation of the schemas in a definition."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from mooring.sandbox.apiserver.custom.pruning import META, prune
from mooring.sandbox.apiserver.custom.rule_evaluation import check_default_by_rules
from mooring.sandbox.apiserver.custom.rule_validation import check_expressions, check_form
from mooring.sandbox.apiserver.custom.rules import has_rules
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.custom.schema_check import check
from mooring.sandbox.apiserver.custom.structural import check_structure
from mooring.sandbox.apiserver.errors import Cause, forbidden_value, invalid_value, not_supported, required
from mooring.sandbox.apiserver.kinds.schema_leaves import is_leaf
from mooring.sandbox.apiserver.objects import Tree

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_WITH_STATUS: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum",
    "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required",
    "Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
"""Members allowed at the root next to a status subresource, whose schema is taken out of it."""
_GO_NAMES: Final = {
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
_LIST_TYPES: Final = ("atomic", "set", "map")


def check_schema(schema: Tree, path: str, *, status: bool, unchanged: bool = False) -> list[Cause]:
    """Return all causes of an invalid schema: its form, its defaults, unsupported members, and its rules. An
    `unchanged` schema may have rules that cost too much."""
    causes: list[Cause] = []
    names = {_GO_NAMES.get(name, name[:1].upper() + name[1:]) for name in schema}
    if status and names - set(_WITH_STATUS):
        why = f"only [{' '.join(_WITH_STATUS)}] fields are allowed at the root of the schema if the status "
        causes.append(invalid_value(path, schema, why + "subresource is enabled"))
    if schema.get("nullable"):
        causes.append(forbidden_value(f"{path}.nullable", "nullable cannot be true at the root"))
    is_structural = not _is_beyond_structure(schema)
    problems = check_structure(schema, path) or _check_defaults(schema, path) if is_structural else []
    causes += problems
    members = list(_check_node(schema, path, root=True, no_default=""))
    causes += members
    if is_structural and not problems and has_rules(schema):
        causes += check_expressions(schema, path, members, suppress=unchanged)
    return causes


def _is_beyond_structure(schema: Tree) -> bool:
    """Whether the schema has unsupported members, so that only these are reported."""
    if any(schema.get(name) for name in _UNSUPPORTED):
        return True
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return True
    return any(_is_beyond_structure(held) for _, held, _ in _children(schema, "") if not is_leaf(held))


def _children(schema: Tree, path: str) -> Iterator[tuple[str, Tree, str]]:
    """Yield the direct subschemas of a schema with their paths."""
    if isinstance(schema.get("additionalProperties"), dict):
        yield "", schema["additionalProperties"], f"{path}.additionalProperties"
    for name, held in (schema.get("properties") or {}).items():
        yield name, held, f"{path}.properties[{name}]"
    if isinstance(schema.get("not"), dict):
        yield "", schema["not"], f"{path}.not"
    for junctor in ("allOf", "oneOf", "anyOf"):
        for index, nested in enumerate(schema.get(junctor) or ()):
            yield "", nested, f"{path}.{junctor}[{index}]"
    if isinstance(schema.get("items"), dict):
        yield "", schema["items"], f"{path}.items"


def _check_node(schema: Tree, path: str, *, root: bool, no_default: str) -> Iterator[Cause]:
    yield from _check_supported(schema, path, no_default)
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if properties and additional is not None and additional is not True:
        why = "additionalProperties and properties are mutual exclusive"
        yield forbidden_value(f"{path}.additionalProperties", why)
    for name, held, at in _children(schema, path):
        if is_leaf(held):
            continue
        reason = f"in top-level {name}" if root and name in META else no_default
        yield from _check_node(held, at, root=False, no_default=reason)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        at = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield invalid_value(at, False, "must be true or undefined")
    yield from _check_map_type(schema, path)
    yield from _check_list_type(schema, path)
    yield from check_form(schema, path)


def _check_supported(schema: Tree, path: str, no_default: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if schema.get("default") is not None and no_default:
        yield forbidden_value(f"{path}.default", f"must not be set {no_default}")
    for name in _UNSUPPORTED:
        if schema.get(name):
            yield forbidden_value(f"{path}.{name}", f"{name} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden_value(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_value(f"{path}.uniqueItems", why)


def _must_be(schema: Tree, expected: str, extension: str, path: str) -> Iterator[Cause]:
    kind, why = schema.get("type") or "", f"must be {expected} if {extension} is specified"
    if kind != expected:
        yield invalid_value(f"{path}.type", kind, why) if kind else required(f"{path}.type", why)


def _check_map_type(schema: Tree, path: str) -> Iterator[Cause]:
    extension = "x-kubernetes-map-type"
    map_type = schema.get(extension)
    if map_type is None:
        return
    yield from _must_be(schema, "object", extension, path)
    if map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.{extension}", map_type, ("atomic", "granular"))


def _check_list_type(schema: Tree, path: str) -> Iterator[Cause]:
    extension, keys_at = "x-kubernetes-list-type", f"{path}.x-kubernetes-list-map-keys"
    list_type, keys = schema.get(extension), schema.get("x-kubernetes-list-map-keys") or []
    if list_type is not None:
        yield from _must_be(schema, "array", extension, path)
        if list_type not in _LIST_TYPES:
            yield not_supported(f"{path}.{extension}", list_type, _LIST_TYPES)
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if list_type == "set" and items is not None:
        yield from _check_set_items(items, path)
    if keys and list_type != "map":
        at, why = f"{path}.{extension}", "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(at, why) if list_type is None else invalid_value(at, list_type, why)
    if list_type == "map":
        if not keys:
            yield required(keys_at, "must not be empty if x-kubernetes-list-type is map")
        if items is None:
            yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        else:
            yield from _check_map_items(items, keys, keys_at, path)


def _check_set_items(items: Tree, path: str) -> Iterator[Cause]:
    why = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("nullable"):
        yield forbidden_value(
            f"{path}.items.nullable", "cannot be nullable when x-kubernetes-list-type is set"
        )
    if items.get("type") == "array" and items.get("x-kubernetes-list-type", "atomic") != "atomic":
        at = f"{path}.items.x-kubernetes-list-type"
        yield invalid_value(at, items["x-kubernetes-list-type"], why)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid_value(f"{path}.items.x-kubernetes-map-type", items.get("x-kubernetes-list-type"), why)


def _check_map_items(items: Tree, keys: list[str], keys_at: str, path: str) -> Iterator[Cause]:
    kind, properties = items.get("type"), items.get("properties") or {}
    if kind != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid_value(f"{path}.items.type", kind or "", why)
        return
    no_property = invalid_value(keys_at, keys, "entries must all be names of item properties")
    for key in keys:
        held, at = properties.get(key), f"{path}.items.properties[{key}]"
        if held is None:
            yield no_property  # one for all: there may be thousands, and each shows all of them
        elif held.get("type") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid_value(f"{at}.type", kind, why)
    if len(set(keys)) < len(keys):
        yield invalid_value(keys_at, keys, "must not contain duplicate entries")
    if items.get("nullable"):
        yield forbidden_value(
            f"{path}.items.nullable", "cannot be nullable when x-kubernetes-list-type is map"
        )
    this = "this property is in x-kubernetes-list-map-keys, so it"
    for key in keys:
        held, at = properties.get(key) or {}, f"{path}.items.properties[{key}]"
        if key in properties and key not in (items.get("required") or ()) and held.get("default") is None:
            yield required(f"{at}.default", f"{this} must have a default or be a required property")
        if held.get("nullable"):
            yield forbidden_value(f"{at}.nullable", f"{this} cannot be nullable")


# ---- defaults -------------------------------------------------------------------------------------


def _check_defaults(schema: Tree, path: str) -> list[Cause]:
    """Defaults must be valid values."""
    causes: list[Cause] = []
    if schema.get("default") is not None:
        causes += _check_default(schema, schema["default"], f"{path}.default")
    for name, held in (schema.get("properties") or {}).items():
        if is_leaf(held):
            continue
        causes += _check_defaults(held, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        causes += _check_defaults(schema["items"], f"{path}.items")
    return causes


def _check_default(tree: Tree, default: Any, path: str) -> Iterator[Cause]:
    schema = Schema(tree)
    if prune(deepcopy(default), schema):
        yield invalid_value(path, default, "must not have unknown fields")
    causes = check(schema, default)
    for cause in causes:
        yield cause if cause.field == "<nil>" else cause._replace(field=f"{path}.{cause.field}".rstrip("."))
    if not causes and has_rules(tree):
        yield from check_default_by_rules(tree, default, path)
