"""Quantities as Kubernetes writes them: the largest suffix that leaves a whole number, in the family of
suffixes that the quantity was given in."""

from __future__ import annotations

from mooring.api.meta import Quantity
from mooring.api.quantity import NANO, parse

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")


def canonical(raw: Quantity) -> str:
    """The canonical text: `1000m` is `1`, `0.5` is `500m`, `1024Ki` is `1Mi`, `1e3` stays `1e3`.

    Raises QuantityError.
    """
    nano = parse(raw)
    text = raw if isinstance(raw, str) else repr(raw)
    if text[-1:] not in ("E", "e") and ("e" in text or "E" in text) and not text.endswith("i"):
        return _decimal(nano, exponent=True)
    return written(nano, text)


def written(nano: int, like: str) -> str:
    """The text of so many nano-units, in the family of suffixes of another quantity."""
    if like.endswith("i") and nano % NANO == 0 and (abs(nano) >= 1024 * NANO or nano == 0):
        return _binary(nano // NANO)
    return _decimal(nano, exponent=False)


def _binary(whole: int) -> str:
    power = 0
    while whole and whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY[power]}"


def _decimal(nano: int, exponent: bool) -> str:
    thousands = 0
    while nano and nano % 1000 == 0 and (exponent or thousands < len(_DECIMAL) - 1):
        nano //= 1000
        thousands += 1
    if nano == 0:
        return "0"
    if exponent:
        power = 3 * thousands - 9
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_DECIMAL[thousands]}"
