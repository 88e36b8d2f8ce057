"""The shapes of kinds: of built-in ones from their types, of custom ones from their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.fields.shapes import (
    UNTYPED,
    Atomic,
    AtomicList,
    Granular,
    ListMap,
    ListSet,
    MapShape,
    Member,
    ScalarShape,
    Shape,
    Struct,
)
from mooring.sandbox.apiserver.kinds.merge_keys import is_atomic, key_default, merging_of
from mooring.sandbox.apiserver.kinds.types import ListOf, MapOf, ObjectType, Scalar, Type, object_type
from mooring.sandbox.apiserver.kinds.wire import Zero, zeros

_UNOWNED: Final = (
    "creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion", "selfLink",
    "uid",
)  # fmt: skip
"""Members of the metadata without an owner; kind and apiVersion have none either."""
_EMBEDDED: Final = ("acceptedNames", "metadata", "names", "spec", "status")
"""Members that are not pointers in types missing from the wire table, those of apiextensions."""
_STRUCTS: Final = (Scalar.INT_OR_STRING, Scalar.MICRO_TIME, Scalar.QUANTITY, Scalar.TIME)
"""Scalars that are structs in Go, whose zero value is written."""
_TYPE_META: Final = ("apiVersion", "kind")
_OBJECT_META: Final = object_type("meta_v1", "ObjectMeta")


def shape_of(resource: Resource) -> Struct:
    """Return the shape of a resource's objects. Codecs of custom resources bring theirs as `shape`."""
    if resource.type is not None:
        return shape_of_kind(resource.type)
    shape = getattr(resource.codec, "shape", None)
    return shape if isinstance(shape, Struct) else _UNKNOWN_KIND


# ---- built-in kinds -------------------------------------------------------------------------------


@cache
def shape_of_kind(type: ObjectType) -> Struct:
    """Return the shape of whole objects of a built-in kind."""

    def members() -> dict[str, Member]:
        members_of_type = {
            name: member for name, member in _struct(type).members.items() if name not in _TYPE_META
        }
        if "metadata" in members_of_type:
            members_of_type["metadata"] = _METADATA
        return members_of_type

    return Struct(members, _TYPE_META)


@cache
def _struct(type: ObjectType) -> Struct:
    return Struct(lambda: _members(type))


def _members(owner: ObjectType) -> dict[str, Member]:
    """Return the members of a type. Go writes some even if they were not set: structs, and zeros."""
    marks = zeros(str(owner))
    if marks is None:
        marks = dict.fromkeys(_EMBEDDED, Zero.LEFT_OUT)
    members = {}
    for name, field in owner.fields.items():
        zero = marks.get(name, Zero.DISTINCT)
        pointer = zero in (Zero.DISTINCT, Zero.NULL)
        embedded = isinstance(field.type, ObjectType) and not pointer
        written = zero in (Zero.WRITTEN, Zero.NULL) or (not pointer and field.type in _STRUCTS)
        required = written and not embedded
        members[name] = Member(f"f:{name}", _shape(owner, name, field.type), embedded, required)
    return members


def _shape(owner: ObjectType, name: str, type: Type) -> Shape:
    if isinstance(type, ObjectType):
        inner = _struct(type)
        return Atomic(inner) if is_atomic(owner, name, type) else inner
    if isinstance(type, MapOf):
        map_shape = MapShape(_held(type.value))
        return Atomic(map_shape) if is_atomic(owner, name, None) else map_shape
    if isinstance(type, ListOf):
        return _list_shape(owner, name, type.item)
    return _scalar(type)


def _list_shape(owner: ObjectType, name: str, item: Type) -> Shape:
    merging = merging_of(owner, name)
    if merging.list_type == "map":
        assert isinstance(item, ObjectType)
        defaults = {key: key_default(item, key) for key in merging.map_keys}
        return ListMap(_held(item), merging.map_keys, defaults)
    if merging.list_type == "set":
        return ListSet(_held(item))
    return AtomicList(_held(item))


def _held(type: Type) -> Shape:
    """Return the shape of the items of a list or a map. Atomic types are atomic here, too."""
    if isinstance(type, ObjectType):
        return _struct_or_atomic(type)
    if isinstance(type, ListOf):
        return AtomicList(_held(type.item))
    return MapShape(_held(type.value)) if isinstance(type, MapOf) else _scalar(type)


@cache
def _struct_or_atomic(type: ObjectType) -> Shape:
    return Atomic(_struct(type)) if is_atomic(type, "", type) else _struct(type)


@cache
def _scalar(scalar: Scalar) -> Shape:
    return ScalarShape(scalar)


def _metadata_members() -> dict[str, Member]:
    return {name: member for name, member in _members(_OBJECT_META).items() if name not in _UNOWNED}


_METADATA: Final = Member("f:metadata", Struct(_metadata_members, _UNOWNED), embedded=True)


# ---- custom kinds ---------------------------------------------------------------------------------

_SCALARS: Final = {
    "boolean": ScalarShape(Scalar.BOOLEAN),
    "integer": ScalarShape(Scalar.NUMBER),
    "number": ScalarShape(Scalar.NUMBER),
    "string": ScalarShape(Scalar.STRING),
}
_UNKNOWN_KIND: Final = Struct(lambda: {"metadata": _METADATA}, _TYPE_META, UNTYPED)


def shape_of_schema(schema: Mapping[str, Any]) -> Struct:
    """Return the shape of custom objects, from the structural schema of their version."""

    def members() -> dict[str, Member]:
        schema_members = _schema_members(schema)
        return {name: member for name, member in schema_members.items() if name not in _TYPE_META} | {
            "metadata": _METADATA
        }

    return Struct(members, _TYPE_META, _others(schema))


def _schema_members(schema: Mapping[str, Any]) -> dict[str, Member]:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    return {name: Member(f"f:{name}", _schema_shape(held)) for name, held in properties.items()}


def _others(schema: Mapping[str, Any]) -> Shape | None:
    return UNTYPED if schema.get("x-kubernetes-preserve-unknown-fields") else None


def _schema_shape(schema: Mapping[str, Any]) -> Shape:
    if schema.get("x-kubernetes-int-or-string"):
        return ScalarShape(Scalar.INT_OR_STRING)
    kind = schema.get("type")
    if kind == "array":
        return _schema_list(schema)
    if kind != "object":
        return _SCALARS.get(str(kind), UNTYPED)
    granular = _schema_object(schema)
    return Atomic(granular) if schema.get("x-kubernetes-map-type") == "atomic" else granular


def _schema_object(schema: Mapping[str, Any]) -> Granular:
    if schema.get("x-kubernetes-embedded-resource"):
        return UNTYPED
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        return MapShape(_schema_shape(values))
    if not schema.get("properties") and (values or _others(schema)):
        return UNTYPED
    return Struct(lambda: _schema_members(schema), (), _others(schema))


def _schema_list(schema: Mapping[str, Any]) -> Shape:
    items: Mapping[str, Any] = schema.get("items") or {}
    item, kind = _schema_shape(items), schema.get("x-kubernetes-list-type")
    if kind == "map":
        properties: Mapping[str, Any] = items.get("properties") or {}
        keys = [str(key) for key in schema.get("x-kubernetes-list-map-keys") or ()]
        defaults = {key: (properties.get(key) or {}).get("default") for key in keys}
        return ListMap(item, keys, defaults)
    shape = ListSet if kind == "set" else AtomicList
    return shape(item)
