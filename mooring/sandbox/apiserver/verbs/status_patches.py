"""A fast path for patches of the status alone, from untracked writers in this process.

Kubelets and controllers write little else, by the thousand. Everything but the status stays as stored, and
was validated then: only the status is merged, checked and validated. Anything unusual takes the normal path,
which also reports errors.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from mooring.api.patches import merge_patch
from mooring.client.api_errors import ApiError
from mooring.client.port import PatchType
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.kinds.codec import Codec
from mooring.sandbox.apiserver.kinds.sieve import Sieve, sieve_of
from mooring.sandbox.apiserver.kinds.types import ObjectType
from mooring.sandbox.apiserver.objects import Tree, decode_record
from mooring.sandbox.apiserver.patches.apply_patch import Patch
from mooring.sandbox.apiserver.patches.strategic import apply_strategic_patch
from mooring.sandbox.apiserver.store.record import Record, key_of
from mooring.sandbox.apiserver.verbs.creating import stored

_IDENTITY = frozenset({"uid", "resourceVersion"})
_STRATEGIC, _MERGE = PatchType.STRATEGIC, PatchType.MERGE  # access to enum members is slow


def patch_status(write: Write, patch: Patch, codec: Codec) -> Record | None:
    """Patch the status; None if the patch has to take the normal path."""
    resource, content = write.resource, patch.content
    if write.subresource != "status" or write.ownership != "keep" or resource.conversion is not None:
        return None
    sieve = None if codec.type is None else _sieve_of_status(codec.type)
    if sieve is None or not _is_plain(patch, content):
        return None
    key = key_of(write.namespace, write.name)
    record = write.api.table(resource).get(key)
    if record is None:
        return None
    old = decode_record(record, resource.api_version, resource.kind)
    metadata, before = old["metadata"], old.get("status", {})
    if "metadata" in content and not content["metadata"].items() <= metadata.items():
        return None
    if "deletionTimestamp" in metadata:  # the write may remove the object
        return None
    status = _merged(sieve, patch.kind, before, content["status"])
    if status is None:
        return None
    obj = {**old, "metadata": dict(metadata), "status": status}
    resource.strategy.default_status(obj)
    write.api.admission.admit(write, obj, old)
    resource.strategy.settle_status(write, obj, old)
    if resource.strategy.validate_status(obj, old):
        return None
    write.api.admission.validate(write, obj, old)
    return record if obj["status"] == before else stored(write, key, obj)


def _is_plain(patch: Patch, content: Any) -> bool:
    """Whether a patch is about the status alone, and identifies its object at most by uid and version."""
    if patch.problems or (patch.kind is not _MERGE and patch.kind is not _STRATEGIC):
        return False
    if not isinstance(content, dict) or not isinstance(content.get("status"), dict):
        return False
    if len(content) == 1:
        return True
    metadata = content.get("metadata")
    return len(content) == 2 and isinstance(metadata, dict) and metadata.keys() <= _IDENTITY


def _merged(sieve: Sieve, kind: PatchType, before: Tree, patch: Tree) -> Tree | None:
    try:
        if kind is _STRATEGIC:
            return sieve.sift(apply_strategic_patch(sieve.type, patch, before))
        return sieve.sift(merge_patch(before, patch))
    except (ApiError, msgspec.ValidationError, RecursionError):
        return None


@cache
def _sieve_of_status(type: ObjectType) -> Sieve | None:
    field = type.fields.get("status")
    return sieve_of(field.type) if field is not None and isinstance(field.type, ObjectType) else None
