"""Schemas of types, in the dialect of OpenAPI v2 or of v3."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mooring.sandbox.apiserver.context.resource import GroupVersionKind
from mooring.sandbox.apiserver.kinds.documentation import documentation_of
from mooring.sandbox.apiserver.kinds.facts import Fact, facts_of
from mooring.sandbox.apiserver.kinds.merge_keys import is_atomic, merging_of
from mooring.sandbox.apiserver.kinds.types import Field, ListOf, MapOf, ObjectType, Scalar, Type
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.openapi.type_names import FIELDS, PATCH, SCALARS, type_name

KIND: Final = "x-kubernetes-group-version-kind"
_NO_FACT: Final = Fact()
_PLAIN: Final[dict[Scalar, Tree]] = {
    Scalar.STRING: {"type": "string"},
    Scalar.INTEGER: {"type": "integer", "format": "int32"},
    Scalar.LONG: {"type": "integer", "format": "int64"},
    Scalar.NUMBER: {"type": "number", "format": "double"},
    Scalar.BOOLEAN: {"type": "boolean"},
    Scalar.BYTES: {"type": "string", "format": "byte"},
}
_NAMED: Final[dict[str, Tree]] = {
    SCALARS[Scalar.QUANTITY]: {
        "description": "Quantity is a fixed-point representation of a number: an amount and a suffix, such "
        "as 500m, 1.5, 64Ki, 2G or 1e3.",
        "type": "string",
    },
    SCALARS[Scalar.TIME]: {
        "description": "Time is a moment in RFC 3339 form, such as 2006-01-02T15:04:05Z.",
        "type": "string",
        "format": "date-time",
    },
    SCALARS[Scalar.MICRO_TIME]: {
        "description": "MicroTime is version of Time with microsecond level precision.",
        "type": "string",
        "format": "date-time",
    },
    SCALARS[Scalar.INT_OR_STRING]: {
        "description": "IntOrString is a type that can hold an int32 or a string.",
        "type": "string",
        "format": "int-or-string",
    },
    SCALARS[Scalar.OBJECT]: {
        "description": "RawExtension is used to hold extensions in external versions.",
        "type": "object",
    },
    SCALARS[Scalar.ANY]: {
        "description": "JSON represents any valid JSON value. These types are supported: bool, int64, "
        "float64, string, []interface{}, map[string]interface{} and nil.",
    },
    FIELDS: {
        "description": "FieldsV1 stores a set of fields in a data structure like a Trie, in JSON format.",
        "type": "object",
    },
    PATCH: {
        "description": "Patch is provided to give a concrete name and type to the Kubernetes PATCH request "
        "body.",
        "type": "object",
    },
}
_ALTERNATIVES: Final[dict[str, list[str]]] = {
    SCALARS[Scalar.QUANTITY]: ["string", "number"],
    SCALARS[Scalar.INT_OR_STRING]: ["integer", "string"],
}


class Dialect(NamedTuple):
    """What the dialects write differently."""

    version: int
    place: str
    """The path of definitions."""

    def named(self, name: str, **beside: Any) -> Tree:
        """Return a reference to a definition. In version 3 it has no other members."""
        reference = {"$ref": f"#/{self.place}/{name}"}
        if self.version == 2 or not beside:
            return {**beside, **reference}
        return {**beside, "allOf": [reference]}


V2: Final = Dialect(2, "definitions")
V3: Final = Dialect(3, "components/schemas")


class Schemas:
    """The definitions that a document needs: those requested, and those they refer to."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.definitions: dict[str, Tree] = {}

    def add(self, type: ObjectType) -> str:
        """Define a type; return its name."""
        name = type_name(type)
        if name not in self.definitions:
            self.definitions[name] = {}  # types may contain themselves
            self.definitions[name] = self._object(type)
        return name

    def add_named(self, name: str) -> str:
        """Define something that is not a type with members: named scalars, and patches."""
        schema = _NAMED[name]
        alternatives = _ALTERNATIVES.get(name)
        if alternatives is not None and self.dialect.version == 3:
            schema = {key: value for key, value in schema.items() if key != "type"}
            schema["oneOf"] = [{"type": one} for one in alternatives]
        self.definitions[name] = schema
        return name

    def label(self, name: str, kind: GroupVersionKind) -> None:
        """Mark a definition as that of a kind; some are of several."""
        kinds = self.definitions[name].setdefault(KIND, [])
        if kind._asdict() not in kinds:
            kinds.append(kind._asdict())

    def _object(self, type: ObjectType) -> Tree:
        documentation, facts = documentation_of(type), facts_of(str(type))
        schema: Tree = {"description": documentation.text, "type": "object"}
        required = [field.name for field in type.fields.values() if field.required]
        if required:
            schema["required"] = required
        schema["properties"] = {
            name: self._member(type, field, documentation.members.get(name, ""), facts.get(name, _NO_FACT))
            for name, field in sorted(type.fields.items())
        }
        if is_atomic(type, "", type):
            schema["x-kubernetes-map-type"] = "atomic"
        return schema

    def _member(self, owner: ObjectType, field: Field, description: str, fact: Fact) -> Tree:
        beside: Tree = {"description": description} if description else {}
        if field.name == "fieldsV1":
            return self.dialect.named(self.add_named(FIELDS), **beside)
        schema = self._schema(field.type, fact, beside)
        merging = merging_of(owner, field.name)
        if isinstance(field.type, ListOf):
            schema["x-kubernetes-list-type"] = merging.list_type
            if merging.map_keys:
                schema["x-kubernetes-list-map-keys"] = list(merging.map_keys)
        elif isinstance(field.type, MapOf) and is_atomic(owner, field.name, None):
            schema["x-kubernetes-map-type"] = "atomic"
        elif isinstance(field.type, ObjectType) and _is_granular_here(owner, field.name, field.type):
            schema["x-kubernetes-map-type"] = "granular"
        if merging.patch_strategy:
            schema["x-kubernetes-patch-strategy"] = ",".join(merging.patch_strategy)
        if merging.merge_key:
            schema["x-kubernetes-patch-merge-key"] = merging.merge_key
        return schema

    def _schema(self, type: Type, fact: Fact, beside: Tree) -> Tree:
        if isinstance(type, ObjectType):
            return self.dialect.named(self.add(type), **beside)
        if isinstance(type, ListOf):
            return {**beside, "type": "array", "items": self._schema(type.item, fact, {})}
        if isinstance(type, MapOf):
            values = self._schema(type.value, fact, {})
            return {**beside, "type": "object", "additionalProperties": values}
        if type in SCALARS:
            return self.dialect.named(self.add_named(SCALARS[type]), **beside)
        schema = {**beside, **_PLAIN[type]}
        if fact.format:
            schema["format"] = fact.format
        if fact.values:
            schema["enum"] = list(fact.values)
        return schema


def _is_granular_here(owner: ObjectType, field: str, type: ObjectType) -> bool:
    """Whether a field is merged member by member although its type is atomic elsewhere."""
    return is_atomic(type, "", type) and not is_atomic(owner, field, type)
