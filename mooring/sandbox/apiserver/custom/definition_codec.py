"""Decoding definitions: their schemas contain schemas, so types are checked one by one."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.errors import child
from mooring.sandbox.apiserver.kinds.codec import BuiltinCodec, Decoded, FieldValidation
from mooring.sandbox.apiserver.kinds.decode_errors import mismatch
from mooring.sandbox.apiserver.kinds.types import Scalar, object_type
from mooring.sandbox.apiserver.objects import Tree, dig

_DEFINITION: Final = object_type("apiextensions_v1", "CustomResourceDefinition")
_SCHEMA: Final = object_type("apiextensions_v1", "JSONSchemaProps")
_MAPS: Final = ("definitions", "patternProperties", "properties")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_MIXED: Final = ("additionalItems", "additionalProperties", "items")
"""Members that hold a schema or another value."""
_TEXTS: Final = {name: str for name, field in _SCHEMA.fields.items() if field.type is Scalar.STRING}
_NESTED: Final = {**dict.fromkeys(_MAPS, dict), **dict.fromkeys(_LISTS, list), "not": dict}
"""Members whose schemas are checked one by one, as long as they are held in this class."""
_DEEPEST: Final = 100


class _UnsoundError(Exception):
    """A schema has a value of a wrong type."""


class DefinitionCodec(BuiltinCodec):
    """Reads CustomResourceDefinitions."""

    def __init__(self) -> None:
        super().__init__("apiextensions.k8s.io/v1", "CustomResourceDefinition", _DEFINITION)

    def decode(self, data: bytes, validation: FieldValidation) -> Decoded:
        return self._tidied(super().decode(data, validation), validation)

    def sift(self, tree: Tree, validation: FieldValidation) -> Decoded:
        return self._tidied(super().sift(tree, validation), validation)

    def _tidied(self, decoded: Decoded, validation: FieldValidation) -> Decoded:
        unknown: list[str] = []
        for index, version in enumerate(dig(decoded.tree, "spec", "versions") or ()):
            schema = dig(version, "schema", "openAPIV3Schema")
            if schema is not None:
                try:
                    self._tidy(schema, f"spec.versions[{index}].schema.openAPIV3Schema", unknown, 0)
                except _UnsoundError as error:  # Kubernetes names the place from the root
                    raise self._cannot_handle(mismatch(_SCHEMA, schema) or str(error)) from None
        if validation is FieldValidation.IGNORE:
            return Decoded(decoded.tree)
        warnings = dict.fromkeys([*decoded.warnings, *(f'unknown field "{path}"' for path in unknown)])
        return self._judged(decoded.tree, list(warnings), validation)

    def _tidy(self, schema: Any, path: str, unknown: list[str], depth: int) -> None:
        """Drop unknown fields of a schema, recursively. Raises _UnsoundError for values of wrong types."""
        if depth > _DEEPEST:
            raise _UnsoundError("the schema nests too deeply")
        if not isinstance(schema, dict):
            null = "json: cannot unmarshal null into Go value of type v1.JSONSchemaProps"
            raise _UnsoundError(mismatch(_SCHEMA, schema) or null)
        own = {
            name: value
            for name, value in schema.items()
            if _TEXTS.get(name) is not value.__class__ and _NESTED.get(name) is not value.__class__
        }
        if not own and _NESTED.keys().isdisjoint(schema):
            return
        problem = mismatch(_SCHEMA, own) if own else None
        if problem is not None:
            raise _UnsoundError(problem)
        for name in list(schema):
            if name not in _SCHEMA.fields:
                unknown.append(child(path, name))
            elif schema[name] is not None:
                self._tidy_below(name, schema[name], child(path, name), unknown, depth + 1)
                continue
            del schema[name]

    def _tidy_below(self, name: str, held: Any, path: str, unknown: list[str], depth: int) -> None:
        if name in _MAPS:
            for key, one in held.items():
                self._tidy(one, child(path, key), unknown, depth)
        elif name in _LISTS or (name == "items" and isinstance(held, list)):
            for index, one in enumerate(held):
                self._tidy(one, f"{path}[{index}]", unknown, depth)
        elif name == "not" or (name in _MIXED and not isinstance(held, bool)):
            self._tidy(held, path, unknown, depth)
        elif name == "x-kubernetes-validations":
            held[:] = [{} if rule is None else rule for rule in held]  # as Go reads a null
