"""delete and deletecollection."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from mooring.api.times import format_time, parse_time
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.options import DeleteOptions
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import conflict, not_found
from mooring.sandbox.apiserver.objects import Tree, decode_record, set_or_drop
from mooring.sandbox.apiserver.store.record import Record, key_of
from mooring.sandbox.apiserver.verbs.creating import stored
from mooring.sandbox.apiserver.verbs.reading import Listing

_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"


class Deleted(NamedTuple):
    """The result of a delete: the last or current state, the uid, and whether the object is gone."""

    record: Record
    uid: str
    gone: bool


def delete(write: Write, options: DeleteOptions, *, admitted: bool = False) -> Deleted:
    """Delete an object, or mark it as deleted if finalizers or a grace period hold it. `admitted` says that
    admission has seen the request."""
    resource = write.resource
    key = key_of(write.namespace, write.name)
    record = write.api.table(resource).get(key)
    if record is None:
        raise not_found(resource.group, resource.plural, write.name)
    obj = decode_record(record, resource.api_version, resource.kind)
    metadata = obj["metadata"]
    uid: str = metadata["uid"]
    _check_preconditions(write, metadata, options)
    if not admitted:
        write.api.admission.validate(write, obj, None)
    graceful = _begin(write, obj, options)
    if graceful is None:  # being deleted already, and the grace period gets no shorter
        return Deleted(record, uid, False)
    finalizers = _finalizers(write, metadata, options)
    same = finalizers == (metadata.get("finalizers") or [])
    set_or_drop(metadata, "finalizers", finalizers)
    held = resource.strategy.held(obj)
    if held and same and "deletionTimestamp" in metadata and not graceful:
        return Deleted(record, uid, False)  # waiting for its finalizers already
    if held and not graceful:
        _mark(write, obj)
    waits = held or (graceful and metadata["deletionGracePeriodSeconds"] > 0)
    last = stored(write, key, obj) if graceful or waits else record
    if waits or write.options.dry_run:
        return Deleted(last, uid, not waits)
    return Deleted(write.api.table(resource).delete(key), uid, True)


def _check_preconditions(write: Write, metadata: Tree, options: DeleteOptions) -> None:
    resource = write.resource
    if options.uid is not None and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated"
        )
        raise conflict(resource.group, resource.kind, write.name, why)
    version = metadata["resourceVersion"]
    if options.resource_version is not None and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({version}). The object might have been modified"
        )
        raise conflict(resource.group, resource.kind, write.name, why)


def _begin(write: Write, obj: Tree, options: DeleteOptions) -> bool | None:
    """Start or shorten a graceful deletion. False if there is no grace, None if nothing changes."""
    metadata = obj["metadata"]
    requested = options.grace_period_seconds
    requested = 1 if requested is not None and requested < 0 else requested
    period = write.resource.strategy.grace_period(obj, requested)
    if period is None:
        return False
    now = write.api.clock()
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = format_time(now + period)
        metadata["deletionGracePeriodSeconds"] = period
        _count_generation(metadata)
        return True
    present = metadata.get("deletionGracePeriodSeconds", 0)
    if not present:
        return False
    if requested is None or requested >= present:
        return None
    end = parse_time(metadata["deletionTimestamp"]) - present + requested
    if end < now:
        end, requested = now, min(requested, 1)
    metadata["deletionTimestamp"] = format_time(end)
    metadata["deletionGracePeriodSeconds"] = requested
    return True


def _mark(write: Write, obj: Tree) -> None:
    """Mark an object that only finalizers hold as deleted now."""
    metadata, now = obj["metadata"], write.api.now()
    if "deletionTimestamp" not in metadata:
        _count_generation(metadata)
        metadata["deletionTimestamp"] = now
    metadata["deletionTimestamp"] = min(metadata["deletionTimestamp"], now)
    metadata["deletionGracePeriodSeconds"] = 0
    write.resource.strategy.mark_deleted(obj)


def _count_generation(metadata: Tree) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1


def _finalizers(write: Write, metadata: Tree, options: DeleteOptions) -> list[str]:
    """Return the finalizers with those of the garbage collector for the propagation policy."""
    present: list[str] = metadata.get("finalizers") or []
    policy = options.propagation_policy
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        if _ORPHAN in present or _FOREGROUND in present:
            return present
        policy = "Orphan" if write.resource.strategy.traits.orphan_by_default else "Background"
    kept = [name for name in present if name not in (_ORPHAN, _FOREGROUND)]
    added = {"Orphan": [_ORPHAN], "Foreground": [_FOREGROUND]}.get(policy, [])
    return kept + added


def delete_each(write: Write, options: DeleteOptions, listing: Listing) -> Generator[None, None, None]:
    """Delete the objects of a list, one per step; those that others deleted meanwhile are skipped."""
    for record in listing.records:
        one = Write(
            write.api, write.resource, record.namespace, record.name, write.user, write.options, "DELETE"
        )
        try:
            delete(one, options)
        except ApiError as error:
            if not error.not_found:
                raise
        yield
