"""The sieve: checks the types of an object, drops fields that its kind does not have, writes quantities and
times canonically.

For each kind a msgspec struct is derived once. Decoding into it and back out does all of this in C; only what
is wrong is looked at again in Python (`complaints.py`), to be told in Kubernetes' words.
"""

from __future__ import annotations

from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, Optional

import msgspec

from mooring.api.quantity import QuantityError
from mooring.api.times import format_time, parse_time
from mooring.embedded.kinds.quantities import canonical
from mooring.embedded.kinds.types import ListOf, MapOf, ObjectType, Scalar, Type
from mooring.embedded.objects import Tree

QUANTITY_FORM = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class _Text:
    """A text that is written otherwise than it was read."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class _Quantity(_Text):
    pass


class _Time(_Text):
    pass


class _MicroTime(_Text):
    pass


_PYTHON: dict[Scalar, Any] = {
    Scalar.STRING: str,
    Scalar.BYTES: str,
    Scalar.INTEGER: int,
    Scalar.NUMBER: int | float,
    Scalar.BOOLEAN: bool,
    Scalar.QUANTITY: _Quantity,
    Scalar.TIME: _Time,
    Scalar.MICRO_TIME: _MicroTime,
    Scalar.INT_OR_STRING: int | str,
    Scalar.OBJECT: dict[str, Any],
    Scalar.ANY: Any,
}


class Sieve:
    """What objects of one type pass through."""

    def __init__(self, type: ObjectType) -> None:
        self.type = type
        self._struct = _struct(type, ())
        self._decoder = msgspec.json.Decoder(self._struct, dec_hook=_read)

    def decode(self, data: bytes) -> Tree:
        """The tree of a JSON body. Raises msgspec.DecodeError, or ValidationError naming the path."""
        tree: Tree = msgspec.to_builtins(self._decoder.decode(data), enc_hook=_text)
        return tree

    def sift(self, tree: Tree) -> Tree:
        """The same for a tree, as patches make them. Raises msgspec.ValidationError."""
        struct = msgspec.convert(tree, self._struct, dec_hook=_read)
        sifted: Tree = msgspec.to_builtins(struct, enc_hook=_text)
        return sifted


@cache
def sieve_of(type: ObjectType) -> Sieve:
    return Sieve(type)


_structs: dict[ObjectType, type[msgspec.Struct]] = {}


def _struct(type: ObjectType, inside: tuple[ObjectType, ...]) -> type[msgspec.Struct]:
    """The struct of a type; `inside` are those that contain it, for a type that contains itself."""
    found = _structs.get(type)
    if found is None:
        names = {field.name: f"f{i}" for i, field in enumerate(type.fields.values())}
        fields = [
            (names[field.name], Optional[_annotation(field.type, (*inside, type))], None)  # noqa: UP045
            for field in type.fields.values()
        ]
        rename = {attribute: name for name, attribute in names.items()}
        found = _structs[type] = msgspec.defstruct(
            type.name, fields, omit_defaults=True, kw_only=True, gc=False, rename=rename
        )
    return found


def _annotation(type: Type, inside: tuple[ObjectType, ...]) -> Any:
    if isinstance(type, Scalar):
        return _PYTHON[type]
    if isinstance(type, ListOf):
        return list[_annotation(type.item, inside)]  # type: ignore[misc]
    if isinstance(type, MapOf):
        return dict[str, _annotation(type.value, inside)]  # type: ignore[misc]
    return dict[str, Any] if type in inside else _struct(type, inside)


def _read(kind: type, raw: Any) -> _Text:
    try:
        if kind is _Quantity:
            return _quantity(raw)
        return _time(raw) if kind is _Time else _micro_time(raw)
    except TypeError:
        raise ValueError(QUANTITY_FORM if kind is _Quantity else "expected a time in a string") from None


@lru_cache(maxsize=16384)
def _quantity(raw: str | int | float) -> _Quantity:
    try:
        return _Quantity(canonical(raw))
    except QuantityError:
        raise ValueError(QUANTITY_FORM) from None


@lru_cache(maxsize=4096)
def _time(raw: str) -> _Time:
    return _Time(format_time(parse_time(raw)))


@lru_cache(maxsize=4096)
def _micro_time(raw: str) -> _MicroTime:
    return _MicroTime(format_time(parse_time(raw), micro=True))


_text = attrgetter("text")
