"""Errors of objects: which object, which field, the value found and the value expected."""

from __future__ import annotations

import json
from typing import Final


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = _Missing()
"""Stands for `found` where a required field is absent."""

_LONGEST_FOUND = 120


class ObjectError(ValueError):
    """Something is wrong with one object; `kind` and `key` say which."""

    def __init__(self, kind: str, key: str, problem: str) -> None:
        super().__init__(f"{kind} {key}: {problem}" if key else f"{kind}: {problem}")
        self.kind = kind
        self.key = key


class MalformedObject(ObjectError):  # noqa: N818 - the name says what the object is
    """A field of an object holds something that cannot be understood.

    >>> str(MalformedObject("Pod", "default/web", "spec.priority", "high", "an integer"))
    'Pod default/web: spec.priority: found "high", expected an integer'
    """

    def __init__(self, kind: str, key: str, field: str, found: object, expected: str) -> None:
        super().__init__(kind, key, f"{field}: found {show(found)}, expected {expected}")
        self.field = field
        self.found = found
        self.expected = expected


class UnknownKind(ObjectError):  # noqa: N818
    """An object of a kind that the scheduler does not read."""

    def __init__(self, kind: str, key: str, api_version: str = "") -> None:
        of = f' of apiVersion "{api_version}"' if api_version else ""
        super().__init__(kind or "object without kind", key, f"not a kind{of} that the scheduler reads")
        self.api_version = api_version


def show(value: object) -> str:
    """A found value as it would stand in JSON, cut short where it is long."""
    if value is MISSING:
        return "nothing"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _LONGEST_FOUND else text[: _LONGEST_FOUND - 1] + "…"


def child(path: str, name: str) -> str:
    """The path of a member: `a.cpu`, but `a[nvidia.com/gpu]` where the name itself has dots or slashes."""
    if not name.replace("-", "").replace("_", "").isalnum():
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name
