"""Problems of an expression, shown with their places as cel-go shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mooring.cel.cel_errors import CelCompileError

_EXPECTED: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)
_MOST: Final = 100


class Issue(NamedTuple):
    offset: int
    message: str


def syntax_issue(error: CelCompileError) -> Issue:
    message = str(error)
    if message.startswith("syntax error"):
        token = error.unexpected or "<EOF>"
        message = f"Syntax error: mismatched input '{token}' expecting {error.expected or _EXPECTED}"
        if error.expected == ")":
            message = f"Syntax error: missing ')' at '{token}'"
        if error.expected == ".":
            message = "Syntax error: no viable alternative at input '.'"
    return Issue(error.offset or 0, message)


def report(source: str, issues: Sequence[Issue]) -> str:
    """Return the issues in the order of their places, each with its line and a mark below."""
    shown = [_show(source, issue) for issue in sorted(issues[:_MOST], key=lambda issue: issue.offset)]
    if len(issues) > _MOST:
        shown.append(f"{len(issues) - _MOST} more errors were truncated")
    return "\n".join(shown)


def _show(source: str, issue: Issue) -> str:
    if not source:
        return f"ERROR: <input>:1:0: {issue.message}"
    line = source.count("\n", 0, issue.offset) + 1
    start = source.rfind("\n", 0, issue.offset) + 1
    column = issue.offset - start
    text = source.splitlines()[line - 1]
    return f"ERROR: <input>:{line}:{column + 1}: {issue.message}\n | {text}\n | {'.' * column}^"
