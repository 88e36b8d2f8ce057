"""The sieve: checks the types of an object, drops fields that its kind does not have, writes quantities and
times canonically, and omits or writes zeros as Kubernetes' Go types do.

For each kind a msgspec struct is derived once. Decoding into it and encoding it again does all of this in C;
only errors are examined in Python (`decode_errors.py`), to word them as Kubernetes does.
"""

from __future__ import annotations

import threading
from functools import cache, cached_property, lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from mooring.api.preparing import prepare
from mooring.api.quantity import QuantityError
from mooring.api.quantity_texts import canonical
from mooring.api.times import canonical_time
from mooring.sandbox.apiserver.kinds.types import ListOf, MapOf, ObjectType, Scalar, Type
from mooring.sandbox.apiserver.kinds.wire import Zero, zeros
from mooring.sandbox.apiserver.objects import Tree

QUANTITY_FORM = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class _Text:
    """A text that is rewritten in canonical form."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class _Quantity(_Text):
    pass


class _Time(_Text):
    pass


class _MicroTime(_Text):
    pass


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_PYTHON: dict[Scalar, Any] = {
    Scalar.STRING: str,
    Scalar.BYTES: str,
    Scalar.INTEGER: _Int32,
    Scalar.LONG: _Int64,
    Scalar.NUMBER: int | float,
    Scalar.BOOLEAN: bool,
    Scalar.QUANTITY: _Quantity,
    Scalar.TIME: _Time,
    Scalar.MICRO_TIME: _MicroTime,
    Scalar.INT_OR_STRING: _Int32 | str,
    Scalar.OBJECT: dict[str, Any],
    Scalar.RAW: Any,
    Scalar.ANY: Any,
}


_making = threading.RLock()
"""Held while structs are made: the process crashes if a thread uses one that msgspec has not yet examined."""


class Sieve:
    """Checks and normalizes objects of one type."""

    def __init__(self, type: ObjectType) -> None:
        self.type = type
        with _making:
            self._struct = _struct(type, ())
            self._decoder = msgspec.json.Decoder(self._struct, dec_hook=_read)

    @cached_property
    def _strict(self) -> type[msgspec.Struct]:
        """The struct that unknown fields are errors in."""
        with _making:
            struct = _struct(self.type, (), strict=True)
            prepare(struct)
        return struct

    def decode(self, data: bytes) -> Tree:
        """Decode a JSON body to a tree. Raises msgspec.DecodeError, or ValidationError naming the path."""
        try:
            struct = self._decoder.decode(data)
        except msgspec.ValidationError:
            return self._without_nulls(msgspec.json.decode(data))
        tree: Tree = msgspec.to_builtins(struct, enc_hook=_text)
        return tree

    def sift(self, tree: Tree) -> Tree:
        """Check and normalize a tree, as patches make them. Raises msgspec.ValidationError."""
        try:
            struct = msgspec.convert(tree, self._struct, dec_hook=_read)
        except msgspec.ValidationError:
            return self._without_nulls(tree)
        sifted: Tree = msgspec.to_builtins(struct, enc_hook=_text)
        return sifted

    def _without_nulls(self, tree: Any) -> Tree:
        """Normalize an object with nulls where Go has no pointer: they count as absent."""
        struct = msgspec.convert(without_nulls(self.type, tree), self._struct, dec_hook=_read)
        sifted: Tree = msgspec.to_builtins(struct, enc_hook=_text)
        return sifted

    def knows(self, tree: Tree) -> bool:
        """Whether a tree has only fields of its type. Fast; may return False for a tree that has."""
        try:
            msgspec.convert(tree, self._strict, dec_hook=_read)
        except msgspec.ValidationError:
            return False
        return True


@cache
def sieve_of(type: ObjectType) -> Sieve:
    return Sieve(type)


_structs: dict[tuple[ObjectType, bool], type[msgspec.Struct]] = {}

_KEPT_EMPTY = {"meta_v1.ObjectMeta": {"managedFields": Zero.DISTINCT}}
"""Lists that are significant when empty: clearing all managers."""


def _struct(type: ObjectType, inside: tuple[ObjectType, ...], strict: bool = False) -> type[msgspec.Struct]:
    """Return the struct of a type; `inside` are the types that contain it, for recursive types."""
    struct = _structs.get((type, strict))
    if struct is None:
        names = {field.name: f"f{i}" for i, field in enumerate(type.fields.values())}
        marks = (zeros(str(type)) or {}) | _KEPT_EMPTY.get(str(type), {})
        fields = [
            (names[field.name], *_member(field.type, marks.get(field.name), (*inside, type), strict))
            for field in type.fields.values()
        ]
        rename = {attribute: name for name, attribute in names.items()}
        struct = _structs[type, strict] = msgspec.defstruct(
            type.name,
            fields,
            omit_defaults=True,
            forbid_unknown_fields=strict,
            kw_only=True,
            gc=False,
            rename=rename,
        )
    return struct


_EMPTY: dict[Scalar, Any] = {
    Scalar.STRING: "",
    Scalar.BYTES: "",
    Scalar.INTEGER: 0,
    Scalar.LONG: 0,
    Scalar.NUMBER: 0,
    Scalar.BOOLEAN: False,
}
"""Zeros that are omitted. The other scalars are structs in Go, which are always written."""
_WRITTEN: dict[Scalar, Any] = {**_EMPTY, Scalar.QUANTITY: _Quantity("0"), Scalar.INT_OR_STRING: 0}


def _member(type: Type, zero: Zero | None, inside: tuple[ObjectType, ...], strict: bool) -> tuple[Any, Any]:
    """Return the annotation and the default of a field.

    msgspec omits values that equal a plain default, and empty lists and maps; it writes what other factories
    make.
    """
    annotation = _annotation(type, inside, strict)
    if zero is None or zero is Zero.DISTINCT:  # unknown, or zero differs from absent
        return annotation | None, None
    if zero is Zero.NULL:
        return annotation | None, msgspec.field(default_factory=lambda: None)
    if isinstance(type, ObjectType):
        return annotation, msgspec.field(default_factory=dict if type in inside else annotation)
    if isinstance(type, ListOf | MapOf):
        if zero is Zero.WRITTEN:  # as null
            return annotation | None, msgspec.field(default_factory=lambda: None)
        return annotation, msgspec.field(default_factory=list if isinstance(type, ListOf) else dict)
    if zero is not Zero.WRITTEN and type in _EMPTY:
        return annotation, _EMPTY[type]
    if type in _WRITTEN:
        value = _WRITTEN[type]
        return annotation, msgspec.field(default_factory=lambda: value)
    return annotation | None, msgspec.field(default_factory=lambda: None)  # times, as null


def _annotation(type: Type, inside: tuple[ObjectType, ...], strict: bool) -> Any:
    if isinstance(type, Scalar):
        return _PYTHON[type]
    if isinstance(type, ListOf):
        return list[_annotation(type.item, inside, strict)]  # type: ignore[misc]
    if isinstance(type, MapOf):
        return dict[str, _annotation(type.value, inside, strict)]  # type: ignore[misc]
    return dict[str, Any] if type in inside else _struct(type, inside, strict)


def without_nulls(type: Type, value: Any) -> Any:
    """Remove nulls: members are dropped, items of lists and maps become the zero of their type."""
    if isinstance(type, ObjectType) and isinstance(value, dict):
        fields = type.fields
        return {
            name: without_nulls(fields[name].type, member) if name in fields else member
            for name, member in value.items()
            if member is not None
        }
    if isinstance(type, ListOf) and isinstance(value, list):
        return [without_nulls(type.item, item) for item in value]
    if isinstance(type, MapOf) and isinstance(value, dict):
        return {key: without_nulls(type.value, member) for key, member in value.items()}
    if value is None:
        return {} if isinstance(type, ObjectType | MapOf) else [] if isinstance(type, ListOf) else _null(type)
    return value


def _null(type: Scalar) -> Any:
    zero = _WRITTEN.get(type)
    return zero.text if isinstance(zero, _Text) else zero


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
    return _Time(canonical_time(raw))


@lru_cache(maxsize=4096)
def _micro_time(raw: str) -> _MicroTime:
    return _MicroTime(canonical_time(raw, micro=True))


_text = attrgetter("text")
