"""create."""

from __future__ import annotations

import copy

from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import already_exists, bad_request, generated_name_exists, invalid
from mooring.sandbox.apiserver.fields.tracking import track
from mooring.sandbox.apiserver.objects import Tree, encode_tail
from mooring.sandbox.apiserver.store.record import Record, key_of
from mooring.sandbox.apiserver.verbs.system_metadata import fill_new, metadata_of, settle_namespace

_NAME_TRIES = 8


def create_instead(write: Write, obj: Tree) -> Record:
    """Create the missing object of an update or apply, if the user may. Raises ApiError."""
    resource = write.resource
    attributes = Attributes("create", resource.group, resource.plural, write.namespace, write.name)
    write.api.rbac.check(write.user, attributes)
    write.operation = "CREATE"
    metadata_of(obj).pop("resourceVersion", None)
    return create(write, obj)


def create(write: Write, obj: Tree) -> Record:
    """Create an object from the tree of the body, which is changed. Raises ApiError."""
    resource = write.resource
    if resource.conversion is not None and not resource.conversion.is_remote:
        resource.conversion.to_storage(obj)
    metadata = metadata_of(obj)
    version = metadata.pop("resourceVersion", "")
    settle_namespace(write, metadata)
    resource.strategy.default(obj)
    named = bool(metadata.get("name"))
    write.generated_name = not named
    fill_new(write, metadata)
    write.name = metadata.get("name", "")
    track(write, obj, None)
    write.api.admission.admit(write, obj, None)
    resource.strategy.prepare_create(write, obj)
    causes = resource.strategy.validate_create(obj)
    causes += resource.strategy.finish_validation(write, obj, None, causes)
    if causes:
        raise invalid(resource.group, resource.kind, write.name, causes)
    resource.strategy.warn(write, obj, None)
    write.api.admission.validate(write, obj, None)
    if version:  # the store rejects it, after admission
        raise bad_request("resourceVersion should not be set on objects to be created")
    return put_new(write, obj, named)


def put_new(write: Write, obj: Tree, named: bool) -> Record:
    """Store a new object; retry with other generated names unless its creator `named` it. Raises 409 if it
    exists."""
    resource, metadata = write.resource, obj["metadata"]
    table = write.api.table(resource)
    key = key_of(write.namespace, metadata["name"])
    if metadata.get("generateName") and key in table.records:
        for _ in range(0 if named else _NAME_TRIES):
            metadata["name"] = write.name = write.api.random_name(metadata["generateName"])
            key = key_of(write.namespace, write.name)
            if key not in table.records:
                break
        else:
            raise generated_name_exists(resource.group, resource.plural, write.name)
    if key in table.records:
        raise already_exists(resource.group, resource.plural, metadata["name"])
    return stored(write, key, obj)


def stored(write: Write, key: str, obj: Tree) -> Record:
    """Store an object, or only build its record for a dry run."""
    tail, labels = _tail(write, obj), obj["metadata"].get("labels")
    fields = write.resource.strategy.select(obj)
    table = write.api.table(write.resource)
    if not write.options.dry_run:
        return table.put(key, tail, labels, fields)
    present = table.get(key)
    return Record(key, present.version if present is not None else 0, tail, labels, fields)


def _tail(write: Write, obj: Tree) -> bytes:
    conversion = write.resource.conversion
    if conversion is None or not conversion.is_remote:
        return encode_tail(obj)
    if write.operation != "DELETE" and obj["apiVersion"] != conversion.storage:
        obj = copy.deepcopy(obj)
        conversion.to_storage(obj)
    return encode_tail(obj, obj["apiVersion"])
