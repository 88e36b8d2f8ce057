"""A fast path for replicas: new objects whose spec was created before, with other metadata.

Pods are created by the thousand from one template. Decoding, defaulting, admission and validation of the same
spec in the same namespace have the same outcome until a table that affects it changes. So the outcome
is kept by the bytes of the spec, and the next replica costs no more than its metadata. Anything unusual takes
the normal path, which also reports errors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from mooring.sandbox.apiserver.context.namespaces import has_quota, is_terminating
from mooring.sandbox.apiserver.context.outcomes import Outcome, Outcomes
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.kinds.codec import FieldValidation
from mooring.sandbox.apiserver.kinds.sieve import sieve_of
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.store.record import Record, key_of

_META = sieve_of(object_type("meta_v1", "ObjectMeta"))
_SET_BY_SERVER = frozenset(
    {
        "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "managedFields",
        "resourceVersion", "selfLink", "uid",
    }
)  # fmt: skip
_IGNORE = FieldValidation.IGNORE  # access to enum members is slow
_COPIED = ("annotations", "finalizers", "labels", "ownerReferences")


class _Body(msgspec.Struct, rename="camel", omit_defaults=True):
    metadata: msgspec.Raw
    spec: msgspec.Raw
    kind: str | None = None
    api_version: str | None = None
    status: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_bodies = msgspec.json.Decoder(_Body)


class Replica(NamedTuple):
    """A create that can take the fast path once the outcome for its spec is known."""

    write: Write
    metadata: Tree
    key: tuple[object, ...]
    outcomes: Outcomes

    def create(self) -> Record | None:
        """Store the object with the known outcome; None if it has to take the normal path."""
        api, namespace = self.write.api, self.write.namespace
        outcome = self.outcomes.get(self.key)
        if outcome is None or outcome.stamp != self._stamp():
            return None
        if is_terminating(api, namespace) is not False or has_quota(api, namespace):
            return None
        metadata = dict(self.metadata)
        name = metadata.get("name") or api.random_name(metadata.get("generateName", ""))
        table, key = api.table(self.write.resource), key_of(namespace, name)
        metadata["name"], metadata["namespace"] = name, namespace
        if key in table.records or not self._is_valid(metadata):
            return None
        metadata["uid"], metadata["creationTimestamp"] = api.new_uid(), api.now()
        metadata["generation"] = 1
        if outcome.manager is not None:
            metadata["managedFields"] = [{**outcome.manager, "time": api.now()}]
        tail = encode_json(metadata)[1:] + outcome.rest
        return table.put(key, tail, metadata.get("labels"), outcome.fields)

    def remember(self, record: Record) -> None:
        """Keep the outcome of the normal path, from the second object of a spec on."""
        if self.write.warnings or not self.outcomes.is_repeated(self.key):
            return
        obj: Tree = msgspec.json.decode(record.body)
        metadata = obj.pop("metadata")
        changed = any(metadata.get(name) != self.metadata.get(name) for name in _COPIED)
        if changed or not self.write.resource.strategy.repeats(obj):
            return
        rest = b"," + encode_json(obj)[1:]
        managers = metadata.get("managedFields")
        entry = None if managers is None else {**managers[0], "fieldsV1": _raw(managers[0]["fieldsV1"])}
        self.outcomes.put(self.key, Outcome(rest, record.fields, entry, self._stamp()))

    def _stamp(self) -> tuple[int, ...]:
        store = self.write.api.store
        return tuple([store.table(name).end for name in self.outcomes.tables])

    def _is_valid(self, metadata: Tree) -> bool:
        """Validate the metadata. Replicas that differ in their generated names only are validated once."""
        if "name" not in self.metadata and self.metadata == self.outcomes.valid_metadata:
            return True
        if self.write.resource.strategy.validate_replica(metadata):
            return False
        self.outcomes.valid_metadata = self.metadata
        return True


def read_replica(write: Write, data: bytes) -> Replica | None:
    """Read the body of a create; None if it has to take the normal path."""
    options, resource = write.options, write.resource
    outcomes = resource.strategy.outcomes
    if outcomes is None or options.dry_run or write.api.policies.any:
        return None
    try:
        body = _bodies.decode(data)
        metadata = _META.decode(bytes(body.metadata))
    except (msgspec.DecodeError, RecursionError):
        return None
    if options.field_validation is not _IGNORE and not _has_known_fields_only(data, body):
        return None
    named = (body.kind or resource.kind, body.api_version or resource.api_version)
    if named != (resource.kind, resource.api_version) or not _SET_BY_SERVER.isdisjoint(metadata):
        return None
    if metadata.get("namespace", write.namespace) != write.namespace:
        return None
    if not (metadata.get("name") or metadata.get("generateName")):
        return None
    shape = None if write.ownership == "keep" else (options.field_manager, *_shape(metadata))
    key = (write.namespace, bytes(body.spec), options.field_validation, shape)
    return Replica(write, metadata, key, outcomes)


def _has_known_fields_only(data: bytes, body: _Body) -> bool:
    """Whether nothing outside the spec would be warned of: unknown or duplicate fields change the length."""
    if body.status not in (msgspec.UNSET, msgspec.Raw(b"{}")) or len(encode_json(body)) != len(data):
        return False
    raw = bytes(body.metadata)
    metadata = msgspec.json.decode(raw)
    return len(encode_json(metadata)) == len(raw) and _META.knows(metadata)


def _shape(metadata: Tree) -> tuple[Any, ...]:
    """What managedFields record of metadata: which members there are, and the items of lists."""
    return (
        "generateName" in metadata,
        tuple(metadata.get("labels", ())),
        tuple(metadata.get("annotations", ())),
        encode_json(metadata.get("ownerReferences")),
        encode_json(metadata.get("finalizers")),
    )


def _raw(tree: Tree) -> msgspec.Raw:
    return msgspec.Raw(encode_json(tree))
