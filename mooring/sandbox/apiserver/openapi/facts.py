"""What OpenAPI documents tell of fields and lightkube-models does not: the values that a field may have, and
how large numbers may be. `facts.txt` has a line per type; `make_openapi_table.py` of the tests writes it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from mooring.sandbox.apiserver.kinds.types import ObjectType


class Fact(NamedTuple):
    """What is known of one field; both may be empty."""

    values: tuple[str, ...] = ()
    format: str = ""


@cache
def _table() -> dict[str, str]:
    text = (files("mooring.sandbox.apiserver.openapi") / "facts.txt").read_text()
    return dict(line.split("\t", 1) for line in text.splitlines())


def facts_of(type: ObjectType) -> dict[str, Fact]:
    """What is known of a type's fields, by their names."""
    found = {}
    known = _table().get(str(type))
    for text in known.split("\t") if known is not None else ():
        name, equals, values = text.partition("=")
        if equals:
            found[name] = Fact(values=tuple(values.split("|")))
        else:
            name, _, format = text.partition(":")
            found[name] = Fact(format=format)
    return found
