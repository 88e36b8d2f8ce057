"""Facts about Kubernetes' Go types that lightkube-models lacks: protobuf field numbers, and which zeros are
written.

`wire.txt` holds a line per type; `tests/sandbox/apiserver/make_wire_table.py` makes it.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Zero(Enum):
    """What happens to a field's zero value: an empty text, list or map, 0, false."""

    DISTINCT = "*"  # a pointer: zero differs from absent
    NULL = "~"  # a pointer, written as null if absent
    WRITTEN = "!"
    BYTES = "#"  # omitted, and bytes in protobuf
    LEFT_OUT = ""


class WireField(NamedTuple):
    number: int
    name: str
    """Its name in JSON; empty for an embedded part whose fields JSON inlines."""
    part: str
    """The type of such a part."""
    zero: Zero


@cache
def _table() -> dict[str, str]:
    """The fields of each type, unparsed: most types are never used."""
    text = (files("mooring.sandbox.apiserver.kinds") / "wire.txt").read_text()
    return dict(line.split(" ", 1) for line in text.splitlines())


@cache
def wire_fields(type_name: str) -> tuple[WireField, ...] | None:
    """Return the fields of a type such as "core_v1.Pod", or None for an unknown type."""
    text = _table().get(type_name)
    if text is None:
        return None
    return tuple(_field(type_name, field) for field in text.split(" "))


def _field(type_name: str, text: str) -> WireField:
    name, _, number = text.partition("=")
    digits = number.rstrip("*~!#")
    part = ""
    if name.startswith("^"):
        name, part = "", f"{type_name.partition('.')[0]}.{name[1:]}"
    return WireField(int(digits), name, part, Zero(number[len(digits) :]))


def zeros(type_name: str) -> dict[str, Zero] | None:
    """Return what happens to the zero of each field, by its name in JSON."""
    fields = wire_fields(type_name)
    if fields is None:
        return None
    marks: dict[str, Zero] = {}
    for field in fields:
        if field.part:
            marks.update(zeros(field.part) or {})
        else:
            marks[field.name] = field.zero
    return marks
