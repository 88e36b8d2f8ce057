"""Kubernetes quantities as CEL values."""

from __future__ import annotations

import re
from typing import Any

from mooring.api import quantity
from mooring.cel.cel_errors import CelError, no_such_overload
from mooring.cel.values import Extension

_SHAPE = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*", re.ASCII)
_PARTS = re.compile(r"[+-]?(\d*)(?:\.(\d*))?([KMGTPE]i|[numkMGTPE]?|[eE][+-]?\d{1,3})", re.ASCII)
_BINARY = "KMGTPE"
FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_WRONG = "unable to parse quantity's suffix"


class Quantity(Extension):
    """An amount, exact to the nano. `derived` marks the result of add and sub, which cel-go represents
    differently: it cannot stand on the right of ==. `scale` is the power of ten that Go counts the amount in,
    None where it needs an arbitrary precision: only a scale of 0 or more is an integer to it."""

    __slots__ = ("derived", "nano", "scale")
    type_name = "kubernetes.Quantity"
    native_name = "Quantity"

    def __init__(self, nano: int, scale: int | None, derived: bool = False) -> None:
        self.nano = nano
        self.scale = scale
        self.derived = derived

    @classmethod
    def parse(cls, text: str) -> Quantity:
        try:
            return cls(quantity.parse(text), _scale(text))
        except quantity.QuantityError:
            raise CelError(FORMAT_WRONG if not _SHAPE.fullmatch(text) else SUFFIX_WRONG) from None

    def equals(self, other: Any) -> bool:
        if type(other) is not Quantity or other.derived:
            raise no_such_overload()
        return self.nano == other.nano

    @property
    def whole(self) -> int | None:
        """The value if it is an integer that an int64 holds."""
        if self.scale is None or self.scale < 0:
            return None
        value = self.nano // quantity.NANO
        return value if quantity.INT64_MIN <= value <= quantity.INT64_MAX else None

    def plus(self, other: Any, sign: int) -> Quantity:
        """The sum with another quantity or an int, or the difference."""
        addend = Quantity(other * quantity.NANO, 0) if type(other) is int else of(other)
        scales = [each.scale for each in (self, addend) if each.nano or each.scale is None]
        scale = None if None in scales else min((s for s in scales if s is not None), default=self.scale)
        return Quantity(self.nano + sign * addend.nano, scale, derived=True)


_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def _scale(text: str) -> int | None:
    """The power of ten that Go counts a parsed quantity in; None where its fast form does not hold it."""
    match = _PARTS.fullmatch(text)
    if match is None:
        return None
    whole, fraction, suffix = match.group(1).lstrip("0") or "0", match.group(2) or "", match.group(3)
    if suffix.endswith("i"):
        bits = 10 * (_BINARY.index(suffix[0]) + 1)
        return 0 if not fraction and 14 - len(whole) - bits * 3 // 10 >= 0 else None
    exponent = _EXPONENTS[suffix] if suffix in _EXPONENTS else int(suffix[1:])
    scale = exponent - len(fraction)
    return scale if len(whole) + len(fraction) <= 18 and scale >= -9 else None


def of(value: Any) -> Quantity:
    """The value, which must be a quantity."""
    if type(value) is not Quantity:
        raise no_such_overload()
    return value


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
