"""Amounts of resources as quotas tell them: quantities as texts, by resource.

A sum is written in the family of suffixes of what it began with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.api.quantity import parse
from mooring.api.quantity_texts import written

Amounts = Mapping[str, str]

ONE = "1"


def plus(some: Amounts, more: Amounts) -> dict[str, str]:
    """Both together."""
    total = dict(some)
    for name, quantity in more.items():
        present = total.get(name, "0")
        nano = parse(present)
        total[name] = written(nano + parse(quantity), like=present if nano else quantity)
    return total


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


def told(some: Amounts) -> str:
    return ",".join(f"{name}={some[name]}" for name in sorted(some))
