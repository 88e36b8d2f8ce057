"""A short way for replicas: objects whose spec was created before, and that differ in their metadata only.

Pods are made by the thousand from one template. What became of a spec (sifted, filled up with defaults,
admitted, found to be valid, encoded) becomes of it again in the same namespace, as long as nothing changed
that has a say in it. So the outcome is remembered by the bytes of the spec, and the next replica costs no
more than its metadata. Whatever is unusual goes the long way, which also tells what is wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from mooring.sandbox.apiserver.admission.namespace_lifecycle import takes_new_objects
from mooring.sandbox.apiserver.admission.resource_quota import is_limited
from mooring.sandbox.apiserver.kinds.codec import FieldValidation
from mooring.sandbox.apiserver.kinds.sieve import sieve_of
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.store.record import Record, key_of
from mooring.sandbox.apiserver.verbs.api import Api
from mooring.sandbox.apiserver.verbs.write import Write

_REMEMBERED = 1024
_META = sieve_of(object_type("meta_v1", "ObjectMeta"))
_FROM_SERVER = frozenset(
    {
        "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "managedFields",
        "resourceVersion", "selfLink", "uid",
    }
)  # fmt: skip
_SAME = ("annotations", "finalizers", "labels", "ownerReferences")


class _Body(msgspec.Struct, rename="camel"):
    """An object as far as replicas differ."""

    metadata: msgspec.Raw
    spec: msgspec.Raw
    kind: str | None = None
    api_version: str | None = None


_bodies = msgspec.json.Decoder(_Body)


class Replica(NamedTuple):
    """A body that may take the short way."""

    metadata: Tree
    key: tuple[object, ...]


class Outcome(NamedTuple):
    """What became of a spec."""

    rest: bytes
    """The stored bytes behind the metadata."""
    fields: tuple[str, ...]
    """Of field selectors."""
    manager: Tree | None
    """The entry of whoever wrote it, in managedFields."""
    stamp: tuple[int, ...]
    """How far the tables had come that have a say in it."""


class Replicas:
    """The outcomes of one kind; `tables` have a say in them beside the spec."""

    def __init__(self, *tables: str) -> None:
        self._tables = tables
        self._outcomes: dict[tuple[object, ...], Outcome | None] = {}
        """None for a spec that was seen once: most are never seen again."""
        self._valid: Tree | None = None
        """The metadata of the last replica that was found to be valid."""

    def _stamp(self, api: Api) -> tuple[int, ...]:
        return tuple([api.store.table(name).end for name in self._tables])

    def read(self, write: Write, data: bytes) -> Replica | None:
        """The body of a write, if it may take the short way or may show it to others."""
        options = write.options
        if options.field_validation is not FieldValidation.IGNORE or options.dry_run:
            return None
        try:
            body = _bodies.decode(data)
            metadata = _META.decode(bytes(body.metadata))
        except (msgspec.DecodeError, RecursionError):
            return None
        resource = write.resource
        named = (body.kind or resource.kind, body.api_version or resource.api_version)
        if named != (resource.kind, resource.api_version) or not _FROM_SERVER.isdisjoint(metadata):
            return None
        if metadata.get("namespace", write.namespace) != write.namespace:
            return None
        if not (metadata.get("name") or metadata.get("generateName")):
            return None
        shape = None if write.ownership == "keep" else (options.field_manager, *_shape(metadata))
        return Replica(metadata, (write.namespace, bytes(body.spec), shape))

    def create(self, write: Write, replica: Replica) -> Record | None:
        """Write a new object the short way, or tell that it must go the long one."""
        outcome = self._outcomes.get(replica.key)
        if outcome is None or outcome.stamp != self._stamp(write.api):
            return None
        if not takes_new_objects(write.api, write.namespace) or is_limited(write.api, write.namespace):
            return None
        api, metadata = write.api, dict(replica.metadata)
        name = metadata.get("name") or api.random_name(metadata.get("generateName", ""))
        table, key = api.table(write.resource), key_of(write.namespace, name)
        metadata["name"], metadata["namespace"] = name, write.namespace
        if key in table.records or not self._is_valid(write, replica, metadata):
            return None
        metadata["uid"], metadata["creationTimestamp"] = api.new_uid(), api.now()
        metadata["generation"] = 1
        if outcome.manager is not None:
            metadata["managedFields"] = [{**outcome.manager, "time": api.now()}]
        tail = encode_json(metadata)[1:] + outcome.rest
        return table.put(key, tail, metadata.get("labels"), outcome.fields)

    def _is_valid(self, write: Write, replica: Replica, metadata: Tree) -> bool:
        """Whether the metadata of a new object is in order. Replicas differ in nothing but the name they are
        given, which is in order if that of the one before was."""
        if "name" not in replica.metadata and replica.metadata == self._valid:
            return True
        if write.resource.strategy.validate_replica(metadata):
            return False
        self._valid = replica.metadata
        return True

    def remember(self, write: Write, replica: Replica, record: Record) -> None:
        """Take down what became of a body that went the long way, from the second time on."""
        if len(self._outcomes) >= _REMEMBERED:
            self._outcomes.clear()
        if replica.key not in self._outcomes:
            self._outcomes[replica.key] = None
            return
        obj: Tree = msgspec.json.decode(record.body)
        metadata = obj.pop("metadata")
        changed = any(metadata.get(name) != replica.metadata.get(name) for name in _SAME)
        if changed or not write.resource.strategy.repeats(obj):
            return
        rest = b"," + encode_json(obj)[1:]
        managers = metadata.get("managedFields")
        entry = None if managers is None else {**managers[0], "fieldsV1": _raw(managers[0]["fieldsV1"])}
        self._outcomes[replica.key] = Outcome(rest, record.fields, entry, self._stamp(write.api))


def _shape(metadata: Tree) -> tuple[Any, ...]:
    """What managedFields tell of metadata: which members there are, and the items of lists."""
    return (
        "generateName" in metadata,
        tuple(metadata.get("labels", ())),
        tuple(metadata.get("annotations", ())),
        encode_json(metadata.get("ownerReferences")),
        encode_json(metadata.get("finalizers")),
    )


def _raw(tree: Tree) -> msgspec.Raw:
    return msgspec.Raw(encode_json(tree))
