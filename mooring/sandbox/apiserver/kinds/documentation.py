"""Descriptions of types and their members, from the docstrings of lightkube-models.

They hold Kubernetes' descriptions, broken into lines. Joining these again is exact except for some
paragraphs: a line ends where it was full, or where a line of the description ended, and a full line may be
both.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import NamedTuple

from mooring.sandbox.apiserver.kinds.types import ObjectType

_MEMBER = re.compile(r"\* \*\*(?P<name>.+?)\*\* ``.*?`` - (?P<text>.*)")
_WIDTH = 78  # characters after which the generator of lightkube-models breaks lines


class Documentation(NamedTuple):
    """The description of a type, and those of its members by their names in JSON."""

    text: str
    members: dict[str, str]


@cache
def documentation_of(type: ObjectType) -> Documentation:
    # Python 3.13 and later store docstrings without indentation, earlier ones as written.
    head, _, tail = inspect.cleandoc(type.documentation).partition("**parameters**")
    members: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in tail.split("\n"):
        match = _MEMBER.fullmatch(line)
        if match is not None:
            lines = members[_in_json(match["name"])] = [match["text"]]
        elif line.strip():
            lines.append(line[2:])
    text = _joined(head.rstrip().split("\n"))
    return Documentation(text, {name: _joined(lines) for name, lines in members.items()})


def _in_json(name: str) -> str:
    """Return the name in JSON of a member that has another in Python: `from_`, `d_ref`,
    `x_kubernetes_list_type`."""
    if name.startswith("x_"):
        return name.replace("_", "-")
    return "$" + name[2:] if name.startswith("d_") else name.rstrip("_")


def _joined(lines: list[str]) -> str:
    text = last = lines[0]
    for line in lines[1:]:
        if not line.strip():
            last = ""
            continue
        if line[0].isspace():
            text += "\n" + line
        elif len(last) + 1 + len(line.partition(" ")[0]) > _WIDTH:
            text += " " + line
        else:
            text += "\n\n" + line
        last = line
    return text
