"""update, and the common path of all writes to existing objects: patches, status and other subresources."""

from __future__ import annotations

from collections.abc import Callable

from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.context.strategy import keep
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import (
    MODIFIED,
    Cause,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
)
from mooring.sandbox.apiserver.fields.tracking import same_but_for_times, track
from mooring.sandbox.apiserver.objects import Tree, decode_record, encode_tail
from mooring.sandbox.apiserver.store.record import Record, key_of
from mooring.sandbox.apiserver.validation.metadata import validate_metadata_update
from mooring.sandbox.apiserver.verbs.creating import create_instead, stored
from mooring.sandbox.apiserver.verbs.system_metadata import keep_old, metadata_of, settle_namespace

Produce = Callable[[Tree], Tree]
"""Makes the new object from the current one, in the version of the request."""


def update(write: Write, obj: Tree) -> tuple[Record, bool]:
    """Replace an object, or create it if its kind allows that; also return whether it was created. Raises
    ApiError."""
    check_name(write, obj)
    table = write.api.table(write.resource)
    if key_of(write.namespace, write.name) not in table.records and not write.subresource:
        if not write.resource.strategy.traits.create_on_update:
            raise not_found(write.resource.group, write.resource.plural, write.name)
        return create_instead(write, obj), True
    return change(write, lambda old: obj), False


def check_name(write: Write, obj: Tree) -> None:
    """Check that the object has the name in the request."""
    name = metadata_of(obj).get("name", "")
    if not name:
        why = "name must be provided"
        raise bad_request(f"the name of the object ({write.name} based on URL) was undeterminable: {why}")
    if name != write.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({write.name})"
        )


def change(write: Write, produce: Produce, *, spares_old: bool = False) -> Record:
    """Change an existing object. Raises ApiError.

    `write.subresource` decides what may change: "status" only the status, none the rest. `produce` may change
    the object that it is given, unless it `spares_old`.
    """
    resource = write.resource
    key = key_of(write.namespace, write.name)
    record = write.api.table(resource).get(key)
    if record is None:
        raise not_found(resource.group, resource.plural, write.name)
    stored_old = decode_record(record, resource.api_version, resource.kind)
    written_as = stored_old["apiVersion"]
    if resource.converts_remotely:  # everything is in the version of the request until it is stored
        in_version(resource, stored_old)
    current = stored_old
    if not spares_old:
        current = in_version(resource, decode_record(record, resource.api_version, resource.kind))
    obj = produce(current)
    if resource.conversion is not None and not resource.conversion.is_remote:
        resource.conversion.to_storage(obj)
    _check_concurrency(write, obj, stored_old)
    settle_namespace(write, metadata_of(obj))
    resource.strategy.default(obj)
    track(write, obj, stored_old)
    write.api.admission.admit(write, obj, stored_old)
    _prepare(write, obj, stored_old)
    causes = _validate(write, obj, stored_old)
    if causes:
        raise invalid(resource.group, resource.kind, write.name, causes)
    resource.strategy.warn(write, obj, stored_old)
    write.api.admission.validate(write, obj, stored_old)
    if _goes_now(resource, obj):
        return _remove(write, key, obj, record)
    migrates = resource.conversion is not None and resource.conversion.storage not in ("", written_as)
    return record if _unchanged(obj, stored_old) and not migrates else stored(write, key, obj)


def _unchanged(obj: Tree, old: Tree) -> bool:
    """Whether a write changes nothing: then there is no new version, as with etcd."""
    obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    obj["kind"], obj["apiVersion"] = old["kind"], old["apiVersion"]
    return obj == old or same_but_for_times(obj, old)


def in_version(resource: Resource, tree: Tree) -> Tree:
    """Convert a stored object to the version of a resource, in place."""
    if resource.conversion is not None:
        resource.conversion.from_storage(tree)
    return tree


def _check_concurrency(write: Write, obj: Tree, old: Tree) -> None:
    """Check the uid and the resource version that the client sent, if any."""
    resource, metadata = write.resource, metadata_of(obj)
    uid, current = metadata.get("uid", ""), old["metadata"]["uid"]
    if uid and uid != current:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
        raise conflict(resource.group, resource.plural, write.name, why)
    version = metadata.get("resourceVersion", "")
    if version in ("", "0"):
        if not resource.strategy.traits.unconditional_update:
            cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(resource.group, resource.plural, write.name, [cause])
    elif not (version.isascii() and version.isdigit()):
        raise bad_request(f'strconv.ParseUint: parsing "{version[:100]}": invalid syntax')
    elif version != old["metadata"]["resourceVersion"]:
        raise conflict(resource.group, resource.plural, write.name, MODIFIED)


def _prepare(write: Write, obj: Tree, old: Tree) -> None:
    keep(obj["metadata"], old["metadata"], "generation")
    keep_old(obj["metadata"], old["metadata"])
    strategy = write.resource.strategy
    if not write.subresource:
        strategy.prepare_update(write, obj, old)
    elif write.subresource == "status":
        strategy.prepare_status(write, obj, old)
    else:
        strategy.prepare_subresource(write, obj, old)


def _validate(write: Write, obj: Tree, old: Tree) -> list[Cause]:
    strategy = write.resource.strategy
    free = strategy.traits.any_finalizer
    causes = list(validate_metadata_update(obj["metadata"], old["metadata"], any_finalizer=free))
    if not write.subresource:
        causes += strategy.validate_update(obj, old)
    elif write.subresource == "status":
        causes += strategy.validate_status(obj, old)
    else:
        causes += strategy.validate_subresource(write.subresource, obj, old)
    return causes + strategy.finish_validation(write, obj, old, causes)


def _goes_now(resource: Resource, obj: Tree) -> bool:
    """Whether nothing holds a deleted object any more: no finalizers, no grace period."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not resource.strategy.held(obj)
        and not metadata.get("deletionGracePeriodSeconds")
    )


def _remove(write: Write, key: str, obj: Tree, record: Record) -> Record:
    """Remove an object that this write released. The answer shows what was written, at the old version."""
    if not write.options.dry_run:
        write.api.table(write.resource).delete(key)
    strategy = write.resource.strategy
    tail = encode_tail(obj, obj["apiVersion"] if write.resource.converts_remotely else "")
    return Record(key, record.version, tail, obj["metadata"].get("labels"), strategy.select(obj))
