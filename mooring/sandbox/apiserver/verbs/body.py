"""Decoding of request bodies: from bytes of a media type to a tree of the expected kind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from mooring.api.documents import UNCONSTRUCTED
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.resource import GroupVersionKind, Registry
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import bad_request, unsupported_media_type
from mooring.sandbox.apiserver.kinds import protobuf
from mooring.sandbox.apiserver.kinds.codec import Codec, cannot_handle, not_json
from mooring.sandbox.apiserver.kinds.decode_errors import duplicate_fields
from mooring.sandbox.apiserver.kinds.types import ObjectType
from mooring.sandbox.apiserver.objects import Tree, encode_json

JSON, YAML = "application/json", "application/yaml"
ACCEPTED = (JSON, YAML, protobuf.MEDIA_TYPE)
_LONGEST_YAML = 512 * 1024  # YAML is slow to parse; large clients send JSON
_DEEPEST_YAML = 200
_MOST_YAML_NODES = 5_000  # about 50 ms, during which all other requests wait

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _TypeMeta(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None


_type_meta = msgspec.json.Decoder(_TypeMeta)


def to_json(data: bytes, content_type: str, kind: str, type: ObjectType | None) -> bytes:
    """Convert a body to JSON. Raises 415 for other media types, and for protobuf of kinds without it."""
    if not content_type or content_type == JSON:
        return data
    media = content_type.partition(";")[0].strip().lower() or JSON
    if media == JSON:
        return data
    if media == YAML:
        return encode_json(read_yaml(data, kind))
    if media == protobuf.MEDIA_TYPE and type is not None:
        return encode_json(_read_protobuf(data, kind, type))
    raise unsupported_media_type(ACCEPTED if type is not None else ACCEPTED[:2])


def _read_protobuf(data: bytes, kind: str, type: ObjectType) -> Tree:
    try:
        envelope = protobuf.open_envelope(data)
        if envelope.kind not in ("", kind):  # another kind is rejected later, by its name
            return {"kind": envelope.kind, "apiVersion": envelope.api_version}
        tree = protobuf.decode(type, envelope.raw)
    except protobuf.ProtobufError as error:
        raise bad_request(f"the body of the request (must be of type {kind}) {error}") from None
    return {**tree, "kind": envelope.kind or kind, "apiVersion": envelope.api_version}


def read_yaml(data: bytes, kind: str) -> Any:
    """Parse a YAML document without aliases, which could make it grow exponentially."""
    if len(data) > _LONGEST_YAML:
        raise bad_request(f"YAML bodies are limited to {_LONGEST_YAML} bytes: send JSON instead")
    try:
        _check_yaml(data)
        return msgspec.to_builtins(yaml.load(data, Loader=_Loader), str_keys=True)
    except (yaml.YAMLError, *UNCONSTRUCTED, RecursionError) as error:
        raise not_json(kind, data, str(error).replace("\n", " ")) from None


def duplicate_keys(data: bytes) -> list[str]:
    """Return the keys that a YAML document sets more than once, in the words of Go's decoder."""
    with contextlib.suppress(ValueError, RecursionError):
        if not duplicate_fields(data):  # the body is JSON, as most clients send it
            return []
    if len(data) > _LONGEST_YAML:
        return []
    try:
        _check_yaml(data)
        return list(_find_duplicates(yaml.compose(data, Loader=_Loader)))
    except (yaml.YAMLError, RecursionError, ApiError):
        return []  # JSON that is too large to be read as YAML


def _find_duplicates(node: yaml.Node | None) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            yield from _find_duplicates(value)
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                line, name = value.start_mark.line + 1, encode_json(key.value).decode()
                yield f"line {line}: key {name} already set in map"
            seen.add(key.value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _find_duplicates(item)


def _check_yaml(data: bytes) -> None:
    """Reject what is cheap to send and expensive to parse: aliases, many values, and deep nesting."""
    depth = 0
    for count, event in enumerate(yaml.parse(data, Loader=_Loader)):
        if count > _MOST_YAML_NODES:
            raise bad_request(f"YAML bodies are limited to {_MOST_YAML_NODES} values: send JSON instead")
        if isinstance(event, yaml.AliasEvent):
            raise bad_request("YAML aliases are not accepted in the body of a request")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST_YAML:
            raise bad_request(f"YAML bodies may be nested {_DEEPEST_YAML} levels deep")


def read_object(
    write: Write, data: bytes, content_type: str, codec: Codec, expected: GroupVersionKind
) -> Tree:
    """Decode the object in the body of a create or update; warnings go to the write. Raises ApiError."""
    body = to_json(data, content_type, expected.kind, codec.type)
    try:
        decoded = codec.decode(body, write.options.field_validation)
    except ApiError:
        if codec.type is None:  # codecs of custom kinds check the kind themselves
            raise
        check_kind(
            write.api.registry, _kind_of(body, expected), expected
        )  # a wrong kind is the better message
        raise
    tree, expected_names = decoded.tree, (expected.kind, expected.api_version)
    named = tree.get("kind") or expected_names[0], tree.get("apiVersion") or expected_names[1]
    if named != expected_names:
        check_kind(write.api.registry, named, expected)
    write.warnings += decoded.warnings
    tree["kind"], tree["apiVersion"] = expected_names
    return tree


def _kind_of(data: bytes, expected: GroupVersionKind) -> tuple[str, str]:
    """Return the kind and apiVersion of a body, or else the expected ones."""
    try:
        named = _type_meta.decode(data)
    except (msgspec.DecodeError, RecursionError):  # the codec reports it
        return expected.kind, expected.api_version
    return named.kind or expected.kind, named.api_version or expected.api_version


def check_kind(registry: Registry, named: tuple[str, str], expected: GroupVersionKind) -> None:
    """Check that a body is of the kind that is served here."""
    kind, api_version = named
    if named == (expected.kind, expected.api_version):
        return
    version = api_version.rpartition("/")[2]
    if registry.of_kind(api_version, kind) is None:
        scheme = "pkg/api/legacyscheme/scheme.go:30"
        problem = f'no kind "{kind}" is registered for version "{api_version}" in scheme "{scheme}"'
        raise cannot_handle(kind, version, expected.kind, problem)
    if kind != expected.kind:
        source, target = f"{version}.{kind}", f"{expected.group.partition('.')[0] or 'core'}.{expected.kind}"
        problem = f"converting ({source}) to ({target}): unknown conversion"
        raise cannot_handle(kind, version, expected.kind, problem)
    raise bad_request(
        f"the API version in the data ({api_version}) does not match the expected API version "
        f"({expected.api_version})"
    )
