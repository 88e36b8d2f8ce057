"""Ownership of fields after an object changed."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from mooring.sandbox.apiserver.fields.managers import Managed, Manager
from mooring.sandbox.apiserver.fields.sets import Fields, difference, intersection, union
from mooring.sandbox.apiserver.fields.shapes import Changes, Struct
from mooring.sandbox.apiserver.fields.versions import Versions
from mooring.sandbox.apiserver.objects import Tree, encode_json

_LONGEST_REMEMBERED: Final = 16 * 1024  # bytes of an object without its metadata


def fields_of_new(shape: Struct, obj: Tree) -> Fields:
    """Return all fields of a new object. Those outside its metadata are cached: many objects are alike."""
    rest = obj.copy()
    metadata = rest.pop("metadata")
    content = encode_json(rest)
    look = _fields_of_content if len(content) <= _LONGEST_REMEMBERED else _fields_of_content.__wrapped__
    fields, member = look(shape, content), shape.members["metadata"].shape
    if isinstance(member, Struct) and member.silent.issuperset(metadata):
        return fields
    return union(fields, written(shape.difference({}, {"metadata": metadata})))


@lru_cache(maxsize=1024)
def _fields_of_content(shape: Struct, content: bytes) -> Fields:
    return written(shape.difference({}, msgspec.json.decode(content)))


def written(changes: Changes) -> Fields:
    """The fields that the writer set."""
    return union(changes.modified, changes.added)


class Outcome(NamedTuple):
    """What managers keep after a change, and which fields it takes from which of them."""

    left: Managed
    taken: dict[Manager, Fields]


class Change:
    """An object before and after, compared in the versions of its managers."""

    def __init__(self, versions: Versions, old: Tree, new: Tree, form: str) -> None:
        self._versions = versions
        self._old = old
        self._new = new
        self._form = form
        self._changes: dict[str, Changes | None] = {}

    def seen_in(self, api_version: str) -> Changes | None:
        """Return what changed in a version; None if it is not served any more."""
        if api_version not in self._changes:
            changes = self._versions.compare(self._old, self._new, self._form, api_version)
            self._changes[api_version] = changes
        return self._changes[api_version]

    def outcome(self, managed: Managed, writer: Manager | None = None) -> Outcome:
        """Take what changed from all other managers. Managers without fields are dropped."""
        left: Managed = {}
        taken: dict[Manager, Fields] = {}
        for manager, owned in managed.items():
            if manager == writer:
                left[manager] = owned
                continue
            changes = self.seen_in(owned.api_version)
            if changes is None:
                continue
            lost = intersection(owned.fields, written(changes))
            if lost:
                taken[manager] = lost
            fields = difference(difference(owned.fields, lost), changes.removed)
            if fields:
                left[manager] = owned._replace(fields=fields)
        return Outcome(left, taken)
