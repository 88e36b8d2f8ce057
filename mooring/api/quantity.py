"""Kubernetes quantities, exactly.

A quantity is held as a whole number of nano-units in a Python int. Kubernetes rounds anything finer up to
a nano while parsing, so nothing is lost, and sums and comparisons are plain integer arithmetic.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mooring.api.meta import Quantity

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

NANO = 10**9
_NANO_PER_MILLI = 10**6
_DECIMAL_EXPONENT = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_EXPONENT = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)", re.ASCII)
_LONGEST = 512  # far beyond any quantity that means something; keeps hostile text cheap
_FARTHEST_EXPONENT = 64  # beyond it a number is past int64 or below a nano, whatever its digits


class QuantityError(ValueError):
    """The text is not a quantity."""

    def __init__(self, found: object) -> None:
        super().__init__(
            f'quantity "{found}": expected a number with an optional suffix such as '
            "m, k, M, G, Ki, Mi, Gi or an exponent"
        )
        self.found = found


@lru_cache(maxsize=16384)
def parse(raw: Quantity) -> int:
    """The quantity in nano-units; finer fractions are rounded away from zero, as Kubernetes does."""
    match = _FORM.fullmatch(raw if isinstance(raw, str) else repr(raw))
    if match is None or match.end() > _LONGEST:
        raise QuantityError(raw)
    sign, whole, fraction, suffix = match.groups(default="")
    if not whole and not fraction:
        raise QuantityError(raw)
    digits = int(whole + fraction)
    if suffix in _BINARY_EXPONENT:
        nano = _scaled(digits << _BINARY_EXPONENT[suffix], 9 - len(fraction))
        nano = min(nano, INT64_MAX * NANO)
    else:
        exponent = _DECIMAL_EXPONENT.get(suffix)
        if exponent is None:
            exponent = int(suffix[1:])
        exponent = max(-_LONGEST - _FARTHEST_EXPONENT, min(exponent, _LONGEST + _FARTHEST_EXPONENT))
        nano = _scaled(digits, exponent + 9 - len(fraction))
    return -nano if sign == "-" else nano


def _scaled(digits: int, power: int) -> int:
    """digits × 10^power, rounded up to a whole number (digits are never negative)."""
    ten: int = 10 ** abs(power)
    return digits * ten if power >= 0 else -(-digits // ten)


def milli_value(nano: int) -> int:
    """Whole thousandths of a parsed quantity, rounded up and held within int64."""
    return max(INT64_MIN, min(-(-nano // _NANO_PER_MILLI), INT64_MAX))


def value(nano: int) -> int:
    """Whole units of a parsed quantity, rounded up and held within int64."""
    return max(INT64_MIN, min(-(-nano // NANO), INT64_MAX))


@lru_cache(maxsize=16384)
def to_milli(raw: Quantity) -> int:
    """`milli_value(parse(raw))` in one cached step, for the quantity of a single container or node."""
    return milli_value(parse(raw))


@lru_cache(maxsize=16384)
def to_value(raw: Quantity) -> int:
    """`value(parse(raw))` in one cached step."""
    return value(parse(raw))


def from_nano(nano: int) -> str:
    """A quantity text which parses back to `nano`; for defaults computed from other quantities."""
    whole, rest = divmod(nano, NANO)
    return str(whole) if rest == 0 else f"{nano}n"
