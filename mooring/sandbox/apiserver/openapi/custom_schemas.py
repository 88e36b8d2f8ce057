"""Schemas of custom resources: those of their definition, with the members that all objects have."""

from __future__ import annotations

from typing import Any, Final

from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.kinds.documentation import documentation_of
from mooring.sandbox.apiserver.kinds.schema_leaves import is_leaf
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.openapi.type_names import custom_name
from mooring.sandbox.apiserver.openapi.type_schemas import Schemas

_OBJECT_META: Final = object_type("meta_v1", "ObjectMeta")
_LIST_META: Final = object_type("meta_v1", "ListMeta")
_POD: Final = object_type("core_v1", "Pod")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_HOLDING: Final = frozenset({"additionalProperties", "items", "properties", _EMBEDDED})
_ONLY_V3: Final = ("oneOf", "anyOf", "allOf", "not", "nullable")
"""Members that kubectl does not understand in a v2 document."""


def custom_schema(schemas: Schemas, schema: Tree | None) -> Tree:
    """Return the definition of a custom kind; `schema` is the `openAPIV3Schema` of its version.

    A schema that is nested too deeply to encode must not break the document for the others.
    """
    try:
        return _published(schemas, schema)
    except RecursionError:
        return {"type": "object"}


def _published(schemas: Schemas, schema: Tree | None) -> Tree:
    if schema is None:
        return {"type": "object"}
    if schemas.dialect.version == 2:
        if schema.get(_PRESERVE):
            return {"type": "object"}  # named members would be the only ones allowed
        schema = _in_v2(schema)
    embedding = _embedding(schemas, schema)
    return {**embedding, "properties": _object_members(schemas, embedding.get("properties") or {})}


def custom_list_schema(schemas: Schemas, resource: Resource) -> Tree:
    kind = resource.kind
    items = schemas.dialect.named(custom_name(*resource.gvk))
    return {
        "description": f"{resource.list_kind} is a list of {kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_type_members(),
            "items": {"description": f"List of {resource.plural}.", "type": "array", "items": items},
            "metadata": schemas.dialect.named(schemas.add(_LIST_META)),
        },
    }


def _about(member: str) -> str:
    """Return the description of a member that all objects have."""
    return documentation_of(_POD).members[member]


def _type_members() -> Tree:
    return {name: {"description": _about(name), "type": "string"} for name in ("apiVersion", "kind")}


def _object_members(schemas: Schemas, own: Tree) -> Tree:
    """Return the members of an object: its own, and those that all objects have."""
    metadata = schemas.dialect.named(schemas.add(_OBJECT_META), description=_about("metadata"))
    return dict(sorted({**own, **_type_members(), "metadata": metadata}.items()))


def _embedding(schemas: Schemas, schema: Tree) -> Tree:
    """Return a schema in which embedded resources have the members of all objects."""
    result = dict(schema)
    if "properties" in result:
        result["properties"] = {name: _part(schemas, member) for name, member in result["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(result.get(name), dict):
            result[name] = _part(schemas, result[name])
    return result


def _part(schemas: Schemas, schema: Tree) -> Tree:
    if _HOLDING.isdisjoint(schema):
        return schema
    result = _embedding(schemas, schema)
    if schema.get(_EMBEDDED):
        result["properties"] = _object_members(schemas, result.get("properties") or {})
    return result


def _in_v2(schema: Tree) -> Tree:
    """Return a schema reduced to what kubectl understands."""
    if is_leaf(schema) and not schema.get("nullable"):
        return schema
    result: dict[str, Any] = {name: value for name, value in schema.items() if name not in _ONLY_V3}
    if schema.get("nullable") or schema.get(_PRESERVE):
        for name in ("items", "properties"):
            result.pop(name, None)
    if schema.get("nullable") or (schema.get(_PRESERVE) and result.get("type") == "object"):
        result.pop("type", None)
    if result.get("type") == "array" and "items" not in result:
        del result["type"]
    if "properties" in result:
        members = result["properties"]
        result["properties"] = {name: _in_v2(member) for name, member in members.items()}
        nullable = {name for name, member in members.items() if member.get("nullable")}
        required = [name for name in result.pop("required", ()) if name not in nullable]
        if required:
            result["required"] = required
    for name in ("items", "additionalProperties"):
        if isinstance(result.get(name), dict):
            result[name] = _in_v2(result[name])
    return result
