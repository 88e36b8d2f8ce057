"""Decoding of request bodies to trees."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.kinds.decode_errors import duplicate_fields, mismatch, parse, unknown_fields
from mooring.sandbox.apiserver.kinds.sieve import Sieve, sieve_of
from mooring.sandbox.apiserver.kinds.types import ObjectType
from mooring.sandbox.apiserver.objects import Tree, encode_json


class FieldValidation(StrEnum):
    """What happens to fields that a kind does not have."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


_IGNORE = FieldValidation.IGNORE  # access to enum members is slow


class Decoded(NamedTuple):
    tree: Tree
    warnings: list[str] = []


class Codec(Protocol):
    """Decodes bodies of one kind. Both methods raise ApiError."""

    type: ObjectType | None
    """The type of the kind; None for custom resources."""

    def decode(self, data: bytes, validation: FieldValidation) -> Decoded:
        """Decode a JSON body: check types, drop unknown fields, and reject or warn about them."""
        ...

    def sift(self, tree: Tree, validation: FieldValidation) -> Decoded:
        """Check the tree that resulted from a patch, like `decode`."""
        ...


class BuiltinCodec:
    """Decodes the kinds of lightkube-models."""

    def __init__(self, api_version: str, kind: str, type: ObjectType) -> None:
        self.type: ObjectType | None = type
        self._type = type
        self._kind = kind
        self._version = api_version.rpartition("/")[2]

    @cached_property
    def _sieve(self) -> Sieve:
        """Built on first use: most kinds are never written."""
        return sieve_of(self._type)

    def decode(self, data: bytes, validation: FieldValidation) -> Decoded:
        try:
            tree = self._sieve.decode(data)
        except msgspec.ValidationError as error:
            raise self._refusal(data, str(error)) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise not_json(self._kind, data, str(error)) from None
        if validation is _IGNORE:
            return Decoded(tree)
        raw = msgspec.json.decode(data)
        unknown = (
            []
            if self._sieve.knows(raw)
            else [f'unknown field "{path}"' for path in unknown_fields(self._type, raw)]
        )
        if len(data) != len(encode_json(raw)):
            unknown += [f'duplicate field "{path}"' for path in duplicate_fields(data)]
        return self._judged(tree, unknown, validation)

    def sift(self, tree: Tree, validation: FieldValidation) -> Decoded:
        try:
            sifted = self._sieve.sift(tree)
        except msgspec.ValidationError as error:
            raise self._refusal(tree, str(error)) from None
        if validation is _IGNORE or sifted == tree or self._sieve.knows(tree):
            return Decoded(sifted)
        unknown = [f'unknown field "{path}"' for path in unknown_fields(self._type, tree)]
        return self._judged(sifted, unknown, validation)

    def _judged(self, tree: Tree, problems: list[str], validation: FieldValidation) -> Decoded:
        if problems and validation is FieldValidation.STRICT:
            raise self._cannot_handle("strict decoding error: " + ", ".join(problems))
        return Decoded(tree, problems)

    def _refusal(self, body: bytes | Tree, problem: str) -> ApiError:
        data = body if isinstance(body, bytes) else encode_json(body)
        try:
            tree: Any = parse(body) if isinstance(body, bytes) else body
        except (ValueError, RecursionError) as error:  # there is worse after the first problem
            return not_json(self._kind, data, str(error))
        if not isinstance(tree, dict):
            return not_json(self._kind, data, "expected an object")
        return self._cannot_handle(mismatch(self._type, tree) or problem.partition(" - at `$")[0])

    def _cannot_handle(self, problem: str) -> ApiError:
        return cannot_handle(self._kind, self._version, self._kind, problem)


def cannot_handle(kind: str, version: str, expected: str, problem: str) -> ApiError:
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {expected}: {problem}')


def not_json(kind: str, data: bytes, problem: str) -> ApiError:
    shown = data[:100].decode("utf-8", "replace") or "<empty>"
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): "
        f"couldn't get version/kind; json parse error: {problem} ({shown})"
    )
