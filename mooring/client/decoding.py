"""What an API server sends, as objects: one object, a list, an event of a watch.

All of it is decoded in one go, straight into structs. Only if that fails is it decoded piece by piece: nulls
of absent fields are dropped, and an object that is still invalid is reported separately.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any, Generic, Literal, TypeVar

import msgspec

from mooring.api.complaints import malformed, text_or_empty
from mooring.api.decode import strip_nulls
from mooring.api.errors import MalformedObject
from mooring.api.kinds import Keep
from mooring.api.meta import KubeObject
from mooring.client.port import Change, Page
from mooring.client.refusals import watch_error

Obj = TypeVar("Obj", bound=KubeObject)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct, Generic[Obj]):
    metadata: _ListMeta
    items: list[Obj]


class _RawList(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None  # null for none, but there has to be one: an empty cluster is no trifle


class _Event(msgspec.Struct, Generic[Obj]):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: Obj


class _RawEvent(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


_raw_list = msgspec.json.Decoder(_RawList).decode
_raw_event = msgspec.json.Decoder(_RawEvent).decode


class Reader(Generic[Obj]):
    """Reads the objects of one model. Its methods raise one of `refusals.UNREADABLE` for no answer at all."""

    def __init__(self, model: type[Obj]) -> None:
        self._model = model
        self._object = msgspec.json.Decoder(model).decode
        self._list = msgspec.json.Decoder(_List[model]).decode  # type: ignore[valid-type]
        self._event = msgspec.json.Decoder(_Event[model]).decode  # type: ignore[valid-type]

    def object(self, body: bytes | msgspec.Raw) -> Obj:
        """Raises MalformedObject where it is JSON, but not such an object."""
        try:
            return self._object(body)
        except msgspec.ValidationError:
            return self._convert(msgspec.json.decode(body))

    def kept(self, body: bytes | msgspec.Raw, keep: Keep | None) -> Obj:
        """Decode the object, and pass its raw JSON to the kind's `keep`."""
        obj = self.object(body)
        if keep is not None:
            keep(obj, bytes(body))
        return obj

    def page(self, body: bytes, keep: Keep | None = None) -> Page[Obj]:
        if keep is None:
            with suppress(msgspec.ValidationError):
                listed: _List[Obj] = self._list(body)
                return _page(listed.metadata, listed.items)
        raw = _raw_list(body)
        page: Page[Obj] = _page(raw.metadata, [])
        for item in raw.items or ():
            try:
                page.items.append(self.kept(item, keep))
            except MalformedObject as error:
                page.malformed.append(error)
        return page

    def change(self, line: bytes, keep: Keep | None = None) -> Change[Obj]:
        """Raises ApiError for an event of type ERROR."""
        try:
            event: _Event[Obj] = self._event(line)
        except msgspec.ValidationError:
            return self._odd_change(_raw_event(line), keep)
        if event.type == "ERROR":
            raise watch_error(_raw_event(line).object)
        if keep is not None and event.type != "BOOKMARK":
            keep(event.object, bytes(_raw_event(line).object))
        return Change(event.type, event.object.metadata.resource_version, event.object)

    def _odd_change(self, event: _RawEvent, keep: Keep | None) -> Change[Obj]:
        if event.type == "ERROR":
            raise watch_error(event.object)
        tree = msgspec.json.decode(event.object)
        metadata = tree.get("metadata") if isinstance(tree, dict) else None
        version = text_or_empty(metadata.get("resourceVersion")) if isinstance(metadata, dict) else ""
        try:
            obj = self._convert(tree)
        except MalformedObject as error:
            return Change(event.type, version, malformed=error)
        if keep is not None and event.type != "BOOKMARK":
            keep(obj, bytes(event.object))
        return Change(event.type, version, obj)

    def _convert(self, tree: Any) -> Obj:
        if not isinstance(tree, dict):
            raise MalformedObject(self._model.__name__, "", "object", tree, "an object")
        stripped = strip_nulls(tree)
        try:
            return msgspec.convert(stripped, self._model)
        except msgspec.ValidationError as error:
            raise malformed(self._model.__name__, stripped, str(error)) from None


def _page(metadata: _ListMeta, items: list[Obj]) -> Page[Obj]:
    return Page(items, metadata.resource_version or "", metadata.continue_ or "")


@cache
def reader_of(model: type[Obj]) -> Reader[Obj]:
    """The reader of a model; making its decoders takes long, so there is one of each."""
    return Reader(model)
