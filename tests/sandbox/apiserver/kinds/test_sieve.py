"""Types from lightkube-models: the sieve, canonical quantities, and the numbers of protobuf."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.quantity import parse
from mooring.api.quantity_texts import canonical
from mooring.sandbox.apiserver.builtin import builtin_registry
from mooring.sandbox.apiserver.kinds import protobuf
from mooring.sandbox.apiserver.kinds.sieve import sieve_of
from mooring.sandbox.apiserver.kinds.types import ListOf, MapOf, ObjectType, Scalar, Type, object_type
from mooring.sandbox.apiserver.kinds.wire import wire_fields

POD = object_type("core_v1", "Pod")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        (1.5, "1500m"),
        (1, "1"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("1e3", "1e3"),
        ("12E6", "12e6"),
        ("5G", "5G"),
        ("0", "0"),
        ("0Mi", "0"),
        ("-1.5", "-1500m"),
        ("128974848", "128974848"),
    ],
)
def test_quantities_are_written_as_kubernetes_writes_them(raw: Any, expected: str) -> None:
    assert canonical(raw) == expected


@given(
    st.integers(-10_000, 10_000),
    st.sampled_from(["n", "u", "m", "", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "e-2"]),
)
def test_canonical_quantities_keep_their_value(number: int, suffix: str) -> None:
    raw = f"{number}{suffix}"
    assert parse(canonical(raw)) == parse(raw)
    assert canonical(canonical(raw)) == canonical(raw)


def test_every_kind_has_a_sieve() -> None:
    """Every type of every kind can be derived, and an empty object passes; twice is once."""
    for resource in builtin_registry():
        assert resource.type is not None
        sieve = sieve_of(resource.type)
        sifted = sieve.sift({"metadata": {"name": "x"}, "zork": 1})
        assert sifted["metadata"] == {"name": "x"}
        assert "zork" not in sifted
        assert sieve.sift(sifted) == sifted
        assert sieve.decode(json.dumps(sifted).encode()) == sifted


def test_zeros_are_written_as_go_writes_them() -> None:
    """Structs always; empty texts, lists and maps where the type insists; behind pointers what was said."""
    sieve = sieve_of(object_type("apps_v1", "Deployment"))
    sent: dict[str, Any] = {
        "metadata": {"name": "", "labels": {}, "finalizers": []},
        "spec": {
            "replicas": 0,
            "minReadySeconds": 0,
            "paused": False,
            "template": {"spec": {"containers": [{}]}},
        },
    }
    sifted = sieve.sift(sent)
    assert sifted == {
        "metadata": {},
        "spec": {
            "replicas": 0,
            "selector": None,
            "strategy": {},
            "template": {
                "metadata": {},
                "spec": {"containers": [{"name": "", "resources": {}}]},
            },
        },
        "status": {},
    }


def test_lists_and_times_that_are_written_as_null() -> None:
    assert sieve_of(object_type("rbac_v1", "Role")).sift({}) == {"metadata": {}, "rules": None}
    condition = {"type": "Ready", "status": "True"}
    pod = sieve_of(POD).sift({"status": {"conditions": [condition]}})
    expected = {**condition, "lastProbeTime": None, "lastTransitionTime": None}
    assert pod["status"]["conditions"] == [expected]
    assert pod["spec"] == {"containers": None}


def test_null_is_as_good_as_nothing() -> None:
    sieve = sieve_of(object_type("core_v1", "ConfigMap"))
    sent = {"metadata": {"name": "a", "labels": None, "annotations": {"k": None}}, "data": None, "kind": None}
    expected = {"metadata": {"name": "a", "annotations": {"k": ""}}}
    assert sieve.sift(sent) == expected
    assert sieve.decode(json.dumps(sent).encode()) == expected


def test_types_are_those_of_the_models() -> None:
    spec = POD.fields["spec"].type
    assert isinstance(spec, ObjectType)
    assert spec.fields["containers"].required
    container = spec.fields["containers"].type
    assert isinstance(container, ListOf)
    assert isinstance(container.item, ObjectType)
    resources = container.item.fields["resources"].type
    assert isinstance(resources, ObjectType)
    assert resources.fields["requests"].type == MapOf(Scalar.QUANTITY)
    assert POD.fields["metadata"].type is object_type("meta_v1", "ObjectMeta")


# ---- protobuf: an encoder for the tests, which knows the wire but not the decoder ------------------


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def part(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\0" + part(1, part(1, api_version.encode()) + part(2, kind.encode())) + part(2, raw)


def test_a_message_as_kubectl_sends_it() -> None:
    sent = bytes.fromhex(
        "6b3873000a0f0a0276311209436f6e6669674d6170121b0a110a01611200"
        "1a0022002a003200380042001206 0a01781201 791a002200".replace(" ", "")
    )
    envelope = protobuf.open_envelope(sent)
    assert (envelope.api_version, envelope.kind) == ("v1", "ConfigMap")
    tree = protobuf.decode(object_type("core_v1", "ConfigMap"), envelope.raw)
    assert tree == {"metadata": {"name": "a"}, "data": {"x": "y"}}


def test_zeros_that_mean_something_are_kept() -> None:
    spec = varint(1 << 3) + varint(0) + varint(7 << 3) + varint(0)  # replicas: 0, paused: false
    tree = protobuf.decode(object_type("apps_v1", "Deployment"), part(2, spec))
    assert tree == {"spec": {"replicas": 0}}


def test_parts_that_json_inlines() -> None:
    empty_dir = part(2, part(2, b""))  # volumeSource.emptyDir
    volume = part(1, b"v") + empty_dir
    tree = protobuf.decode(object_type("core_v1", "PodSpec"), part(1, volume))
    assert tree == {"volumes": [{"name": "v", "emptyDir": {}}]}


def test_types_that_are_texts_in_json() -> None:
    negative = varint(1 << 3) + varint(-1)
    cases: list[tuple[Type, bytes, Any]] = [
        (Scalar.QUANTITY, part(1, b"100m"), "100m"),
        (Scalar.TIME, varint(1 << 3) + varint(1), "1970-01-01T00:00:01Z"),
        (Scalar.TIME, negative, "1969-12-31T23:59:59Z"),
        (Scalar.TIME, b"", None),
        (Scalar.INT_OR_STRING, varint(1 << 3) + varint(1) + part(3, b"25%"), "25%"),
        (Scalar.INT_OR_STRING, varint(2 << 3) + varint(7), 7),
        (Scalar.OBJECT, part(1, b'{"f:a":{}}'), {"f:a": {}}),
        (Scalar.BYTES, b"\xff", "/w=="),
    ]
    for type, data, expected in cases:
        assert protobuf._value(type, 2, data, 0) == expected


def test_the_table_of_numbers_fits_the_models() -> None:
    """Whatever has a number is a field of the models', under the same name."""
    seen: set[ObjectType] = set()
    for resource in builtin_registry():
        assert resource.type is not None
        collect(resource.type, seen)
    known = [type for type in seen if wire_fields(f"{type.module}.{type.name}") is not None]
    assert len(known) > 400
    strangers = {
        f"{type}.{name}"
        for type in known
        for name in numbered(f"{type.module}.{type.name}") - set(type.fields)
    }
    assert not strangers


def collect(type: Type, seen: set[ObjectType]) -> None:
    """A type and those inside it."""
    if isinstance(type, ListOf):
        collect(type.item, seen)
    elif isinstance(type, MapOf):
        collect(type.value, seen)
    elif isinstance(type, ObjectType) and type not in seen:
        seen.add(type)
        for field in type.fields.values():
            collect(field.type, seen)


def numbered(name: str) -> set[str]:
    found = set()
    for field in wire_fields(name) or ():
        found |= numbered(field.part) if field.part else {field.name}
    return found


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    try:
        tree = protobuf.decode(POD, data)
    except protobuf.ProtobufError:
        return
    json.dumps(tree)
