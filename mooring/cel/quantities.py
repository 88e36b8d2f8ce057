"""Kubernetes quantities as CEL values."""

from __future__ import annotations

import re
from typing import Any

from mooring.api import quantity
from mooring.cel.cel_errors import CelError, no_such_overload
from mooring.cel.values import Extension

_SHAPE = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*", re.ASCII)
FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_WRONG = "unable to parse quantity's suffix"


class Quantity(Extension):
    """An amount, exact to the nano. `derived` marks the result of add and sub, which cel-go represents
    differently: it cannot stand on the right of ==."""

    __slots__ = ("derived", "nano")
    type_name = "kubernetes.Quantity"
    native_name = "Quantity"

    def __init__(self, nano: int, derived: bool = False) -> None:
        self.nano = nano
        self.derived = derived

    @classmethod
    def parse(cls, text: str) -> Quantity:
        try:
            return cls(quantity.parse(text))
        except quantity.QuantityError:
            raise CelError(FORMAT_WRONG if not _SHAPE.fullmatch(text) else SUFFIX_WRONG) from None

    def equals(self, other: Any) -> bool:
        if type(other) is not Quantity or other.derived:
            raise no_such_overload()
        return self.nano == other.nano

    @property
    def whole(self) -> int | None:
        """The value if it is an integer that an int64 holds."""
        value, rest = divmod(self.nano, quantity.NANO)
        return value if not rest and quantity.INT64_MIN <= value <= quantity.INT64_MAX else None


def of(value: Any) -> Quantity:
    """The value, which must be a quantity."""
    if type(value) is not Quantity:
        raise no_such_overload()
    return value


def amount(value: Any) -> int:
    """What add and sub take: a quantity or an int, in nano."""
    if type(value) is int:
        return value * quantity.NANO
    return of(value).nano


def is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def as_integer(value: Any) -> int:
    whole = of(value).whole
    if whole is None:
        raise CelError("cannot convert value to integer")
    return whole
