"""The check of `"…".format([…])` with literals: every clause against the type of its argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mooring.cel.strings import CLAUSE, EXPECTED_BY_VERB
from mooring.cel.syntax import ListNode, MapNode, Node
from mooring.cel.types import DYN, Type, full_name

_WHOLE: Final = ("int", "uint")
_ACCEPTED: Final = {
    "s": (
        *("list", "map", "int", "uint", "double", "bool", "string"),
        *("timestamp", "bytes", "duration", "type", "null"),
    ),
    "d": _WHOLE,
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": (*_WHOLE, "bool"),
    "x": (*_WHOLE, "string", "bytes"),
    "X": (*_WHOLE, "string", "bytes"),
    "o": _WHOLE,
}

TypeOf = Callable[[Node], Type]


def find_problem(template: str, args: Sequence[Node], type_of: TypeOf) -> tuple[Node | None, str]:
    """Return the argument with the first problem, None if the call has it, and the problem, "" if none."""
    used = 0
    for match in CLAUSE.finditer(template):
        if match.group() == "%%":
            continue
        verb = match.group(2)
        if verb is None:
            return None, "unexpected end of string"
        if used >= len(args):
            return None, f"index {used} out of range"
        if verb not in _ACCEPTED:
            return None, f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
        wrong = _wrong_part(args[used], verb, type_of)
        if wrong is not None:
            given = full_name(type_of(wrong)).name
            return wrong, f"error during formatting: {EXPECTED_BY_VERB[verb]}, was given {given}"
        used += 1
    if len(args) > used:
        problem = f"too many arguments supplied to string.format (expected {used}, got {len(args)})"
        return None, problem
    return None, ""


def _wrong_part(node: Node, verb: str, type_of: TypeOf) -> Node | None:
    """Return the argument if it cannot be formatted, or the part of it that cannot."""
    of = type_of(node)
    if of != DYN and of.name not in _ACCEPTED[verb]:
        return node
    if verb != "s":
        return None
    inner: list[Node] = []
    if isinstance(node, ListNode):
        inner = [item for item, _ in node.items]
    elif isinstance(node, MapNode):
        inner = [part for key, value, _ in node.entries for part in (key, value)]
    return next((wrong for part in inner if (wrong := _wrong_part(part, verb, type_of)) is not None), None)
