"""Updating managedFields on writes that are not applies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.sandbox.apiserver.fields.managers import (
    Managed,
    Manager,
    Owned,
    cap,
    decode,
    decode_foreign,
    encode,
    updater,
)
from mooring.sandbox.apiserver.fields.ownership import Change, fields_of_new, written
from mooring.sandbox.apiserver.fields.sets import union
from mooring.sandbox.apiserver.fields.versions import STORED, Versions
from mooring.sandbox.apiserver.objects import Tree

if TYPE_CHECKING:
    from mooring.sandbox.apiserver.context.write import Write


def track(write: Write, obj: Tree, old: Tree | None) -> None:
    """Record that this write's manager owns what it changed; `obj` and `old` are in their stored form.

    As in Kubernetes, an object without managers stays so until the first apply.
    """
    if write.ownership == "settled":
        return
    metadata = obj["metadata"]
    sent = metadata.pop("managedFields", None)
    managed = _known(sent, old, write.subresource)
    if write.ownership == "track" and old is None and not managed:
        managed = _first(write, obj)
    elif write.ownership == "track" and managed:
        managed = _tracked(write, managed, obj, old or {})
    if managed:
        metadata["managedFields"] = encode(managed)


def _known(sent: Any, old: Tree | None, subresource: str) -> Managed:
    """Return the managers before this write: those that the client sent, if valid, else the stored ones.

    Clients that do not know the field do not clear it by sending an object without it; a list without
    managers, or with one that has no name, clears all managers.
    """
    present: list[Tree] = [] if old is None else old["metadata"].get("managedFields") or []
    if subresource or sent is None or sent == present:
        return decode(present)
    if not sent or sent == [{}]:
        return {}
    return decode_foreign(sent) or decode(present)


def _first(write: Write, obj: Tree) -> Managed:
    """Return the manager of a new object: its creator."""
    version = write.resource.api_version
    versions = Versions(write.api.registry, write.resource, write.subresource)
    shape = versions.shape(version)
    assert shape is not None
    fields = versions.reset(fields_of_new(shape, versions.convert(obj, STORED, version)))
    return {_manager(write): Owned(version, fields, _time(write, None))} if fields else {}


def _tracked(write: Write, managers: Managed, obj: Tree, old: Tree) -> Managed:
    """Return the managers after this write."""
    version = write.resource.api_version
    change = Change(Versions(write.api.registry, write.resource, write.subresource), old, obj, STORED)
    changes = change.seen_in(version)
    assert changes is not None
    if not any(changes):
        return managers
    managed, taken = change.outcome(managers)
    if write.part and not taken:  # subresources are tracked only where a manager owns them already
        return managed
    fields, manager = written(changes), _manager(write)
    if fields:
        before = managed.get(manager)
        if before is not None:
            fields = union(fields, before.fields)
        managed[manager] = Owned(version, fields, _time(write, before))
    return cap(managed)


def _manager(write: Write) -> Manager:
    return updater(write.options.field_manager, write.resource.api_version, write.part or write.subresource)


def _time(write: Write, before: Owned | None) -> str:
    """Return when a manager wrote last. Kubernetes drops the time of writes through a subresource."""
    if not write.part:
        return write.api.now()
    return before.time if before is not None else ""


def same_but_for_times(obj: Tree, old: Tree) -> bool:
    """Whether only the times of managers changed: that alone makes no new version."""
    now, before = obj["metadata"].get("managedFields") or [], old["metadata"].get("managedFields") or []
    if len(now) != len(before) or not all(map(_same_entry, now, before)):
        return False
    metadata = {**obj["metadata"], "managedFields": before}
    return {**obj, "metadata": metadata} == old if now else obj == old


def _same_entry(one: Tree, other: Tree) -> bool:
    return one is other or {**one, "time": ""} == {**other, "time": ""}
