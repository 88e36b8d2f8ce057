"""Encode records for a client: as they are, or only their metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.objects import Tree, decode_record, encode_json
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.verbs.reading import Listing
from mooring.sandbox.apiserver.verbs.updating import in_version

_CHUNK = 256  # records that are joined at a time
_CHUNK_BYTES = 1024 * 1024


class Representation(Protocol):
    """One way to encode objects. Lists come in chunks, so that a large one is never in memory twice."""

    def single(self, resource: Resource, record: Record) -> bytes: ...

    def tree(self, tree: Tree) -> bytes:
        """Encode what is not stored, such as a Scale or a Status."""
        ...

    def listed(self, resource: Resource, listing: Listing) -> Iterator[bytes]: ...

    def event(self, resource: Resource, type: str, record: Record) -> bytes:
        """Encode an event of a watch, as one line."""
        ...

    def bookmark(self, resource: Resource, version: int, annotations: Mapping[str, str] | None) -> bytes: ...


class Plain:
    """Objects as they are stored, with the kind and version of the request."""

    def single(self, resource: Resource, record: Record) -> bytes:
        if resource.conversion is not None or not record.version:
            tree = decode_record(record, resource.api_version, resource.kind)
            if not record.version:  # a dry run, which has made none
                del tree["metadata"]["resourceVersion"]
            return encode_json(in_version(resource, tree))
        return b'%b"metadata":{"resourceVersion":"%d",%b' % (resource.opening, record.version, record.tail)

    def tree(self, tree: Tree) -> bytes:
        return encode_json(tree)

    def listed(self, resource: Resource, listing: Listing) -> Iterator[bytes]:
        yield list_opening(resource.list_kind, resource.api_version, listing)
        if resource.custom or resource.conversion is not None:
            items = (self.single(resource, record) for record in listing.records)
        else:
            items = (record.body for record in listing.records)  # typed lists do not repeat the kind
        yield from joined(items)
        yield b"]}"

    def event(self, resource: Resource, type: str, record: Record) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (type.encode(), self.single(resource, record))

    def bookmark(self, resource: Resource, version: int, annotations: Mapping[str, str] | None) -> bytes:
        return bookmark(resource.kind, resource.api_version, version, annotations)


class _WithMetadata(msgspec.Struct):
    metadata: msgspec.Raw


class Metadata:
    """PartialObjectMetadata, for garbage collectors and other generic clients.

    Without `kinds`, the items of a list do not name their kind: protobuf has no such field, and client-go
    compares what it has listed with what it has watched.
    """

    _decoder = msgspec.json.Decoder(_WithMetadata)

    def __init__(self, api_version: str, kinds: bool = True) -> None:
        self._version = api_version
        self._opening = (
            b'{"kind":"PartialObjectMetadata","apiVersion":"%b","metadata":' % api_version.encode()
        )
        self._item_opening = self._opening if kinds else b'{"metadata":'

    def single(self, resource: Resource, record: Record) -> bytes:
        return self._opening + self._metadata(record)

    def _metadata(self, record: Record) -> bytes:
        return bytes(self._decoder.decode(record.body).metadata) + b"}"

    def tree(self, tree: Tree) -> bytes:
        if tree["kind"] == "Status":
            return encode_json(tree)
        return self._opening + encode_json(tree["metadata"]) + b"}"

    def listed(self, resource: Resource, listing: Listing) -> Iterator[bytes]:
        yield list_opening("PartialObjectMetadataList", self._version, listing)
        yield from joined(self._item_opening + self._metadata(record) for record in listing.records)
        yield b"]}"

    def event(self, resource: Resource, type: str, record: Record) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (type.encode(), self.single(resource, record))

    def bookmark(self, resource: Resource, version: int, annotations: Mapping[str, str] | None) -> bytes:
        return bookmark("PartialObjectMetadata", self._version, version, annotations)


def list_metadata(listing: Listing) -> Tree:
    """Return the metadata of a list: its version, and where it continues."""
    metadata: Tree = {"resourceVersion": str(listing.version)}
    if listing.continue_token:
        metadata["continue"] = listing.continue_token
    if listing.remaining is not None:
        metadata["remainingItemCount"] = listing.remaining
    return metadata


def list_opening(kind: str, api_version: str, listing: Listing) -> bytes:
    """Return a list up to its first item."""
    tree = {"kind": kind, "apiVersion": api_version, "metadata": list_metadata(listing)}
    return encode_json(tree)[:-1] + b',"items":['


def joined(items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield items with commas between them, up to some hundreds at a time."""
    chunk: list[bytes] = []
    comma, size = b"", 0
    for item in items:
        chunk.append(item)
        size += len(item)
        if len(chunk) == _CHUNK or size >= _CHUNK_BYTES:
            yield comma + b",".join(chunk)
            comma, size, chunk = b",", 0, []
    if chunk:
        yield comma + b",".join(chunk)


def bookmark(kind: str, api_version: str, version: int, annotations: Mapping[str, str] | None) -> bytes:
    metadata: Tree = {"resourceVersion": str(version)}
    if annotations:
        metadata["annotations"] = annotations
    tree = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
    return encode_json({"type": "BOOKMARK", "object": tree}) + b"\n"
