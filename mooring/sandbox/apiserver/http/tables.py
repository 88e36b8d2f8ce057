"""Objects as rows of a Table, which `kubectl get` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.errors import bad_request, not_convertible, show
from mooring.sandbox.apiserver.http.representation import Metadata, Plain, joined, list_metadata
from mooring.sandbox.apiserver.objects import Tree, decode_record, encode_json
from mooring.sandbox.apiserver.printing.ages import Ages
from mooring.sandbox.apiserver.printing.columns import DEFAULT, Printer
from mooring.sandbox.apiserver.printing.printers import SCALE
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.verbs.reading import Listing

_PLAIN = Plain()


class IncludeObject(StrEnum):
    """What a row contains in addition to its cells."""

    NONE = "None"
    METADATA = "Metadata"
    OBJECT = "Object"


def include_object(params: Mapping[str, list[str]]) -> IncludeObject:
    """Return what a request includes in rows. Raises 400."""
    value = (params.get("includeObject") or [""])[0]
    try:
        return IncludeObject(value or IncludeObject.METADATA)
    except ValueError:
        why = "must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {show(value)}: {why}"
        ) from None


class Tables:
    """Tables for one request. A watch sends the columns once, with its first event."""

    def __init__(self, api_version: str, include: IncludeObject, clock: Callable[[], float]) -> None:
        self._api_version = api_version
        self._include = include
        self._clock = clock
        self._metadata = Metadata(api_version)
        self._columns_sent = False

    def single(self, resource: Resource, record: Record) -> bytes:
        printer = resource.printer
        row = self._row(resource, printer, record, Ages(self._clock()))
        return self._table({"resourceVersion": str(record.version)}, printer.definitions, [row])

    def tree(self, tree: Tree) -> bytes:
        if tree["kind"] == "Status":
            return encode_json(tree)
        if tree["kind"].endswith("Review"):  # computed, not stored: there is no printer
            group = tree["apiVersion"].partition("/")[0]
            raise not_convertible(f"{tree['kind'].lower()}s.{group}")
        printer = SCALE if tree["kind"] == "Scale" else DEFAULT
        row: Tree = {"cells": printer.cells(tree, Ages(self._clock())), "object": None}
        if self._include is IncludeObject.OBJECT:
            row["object"] = tree
        elif self._include is IncludeObject.METADATA:
            row["object"] = msgspec.Raw(self._metadata.tree(tree))
        version = tree["metadata"].get("resourceVersion")
        return self._table({"resourceVersion": version} if version else {}, printer.definitions, [row])

    def listed(self, resource: Resource, listing: Listing) -> Iterator[bytes]:
        printer, ages = resource.printer, Ages(self._clock())
        yield self._table(list_metadata(listing), printer.definitions, ())[: -len(b"]}")]
        yield from joined(
            encode_json(self._row(resource, printer, record, ages)) for record in listing.records
        )
        yield b"]}"

    def event(self, resource: Resource, type: str, record: Record) -> bytes:
        printer = resource.printer
        row = self._row(resource, printer, record, Ages(self._clock()))
        return self._event(type, printer, row, record.version)

    def bookmark(self, resource: Resource, version: int, annotations: Mapping[str, str] | None) -> bytes:
        """Return the row of an object that has only a version."""
        printer = resource.printer
        metadata: Tree = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = annotations
        tree: Tree = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        row: Tree = {"cells": printer.cells(tree, Ages(self._clock())), "object": None}
        if self._include is IncludeObject.OBJECT:
            row["object"] = tree
        elif self._include is IncludeObject.METADATA or annotations:
            row["object"] = msgspec.Raw(self._metadata.tree(tree))
        return self._event("BOOKMARK", printer, row, version)

    def _row(self, resource: Resource, printer: Printer, record: Record, ages: Ages) -> Tree:
        tree = decode_record(record, resource.api_version, resource.kind)
        row: dict[str, Any] = {"cells": printer.cells(tree, ages)}
        conditions = printer.conditions(tree)
        if conditions:
            row["conditions"] = conditions
        if self._include is IncludeObject.NONE:
            row["object"] = None
        else:
            shown = _PLAIN if self._include is IncludeObject.OBJECT else self._metadata
            row["object"] = msgspec.Raw(shown.single(resource, record))
        return row

    def _event(self, type: str, printer: Printer, row: Tree, version: int) -> bytes:
        columns = None if self._columns_sent else printer.definitions
        self._columns_sent = True
        table = self._table({"resourceVersion": str(version)}, columns, [row])
        return b'{"type":"%b","object":%b}\n' % (type.encode(), table)

    def _table(self, metadata: Tree, columns: list[Tree] | None, rows: Iterable[Tree]) -> bytes:
        return encode_json(
            {
                "kind": "Table",
                "apiVersion": self._api_version,
                "metadata": metadata,
                "columnDefinitions": columns,
                "rows": list(rows),
            }
        )
