"""Decoding of protobuf bodies, which Go clients prefer to send. Answers are JSON.

The numbers of fields are in `wire.py`, the types come from lightkube-models.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec

from mooring.api.times import format_time
from mooring.sandbox.apiserver.kinds.types import ListOf, MapOf, ObjectType, Scalar, Type
from mooring.sandbox.apiserver.kinds.wire import WireField, Zero, wire_fields
from mooring.sandbox.apiserver.objects import Tree

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_DEEPEST = 64
_SCHEMA = "apiextensions_v1.JSONSchemaProps"
_SCHEMA_OR = {"additionalItems": 2, "additionalProperties": 2, "dependencies": 1, "items": 1}
"""Fields that hold a schema, by its number, or something else: a boolean, schemas, names of properties."""
_EMPTY = ("apiextensions_v1.CustomResourceSubresources", "status")
"""The one field whose type has no fields: that it is there says everything."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """The bytes are not a valid message."""


class Envelope(NamedTuple):
    api_version: str
    kind: str
    raw: bytes


def open_envelope(data: bytes) -> Envelope:
    """Return the kind of the message, and the message itself. Raises ProtobufError."""
    if not data.startswith(_MAGIC):
        raise ProtobufError("does not start with the mark of Kubernetes' protobuf")
    kind = api_version = ""
    raw = b""
    for number, wire, value in _fields(data[len(_MAGIC) :]):
        if number == 1 and wire == _BYTES:
            named = {n: v for n, w, v in _fields(value) if w == _BYTES}
            api_version, kind = _utf8(named.get(1, b"")), _utf8(named.get(2, b""))
        elif number == 2 and wire == _BYTES:
            raw = value
    return Envelope(api_version, kind, raw)


def decode(type: ObjectType, data: bytes) -> Tree:
    """Decode a message of a type to a tree. Raises ProtobufError."""
    return _message(type, f"{type.module}.{type.name}", data, 0)


# ---- the wire -------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ProtobufError("ends in the middle of a number")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7


def _fields(data: bytes | int) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of each field: an int, or bytes."""
    if isinstance(data, int):
        raise ProtobufError("has a number where a message is expected")
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        wire = key & 7
        value: int | bytes
        if wire == _VARINT:
            value, at = _varint(data, at)
        else:
            if wire == _BYTES:
                size, at = _varint(data, at)
            elif wire in (_FIXED64, _FIXED32):
                size = 8 if wire == _FIXED64 else 4
            else:
                raise ProtobufError(f"has a field of the unknown wire type {wire}")
            if at + size > end:
                raise ProtobufError("ends in the middle of a field")
            value = data[at : at + size]
            at += size
        yield key >> 3, wire, value


def _utf8(data: bytes | int) -> str:
    if isinstance(data, int):
        raise ProtobufError("has a number where a string is expected")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ProtobufError("has a string that is not UTF-8") from None


# ---- messages -------------------------------------------------------------------------------------


@cache
def _by_number(message: str) -> dict[int, WireField]:
    fields = wire_fields(message)
    if fields is None:
        raise ProtobufError(f"is a {message}, of which only JSON is understood here")
    return {field.number: field for field in fields}


def _message(type: ObjectType, message: str, data: bytes, depth: int) -> Tree:
    if depth > _DEEPEST:
        raise ProtobufError("is nested too deeply")
    tree: Tree = {}
    fields = _by_number(message)
    for number, wire, value in _fields(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.part:
            tree.update(_message(type, field.part, value, depth + 1))
            continue
        declared = type.fields.get(field.name)
        if declared is None:
            continue
        if message == _SCHEMA and field.name in _SCHEMA_OR:
            _put_schema_or(tree, field.name, type, _bytes(wire, value), depth)
        elif (message, field.name) == _EMPTY:
            tree[field.name] = {}
        else:
            _put(tree, field, declared.type, wire, value, depth)
    return tree


def _put_schema_or(tree: Tree, name: str, schema: ObjectType, data: bytes, depth: int) -> None:
    """Put a field that holds a schema or something else, which JSON writes without a name for the choice."""
    key = None
    if name == "dependencies":
        parts = {number: value for number, _, value in _fields(data)}
        key, data = _utf8(parts.get(1, b"")), parts.get(2, b"")
    schemas: list[Tree] = []
    others: list[Any] = []
    for number, _, value in _fields(data):
        if number == _SCHEMA_OR[name]:
            schemas.append(_message(schema, _SCHEMA, value, depth + 1))
        elif name == "items":
            others.append(_message(schema, _SCHEMA, value, depth + 1))
        else:
            others.append(_utf8(value) if name == "dependencies" else bool(value))
    content: Any = schemas[0] if schemas else others if name in ("dependencies", "items") else any(others)
    if key is None:
        tree[name] = content
    else:
        tree.setdefault(name, {})[key] = content


def _put(tree: Tree, field: WireField, type: Type, wire: int, value: Any, depth: int) -> None:
    if field.zero is Zero.BYTES:
        if value:
            tree[field.name] = base64.b64encode(_bytes(wire, value)).decode()
    elif isinstance(type, ListOf):
        tree.setdefault(field.name, []).append(_value(type.item, wire, value, depth))
    elif isinstance(type, MapOf):
        key, member = _entry(type.value, value, depth)
        tree.setdefault(field.name, {})[key] = member
    else:
        decoded = _value(type, wire, value, depth)
        if decoded is not None and (field.zero is not Zero.LEFT_OUT or decoded not in ("", 0, False)):
            tree[field.name] = decoded


def _entry(type: Type, data: bytes, depth: int) -> tuple[str, Any]:
    key, decoded = "", None
    for number, wire, value in _fields(data):
        if number == 1:
            key = _utf8(value)
        elif number == 2:
            decoded = _value(type, wire, value, depth)
    return key, "" if decoded is None and type is Scalar.STRING else decoded


def _value(type: Type, wire: int, value: Any, depth: int) -> Any:
    """Convert a value to JSON; None for what protobuf writes for an absent one."""
    if isinstance(type, ObjectType):
        return _message(type, f"{type.module}.{type.name}", _bytes(wire, value), depth + 1)
    if isinstance(type, ListOf):  # a list inside a map is a message of its own
        return [_value(type.item, w, v, depth) for _, w, v in _fields(_bytes(wire, value))]
    if isinstance(type, MapOf):
        raise ProtobufError("has a map where none is expected")
    if type is Scalar.STRING:
        return _utf8(_bytes(wire, value))
    if type in (Scalar.INTEGER, Scalar.LONG, Scalar.BOOLEAN):
        if wire != _VARINT:
            raise ProtobufError("has no number where one is expected")
        return bool(value) if type is Scalar.BOOLEAN else value - (1 << 64) if value >> 63 else value
    if type is Scalar.NUMBER:
        if wire != _FIXED64:
            raise ProtobufError("has no number where one is expected")
        number: float = struct.unpack("<d", value)[0]
        return int(number) if number.is_integer() else number
    if type is Scalar.BYTES:
        return base64.b64encode(_bytes(wire, value)).decode()
    return _special(type, _bytes(wire, value))


def _integer(parts: dict[int, Any], number: int) -> int:
    value = parts.get(number, 0)
    if not isinstance(value, int):
        raise ProtobufError("has no number where one is expected")
    return value


def _bytes(wire: int, value: Any) -> bytes:
    if wire != _BYTES:
        raise ProtobufError("has a number where something else is expected")
    data: bytes = value
    return data


def _special(type: Scalar, data: bytes) -> Any:
    """Types that are messages in protobuf and texts or trees in JSON."""
    parts = {number: value for number, _, value in _fields(data)}
    if type is Scalar.QUANTITY:
        return _utf8(parts.get(1, b"0"))
    if type in (Scalar.TIME, Scalar.MICRO_TIME):
        if not parts:
            return None
        seconds, nanos = _integer(parts, 1), _integer(parts, 2)
        seconds = seconds - (1 << 64) if seconds >> 63 else seconds
        try:
            return format_time(seconds + nanos / 1e9, micro=type is Scalar.MICRO_TIME)
        except (OverflowError, ValueError):
            raise ProtobufError("has a time out of range") from None
    if type is Scalar.INT_OR_STRING:
        if parts.get(1, 0) == 1:
            return _utf8(parts.get(3, b""))
        number = _integer(parts, 2)
        return number - (1 << 64) if number >> 63 else number
    raw = _utf8(parts.get(1, b""))
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise ProtobufError("has an extension that is not JSON") from None
