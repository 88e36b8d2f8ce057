"""What an API server does to an object on the way to the scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

from mooring.api.defaults import defaulted, identified
from mooring.api.meta import KubeObject
from mooring.api.validation import validate

Obj = TypeVar("Obj", bound=KubeObject)
Item = TypeVar("Item")


def served(obj: Obj, *, namespaced: bool) -> Obj:
    """Return the object with UID and defaults; raises MalformedObject if it is invalid."""
    obj = cast(Obj, identified(obj, namespaced=namespaced))
    validate(obj)
    return cast(Obj, defaulted(obj))


def each_of(items: str | Iterable[Item]) -> list[Item]:
    """The items; a single string is one item, not its letters."""
    return [cast(Item, items)] if isinstance(items, str) else list(items)
