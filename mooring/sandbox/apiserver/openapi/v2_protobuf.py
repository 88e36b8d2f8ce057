"""The OpenAPI v2 document in protobuf, as Go clients request it.

The messages are those of gnostic (OpenAPIv2.proto). Values of any type, such as defaults, enumerations and
extensions, are YAML in them, of which JSON is a subset.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

from mooring.sandbox.apiserver.objects import Tree, encode_json

MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_Encode = Callable[[Any], bytes]


def encode_document(document: Tree) -> bytes:
    return _DOCUMENT(document)


# ---- the wire -------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _entry(name: str, value: bytes) -> bytes:
    """Encode a member of a map: its name and its value."""
    return _field(1, name.encode()) + _field(2, value)


def _anything(value: Any) -> bytes:
    return _field(2, encode_json(value))


def text(number: int) -> _Encode:
    return one(number, str.encode)


def texts(number: int) -> _Encode:
    return many(number, str.encode)


def boolean(number: int) -> _Encode:
    return lambda value: _varint(number << 3) + _varint(int(value))


def integer(number: int) -> _Encode:
    return lambda value: _varint(number << 3) + _varint(value & (1 << 64) - 1)


def double(number: int) -> _Encode:
    return lambda value: _varint(number << 3 | 1) + struct.pack("<d", value)


def one(number: int, encode: _Encode) -> _Encode:
    return lambda value: _field(number, encode(value))


def many(number: int, encode: _Encode) -> _Encode:
    return lambda values: b"".join(_field(number, encode(value)) for value in values)


def mapping(number: int, encode: _Encode, entries: int = 1) -> _Encode:
    """Encode a map as a message of its own."""

    def encoded(tree: Tree) -> bytes:
        fields = (_field(entries, _entry(name, encode(value))) for name, value in tree.items())
        return _field(number, b"".join(fields))

    return encoded


class Message:
    """How an object becomes a message: members by their names, extensions all in one field."""

    def __init__(self, extensions: int = 0, **fields: _Encode) -> None:
        self._extensions = extensions
        self.fields = fields

    def __call__(self, tree: Tree) -> bytes:
        return b"".join(self._encoded(tree.items()))

    def _encoded(self, members: Iterable[tuple[str, Any]]) -> Iterable[bytes]:
        for name, value in members:
            encode = self.fields.get(name)
            if encode is not None:
                yield encode(value)
            elif name.startswith("x-") and self._extensions:
                yield _field(self._extensions, _entry(name, _anything(value)))


# ---- messages -------------------------------------------------------------------------------------

_SCHEMA = Message(31)


def _in_first(encode: _Encode) -> _Encode:
    """Encode a message that only wraps another one."""
    return one(1, encode)


def _additional(value: Tree | bool) -> bytes:
    return boolean(2)(value) if isinstance(value, bool) else _in_first(_SCHEMA)(value)


_SCHEMA.fields = {
    "$ref": text(1),
    "format": text(2),
    "title": text(3),
    "description": text(4),
    "default": one(5, _anything),
    "multipleOf": double(6),
    "maximum": double(7),
    "exclusiveMaximum": boolean(8),
    "minimum": double(9),
    "exclusiveMinimum": boolean(10),
    "maxLength": integer(11),
    "minLength": integer(12),
    "pattern": text(13),
    "maxItems": integer(14),
    "minItems": integer(15),
    "uniqueItems": boolean(16),
    "maxProperties": integer(17),
    "minProperties": integer(18),
    "required": texts(19),
    "enum": many(20, _anything),
    "additionalProperties": one(21, _additional),
    "type": one(22, text(1)),
    "items": one(23, _in_first(_SCHEMA)),
    "properties": mapping(25, _SCHEMA),
    "externalDocs": one(29, Message(3, description=text(1), url=text(2))),
    "example": one(30, _anything),
}

_BODY = Message(
    6, description=text(1), name=text(2), **{"in": text(3)}, required=boolean(4), schema=one(5, _SCHEMA)
)
_QUERY = Message(
    23,
    required=boolean(1),
    **{"in": text(2)},
    description=text(3),
    name=text(4),
    type=text(6),
    format=text(7),
    uniqueItems=boolean(20),
)
_PATH = Message(
    22,
    required=boolean(1),
    **{"in": text(2)},
    description=text(3),
    name=text(4),
    type=text(5),
    format=text(6),
    uniqueItems=boolean(19),
)


def _parameter(parameter: Tree) -> bytes:
    if parameter["in"] == "body":
        return _in_first(one(1, _BODY))(parameter)
    place = one(3, _QUERY) if parameter["in"] == "query" else one(4, _PATH)
    return _in_first(one(2, place))(parameter)


_RESPONSE = Message(5, description=text(1), schema=one(2, _in_first(_SCHEMA)))
_OPERATION = Message(
    13,
    tags=texts(1),
    description=text(3),
    operationId=text(5),
    produces=texts(6),
    consumes=texts(7),
    parameters=many(8, _parameter),
    responses=mapping(9, _in_first(_RESPONSE)),
    schemes=texts(10),
)
_PATH_ITEM = Message(
    10,
    get=one(2, _OPERATION),
    put=one(3, _OPERATION),
    post=one(4, _OPERATION),
    delete=one(5, _OPERATION),
    patch=one(8, _OPERATION),
    parameters=many(9, _parameter),
)
_API_KEY = Message(5, type=text(1), name=text(2), **{"in": text(3)}, description=text(4))
_DOCUMENT = Message(
    16,
    swagger=text(1),
    info=one(2, Message(7, title=text(1), version=text(2))),
    paths=mapping(8, _PATH_ITEM, entries=2),
    definitions=mapping(9, _SCHEMA),
    security=many(12, lambda tree: b"".join(_field(1, _entry(n, texts(1)(v))) for n, v in tree.items())),
    securityDefinitions=mapping(13, one(2, _API_KEY)),
)
