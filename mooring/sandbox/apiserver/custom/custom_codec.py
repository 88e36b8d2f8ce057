"""Decoding bodies of custom resources, by the schema of their version."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import msgspec

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.resource import GroupVersionKind
from mooring.sandbox.apiserver.custom.custom_metadata import sift_embedded, sift_metadata
from mooring.sandbox.apiserver.custom.pruning import LARGEST, TooManyDefaultsError, drop_nulls, fill_in, prune
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.errors import bad_request, invalid, invalid_value
from mooring.sandbox.apiserver.fields.kind_shapes import shape_of_schema
from mooring.sandbox.apiserver.fields.shapes import Struct
from mooring.sandbox.apiserver.kinds.codec import Decoded, FieldValidation, cannot_handle, not_json
from mooring.sandbox.apiserver.kinds.decode_errors import duplicate_fields, too_large
from mooring.sandbox.apiserver.kinds.types import ObjectType
from mooring.sandbox.apiserver.objects import Tree, dig, encode_json


def _number(text: str) -> float:
    """A number written with a fraction or an exponent; Kubernetes writes whole numbers without."""
    number = float(text)
    if math.isinf(number):
        raise OverflowError
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


_decode = msgspec.json.Decoder(float_hook=_number).decode


class CustomCodec:
    """Reads one version of a custom kind: drops fields that are not in the schema, and sets defaults.

    Types are not checked here except in the metadata: they are validated with everything else.
    """

    type: ObjectType | None = None

    def __init__(self, kind: GroupVersionKind, definition: Tree, schema: Schema) -> None:
        self._kind = kind
        self._definition = definition
        self.schema = schema

    @cached_property
    def shape(self) -> Struct:
        """The shape of objects, for tracking the ownership of fields."""
        return shape_of_schema(self._definition)

    def decode(self, data: bytes, validation: FieldValidation) -> Decoded:
        tree = self._read(data)
        self._check_kind(tree)
        problems = []
        if validation is not FieldValidation.IGNORE and len(data) != len(encode_json(tree)):
            problems = [f'duplicate field "{path}"' for path in duplicate_fields(data)]
        return self._sifted(tree, validation, problems)

    def sift(self, tree: Tree, validation: FieldValidation) -> Decoded:
        return self._sifted(self._read(encode_json(tree)), validation, [])

    def _read(self, data: bytes) -> Tree:
        try:
            tree = _decode(data)
        except OverflowError:
            raise self._cannot_handle(
                f"json: cannot unmarshal number {too_large(data)} into Go value of type float64"
            ) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise not_json(self._kind.kind, data, str(error)) from None
        if not isinstance(tree, dict):
            raise not_json(self._kind.kind, data, "expected an object")
        return tree

    def _check_kind(self, tree: Tree) -> None:
        expected, kind, api_version = self._kind, tree.get("kind"), tree.get("apiVersion")
        if not kind or not isinstance(kind, str):
            shown = encode_json(tree)[:100].decode("utf-8", "replace")
            raise bad_request(
                f"the object provided is unrecognized (must be of type {expected.kind}): "
                f"Object 'Kind' is missing in '{shown}'"
            )
        if api_version != expected.api_version:
            version = api_version if isinstance(api_version, str) else ""
            raise bad_request(
                f"the API version in the data ({version}) does not match the expected API version "
                f"({expected.api_version})"
            )
        if kind != expected.kind:
            name = dig(tree, "metadata", "name")
            cause = invalid_value("kind", kind, f"must be {expected.kind}")
            raise invalid(expected.group, kind, name if isinstance(name, str) else "", [cause])

    def _sifted(self, tree: Tree, validation: FieldValidation, problems: list[str]) -> Decoded:
        try:
            unknown = self._brought_into_form(tree)
        except ApiError as error:
            raise self._cannot_handle(error.message) from None
        if validation is FieldValidation.IGNORE:
            return Decoded(tree)
        problems = problems + [f'unknown field "{path}"' for path in sorted(unknown)]
        if problems and validation is FieldValidation.STRICT:
            raise self._cannot_handle("strict decoding error: " + ", ".join(problems))
        return Decoded(tree, problems)

    def _brought_into_form(self, tree: Tree) -> list[str]:
        drop_nulls(tree, self.schema)
        unknown = sift_metadata(tree)
        unknown += sift_embedded(_content(tree), self.schema)
        unknown += prune(tree, self.schema, resource=True)
        try:
            fill_in(tree, self.schema)
        except TooManyDefaultsError:
            raise bad_request(f"its defaults are larger than {LARGEST} bytes") from None
        return unknown

    def _cannot_handle(self, problem: str) -> ApiError:
        return cannot_handle(self._kind.kind, self._kind.version, self._kind.kind, problem)


def _content(tree: Tree) -> dict[str, Any]:
    """Return the object without its metadata, which the schema does not describe."""
    return {name: value for name, value in tree.items() if name != "metadata"}
