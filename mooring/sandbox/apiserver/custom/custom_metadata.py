"""The metadata of custom resources, and of resources that are embedded in them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.api.errors import child
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.errors import Cause, bad_request, invalid_value, required, show
from mooring.sandbox.apiserver.kinds.decode_errors import mismatch, unknown_fields
from mooring.sandbox.apiserver.kinds.sieve import sieve_of
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.metadata import validate_metadata
from mooring.sandbox.apiserver.validation.names import dns_1035_label, path_segment

_STANDARD_FINALIZERS: Final = ("foregroundDeletion", "kubernetes", "orphan")
_OBJECT_META: Final = object_type("meta_v1", "ObjectMeta")


def sift_metadata(tree: Tree, path: str = "") -> list[str]:
    """Normalize the metadata of a resource; return the paths of unknown members.

    Raises 400, for an embedded resource with the path of the invalid value.
    """
    metadata = tree.get("metadata")
    if metadata is None:
        tree.pop("metadata", None)
        return []
    at = child(path, "metadata")
    try:
        tree["metadata"] = sieve_of(_OBJECT_META).sift(metadata)
    except msgspec.ValidationError as error:
        raise _no_metadata(metadata, at if path else "", str(error)) from None
    return [child(at, name) for name in unknown_fields(_OBJECT_META, metadata)]


def _no_metadata(value: Any, path: str, error: str) -> ApiError:
    problem = mismatch(_OBJECT_META, value) or error
    return bad_request(f"{path}: Invalid value: {show(value)}: {problem}" if path else problem)


def sift_embedded(value: Any, schema: Schema | None, path: str = "") -> list[str]:
    """Normalize the metadata of all resources embedded in a value."""
    if schema is None or not schema.resources:
        return []
    unknown: list[str] = []
    if isinstance(value, dict):
        if schema.embedded:
            for name in ("apiVersion", "kind"):
                if not isinstance(value.get(name, ""), str):
                    at = child(path, name)
                    raise bad_request(f"{at}: Invalid value: {show(value[name])}: must be a string")
            unknown += sift_metadata(value, path)
        for name, member in value.items():
            unknown += sift_embedded(member, schema.member(name), child(path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            unknown += sift_embedded(item, schema.items, f"{path}[{index}]")
    return unknown


def finalizer_warnings(metadata: Tree, old: Tree | None) -> list[str]:
    """Warn about new finalizers without a domain, which could collide."""
    present = () if old is None else old.get("finalizers") or ()
    added = sorted(set(metadata.get("finalizers") or ()).difference(present, _STANDARD_FINALIZERS))
    why = "to avoid accidental conflicts with other finalizer writers"
    return [
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name '
        + (f"including a path (/) {why}" if "." in name else why)
        for name in added
        if "/" not in name
    ]


def check_embedded(value: Any, schema: Schema | None, path: str = "") -> list[Cause]:
    """Validate the resources embedded in a value: they must have a kind and an apiVersion."""
    if schema is None or not schema.resources:
        return []
    causes: list[Cause] = []
    if isinstance(value, dict):
        if schema.embedded:
            causes += _check_resource(value, path)
        for name, member in value.items():
            causes += check_embedded(member, schema.member(name), child(path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            causes += check_embedded(item, schema.items, f"{path}[{index}]")
    return causes


def _check_resource(value: Tree, path: str) -> list[Cause]:
    causes = []
    for name in ("apiVersion", "kind"):
        at, text = child(path, name), value.get(name, "")
        if name not in value:
            causes.append(required(at))
        elif not text:
            causes.append(invalid_value(at, text, "must not be empty"))
        elif name == "apiVersion" and text.count("/") > 1:
            causes.append(invalid_value(at, text, f"unexpected GroupVersion string: {text}"))
        elif name == "kind" and (problems := dns_1035_label(text.lower())):
            why = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            causes.append(invalid_value(at, text, why))
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        problems_of = validate_metadata({"name": "fakename", **metadata}, path_segment)
        causes += [cause._replace(field=f"{path}.{cause.field}") for cause in problems_of]
    return causes
