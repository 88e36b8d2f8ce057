"""Facts about fields that OpenAPI documents have and lightkube-models lacks: allowed values and formats.

`facts.txt` has a line per type; `make_openapi_table.py` of the tests writes it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Fact(NamedTuple):
    """The facts about one field; both may be empty."""

    values: tuple[str, ...] = ()
    format: str = ""


@cache
def _table() -> dict[str, str]:
    text = (files("mooring.sandbox.apiserver.kinds") / "facts.txt").read_text()
    return dict(line.split("\t", 1) for line in text.splitlines())


@cache
def choices(member: str) -> tuple[str, ...]:
    """Return the allowed values of a field such as `core_v1.PodSpec.restartPolicy`, sorted."""
    type, _, name = member.rpartition(".")
    return facts_of(type)[name].values


def facts_of(type: str) -> dict[str, Fact]:
    """Return the facts about a type such as "core_v1.PodSpec" by the names of its fields."""
    facts = {}
    line = _table().get(type)
    for text in line.split("\t") if line is not None else ():
        name, equals, values = text.partition("=")
        if equals:
            facts[name] = Fact(values=tuple(values.split("|")))
        else:
            name, _, format = text.partition(":")
            facts[name] = Fact(format=format)
    return facts
