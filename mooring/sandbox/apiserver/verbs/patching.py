"""patch: the four patch types. Apply may also create."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.client.api_errors import ApiError
from mooring.client.port import PatchType
from mooring.sandbox.apiserver.context.options import WriteOptions
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import bad_request, conflict, forbidden_value, invalid, required
from mooring.sandbox.apiserver.fields.go_text import json_name
from mooring.sandbox.apiserver.fields.managers import applier
from mooring.sandbox.apiserver.fields.versions import Versions
from mooring.sandbox.apiserver.kinds.codec import Codec, FieldValidation
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.patches.apply import Applying, apply_configuration, describe
from mooring.sandbox.apiserver.patches.apply_patch import (
    Patch,
    apply_patch,
    conversion_problem,
    no_object,
    problem_of,
    read_patch,
)
from mooring.sandbox.apiserver.patches.patch_errors import malformed
from mooring.sandbox.apiserver.store.record import Record, key_of
from mooring.sandbox.apiserver.verbs.body import check_kind, duplicate_keys, read_yaml
from mooring.sandbox.apiserver.verbs.creating import create_instead
from mooring.sandbox.apiserver.verbs.options import write_options
from mooring.sandbox.apiserver.verbs.request import Answer, ObjectAnswer, Request
from mooring.sandbox.apiserver.verbs.status_patches import patch_status
from mooring.sandbox.apiserver.verbs.updating import change, check_name

_TYPES = {kind.value: kind for kind in PatchType}
_MERGE, _APPLY = PatchType.MERGE, PatchType.APPLY  # access to enum members is slow


def patch(request: Request) -> Answer:
    """Handle PATCH on an object or on a subresource that is part of it."""
    kind = patch_type(request)
    write = request.write("UPDATE", patch_options(request, kind))
    codec = request.codec
    if kind is _APPLY:
        config = read_configuration(request)
        _report_duplicates(write, request.body, config)
        applied, created = _apply(write, config, codec)
        return ObjectAnswer(applied, request.resource, 201 if created else 200, write.warnings)
    content = requested_patch(request, kind, write.options.field_validation)
    record = patch_status(write, content, codec)
    if record is None:
        # merging leaves the old object unchanged, and the sieve of built-in kinds makes a new one
        spares = kind is _MERGE and codec.type is not None and request.resource.conversion is None
        record = change(write, lambda old: patched(write, content, codec, old), spares_old=spares)
    return ObjectAnswer(record, request.resource, 200, write.warnings)


def patch_type(request: Request) -> PatchType:
    """Return the patch type of a request. Raises 415."""
    kind = _TYPES.get(request.content_type)
    if kind is None:
        kind = _TYPES.get(request.content_type.partition(";")[0].strip().lower())
    if kind is None or (request.resource.custom and kind is PatchType.STRATEGIC):
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    return kind


def patch_options(request: Request, kind: PatchType) -> WriteOptions:
    """Parse the options of a patch. Only an apply may be forced, and only it must name its manager."""
    if request.options is not None:
        return request.options
    options = write_options(request.params, "PatchOptions")
    causes = []
    if kind is not PatchType.APPLY and options.force is not None:
        causes.append(forbidden_value("force", "may not be specified for non-apply patch"))
    if kind is PatchType.APPLY and not options.field_manager:
        causes.append(required("fieldManager", "is required for apply patch"))
    if causes:
        raise invalid("meta.k8s.io", "PatchOptions", "", causes)
    return options


def requested_patch(request: Request, kind: PatchType, validation: FieldValidation) -> Patch:
    """Parse the patch of a request. Raises ApiError."""
    if request.patch is not None:
        return Patch(kind, request.patch, validation, [])
    return read_patch(kind, request.body, validation)


def patched(write: Write, content: Patch, codec: Codec, old: Tree) -> Tree:
    """Apply a patch to an object. Raises ApiError."""
    decoded = apply_patch(content, codec, old)
    tree, expected = decoded.tree, write.resource.gvk
    named = tree.get("kind") or expected.kind, tree.get("apiVersion") or expected.api_version
    try:
        check_kind(write.api.registry, named, expected)
    except ApiError as error:
        raise no_object(content, tree, error) from None
    write.warnings += decoded.warnings
    check_name(write, tree)
    return tree


# ---- apply ----------------------------------------------------------------------------------------


def _apply(write: Write, config: Any, codec: Codec) -> tuple[Record, bool]:
    """Apply a configuration to an object, or create it; also return whether it was created."""
    resource = write.resource
    if key_of(write.namespace, write.name) in write.api.table(resource).records or write.subresource:
        return apply_to_existing(write, config, codec), False
    write.ownership = "settled"
    obj = _applied(write, config, codec, {})
    metadata = obj["metadata"]
    if metadata.get("uid"):
        why = f"the provided object specified uid {metadata['uid']}, and no existing object was found"
        raise conflict(resource.group, resource.plural, write.name, f"uid mismatch: {why}")
    return create_instead(write, obj), True


def apply_to_existing(write: Write, config: Any, codec: Codec) -> Record:
    """Apply a configuration to an existing object. Raises ApiError."""
    write.ownership = "settled"
    return change(write, lambda old: _applied(write, config, codec, old))


def _applied(write: Write, config: Any, codec: Codec, live: Tree) -> Tree:
    """Return the object after an apply, decoded as one of its kind."""
    kind = write.resource.gvk
    applying = Applying(
        Versions(write.api.registry, write.resource, write.subresource),
        kind,
        applier(write.options.field_manager, write.part or write.subresource),
        bool(write.options.force),
        write.api.now() if not write.part else "",
    )
    try:
        tree = apply_configuration(applying, config, live)
    except RecursionError:
        raise malformed("the configuration nests too deeply") from None
    try:
        sifted = codec.sift(tree, FieldValidation.IGNORE).tree
    except ApiError as error:
        problem = conversion_problem(problem_of(error))
        raise malformed(
            f"failed to convert new object ({describe(kind, config)}) to proper version: unable to convert "
            f"unstructured object to {kind.group}/{kind.version}, Kind={kind.kind}: {problem}"
        ) from None
    check_name(write, sifted)
    return sifted


def read_configuration(request: Request) -> Any:
    """Parse the configuration in the body of an apply: YAML, which most clients write as JSON."""
    try:
        config = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, RecursionError):
        config = _read_yaml(request)
    if not isinstance(config, dict | None):
        problem = (
            f"json: cannot unmarshal {json_name(config)} into Go value of type map[string]interface {{}}"
        )
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {problem}")
    return config


def _report_duplicates(write: Write, body: bytes, config: Any) -> None:
    """Warn of keys that the configuration sets twice, or raise 400, depending on the field validation."""
    validation = write.options.field_validation
    if validation is FieldValidation.IGNORE or len(body) == len(encode_json(config)):
        return  # compact JSON of this length sets nothing twice
    duplicates = duplicate_keys(body)
    if duplicates and validation is FieldValidation.STRICT:
        listed = "\n".join(f"  {problem}" for problem in duplicates)
        converting = "error converting YAML to JSON: yaml: unmarshal errors"
        raise bad_request(f"error strict decoding YAML: {converting}:\n{listed}")
    write.warnings += duplicates


def _read_yaml(request: Request) -> Any:
    try:
        return read_yaml(request.body, request.resource.kind)
    except ApiError as error:
        problem = error.message.rpartition("json parse error: ")[2]
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {problem}") from None
