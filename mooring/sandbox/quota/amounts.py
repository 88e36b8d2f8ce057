"""Amounts of resources as in quotas: quantities as text, by resource.

A sum is written in the family of suffixes of what it began with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.api.quantity import parse
from mooring.api.quantity_texts import written

Amounts = Mapping[str, str]

ONE = "1"


class Sum:
    """Amounts of some resources, added up; others are passed over."""

    def __init__(self, names: Iterable[str]) -> None:
        self._nano = dict.fromkeys(names, 0)
        self._like = dict.fromkeys(self._nano, "")

    def __bool__(self) -> bool:
        return bool(self._nano)

    def add(self, some: Amounts) -> None:
        for name, quantity in some.items():
            nano = self._nano.get(name)
            if nano is not None:
                if not nano:
                    self._like[name] = quantity
                self._nano[name] = nano + parse(quantity)

    def texts(self) -> dict[str, str]:
        return {name: written(nano, self._like[name]) for name, nano in self._nano.items()}


def plus(some: Amounts, more: Amounts) -> dict[str, str]:
    """Both together."""
    both = Sum((*some, *more))
    both.add(some)
    both.add(more)
    return both.texts()


def beyond(some: Amounts, others: Amounts) -> dict[str, str]:
    """By how much some amounts are more than others; zero where they are not."""
    return {
        name: written(max(parse(quantity) - parse(others.get(name, "0")), 0), like=quantity)
        for name, quantity in some.items()
    }


def exceeding(some: Amounts, bounds: Amounts) -> list[str]:
    """The resources of which there is more than their bound."""
    return [
        name for name, quantity in some.items() if name in bounds and parse(quantity) > parse(bounds[name])
    ]


def only(some: Amounts, names: Iterable[str]) -> dict[str, str]:
    return {name: some[name] for name in names if name in some}


def equal(some: Amounts, others: Amounts) -> bool:
    """Whether the amounts are the same, however they are written."""
    return some.keys() == others.keys() and all(parse(some[name]) == parse(others[name]) for name in some)


def format_amounts(some: Amounts) -> str:
    return ",".join(f"{name}={some[name]}" for name in sorted(some))
