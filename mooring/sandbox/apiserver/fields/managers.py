"""Managers: the entries of managedFields."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from mooring.sandbox.apiserver.errors import show
from mooring.sandbox.apiserver.fields.sets import SELF, Fields, in_order, union
from mooring.sandbox.apiserver.objects import Tree

APPLY: Final = "Apply"
UPDATE: Final = "Update"
_FIELDS_V1: Final = "FieldsV1"
_MOST_UPDATERS: Final = 10
_LONGEST_NAME: Final = 128  # bytes
_OLDEST: Final = "ancient-changes"


class Manager(NamedTuple):
    """Identifies an entry. Appliers keep their entry when they switch to another version."""

    name: str
    operation: str
    api_version: str
    subresource: str

    def __str__(self) -> str:
        """Return the manager as conflicts name it."""
        text = show(self.name)
        if self.subresource:
            text += f" with subresource {show(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Owned(NamedTuple):
    """What a manager owns, in the version in which it wrote."""

    api_version: str
    fields: Fields
    time: str = ""


Managed = dict[Manager, Owned]


@lru_cache(maxsize=1024)
def manager_name(user_agent: str) -> str:
    """Return the default name of a manager: its user agent up to the version."""
    printable = "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    return printable.encode()[:_LONGEST_NAME].decode(errors="ignore")


def updater(name: str, api_version: str, subresource: str) -> Manager:
    return Manager(name or "unknown", UPDATE, api_version, subresource)


def applier(name: str, subresource: str) -> Manager:
    return Manager(name, APPLY, "", subresource)


def decode(entries: Sequence[Tree] | None) -> Managed:
    """Read entries that the server wrote."""
    managed: Managed = {}
    for entry in entries or ():
        operation, version = entry["operation"], entry["apiVersion"]
        manager = Manager(
            entry.get("manager", ""),
            operation,
            version if operation == UPDATE else "",
            entry.get("subresource", ""),
        )
        managed[manager] = Owned(version, entry.get("fieldsV1") or {}, entry.get("time", ""))
    return managed


def decode_foreign(entries: Any) -> Managed | None:
    """Read entries that a client sent; None if they are malformed."""
    try:
        for entry in entries:
            if entry.get("operation") not in (APPLY, UPDATE) or not entry.get("apiVersion"):
                return None
            if entry.get("fieldsType") != _FIELDS_V1:
                return None
        return decode([{**entry, "fieldsV1": _read(entry.get("fieldsV1") or {})} for entry in entries])
    except (ValueError, RecursionError):
        return None


def _read(raw: Any) -> Fields:
    """Return a set in canonical form, without elements of unknown forms. Raises ValueError if it is none."""
    if not isinstance(raw, dict):
        raise ValueError("expected an object")
    fields: Fields = {}
    for element, node in raw.items():
        form, colon, rest = element.partition(":")
        if element == SELF or (form == "f" and colon):
            fields[element] = _read(node)
        elif not colon:
            raise ValueError(f"missing colon: {element}")
        elif form in ("k", "v", "i"):
            value = msgspec.json.decode(rest.encode())
            if form == "k" and not isinstance(value, dict):
                raise ValueError(f"expected an object: {element}")
            fields[f"{form}:{_encode(value).decode()}"] = _read(node)
    return fields


_encode = msgspec.json.Encoder(order="deterministic").encode


def encode(managed: Managed) -> list[Tree]:
    """Return the entries in the order in which Kubernetes shows them."""
    if len(managed) == 1:
        return [_entry(*one) for one in managed.items()]
    ordered = sorted(
        managed.items(),
        key=lambda one: (one[0].operation, one[1].time, one[0].name, one[1].api_version, one[0]),
    )
    return [_entry(manager, owned) for manager, owned in ordered]


def _entry(manager: Manager, owned: Owned) -> Tree:
    entry: Tree = {"manager": manager.name, "operation": manager.operation, "apiVersion": owned.api_version}
    if owned.time:
        entry["time"] = owned.time
    entry["fieldsType"] = _FIELDS_V1
    entry["fieldsV1"] = in_order(owned.fields)
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def cap(managed: Managed) -> Managed:
    """Merge the oldest updaters if there are more than Kubernetes keeps apart."""
    updaters = [manager for manager in managed if manager.operation == UPDATE]
    excess = len(updaters) - _MOST_UPDATERS
    if excess <= 0:
        return managed
    capped, first = dict(managed), {}
    merged: dict[Manager, list[Fields]] = {}
    for manager in sorted(updaters, key=lambda one: (managed[one].time, _encode(one))):
        owned = managed[manager]
        if excess <= 0:
            break
        bucket = updater(_OLDEST, owned.api_version, "")
        if owned.api_version not in first:
            first[owned.api_version] = manager
            continue
        if bucket not in capped:
            capped[bucket] = capped.pop(first[owned.api_version])
        merged.setdefault(bucket, [capped[bucket].fields]).append(owned.fields)
        del capped[manager]
        capped[bucket] = owned
        excess -= 1
    for bucket, parts in merged.items():
        capped[bucket] = capped[bucket]._replace(fields=_united(parts))
    return capped


def _united(parts: list[Fields]) -> Fields:
    """Return the union of sets. Halves are united first: one by one, thousands of sets take too long."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return union(_united(parts[middle:]), _united(parts[:middle]))
