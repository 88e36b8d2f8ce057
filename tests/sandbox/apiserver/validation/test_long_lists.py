"""Validating an object costs in proportion to what it holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.sandbox.apiserver.custom.definition_names import accept_names
from mooring.sandbox.apiserver.custom.schema_validation import check_schema
from mooring.sandbox.apiserver.errors import Cause, invalid
from mooring.sandbox.apiserver.validation.cluster import node_update
from mooring.sandbox.apiserver.validation.metadata import validate_metadata, validate_metadata_update
from mooring.sandbox.apiserver.validation.quotas import resource_quota
from tests.calls import growth
from tests.long_lists import LONG_SPECS, Spec
from tests.sandbox.apiserver.kit import Direct

SIZE = 200


def writing(spec: Spec) -> Callable[[], object]:
    """Create a pod, and change it."""
    direct = Direct()
    pod = {"metadata": {"name": "long"}, "spec": {"containers": [{"name": "main", "image": "app"}], **spec}}
    patch = {"metadata": {"labels": {"a": "b"}}}

    def run() -> None:
        direct.ask("create", "pods", body=pod)
        direct.ask("patch", "pods", "long", patch, content_type="application/merge-patch+json")

    return run


@pytest.mark.parametrize("kind", LONG_SPECS)
def test_the_work_is_linear_in_the_terms(kind: str) -> None:
    assert growth(lambda n: writing(LONG_SPECS[kind](n)), SIZE) < 2.3


class Compared(str):
    """Text that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_finalizers_of_a_deleted_object_are_compared_once() -> None:
    Compared.comparisons = 0
    old = {
        "finalizers": [Compared(f"example.com/a{number}") for number in range(500)],
        "deletionTimestamp": "",
    }
    new = {
        "finalizers": [Compared(f"example.com/b{number}") for number in range(500)],
        "deletionTimestamp": "",
    }
    causes = list(validate_metadata_update(new, old))
    assert "found new finalizers []string{" in causes[0].message
    assert Compared.comparisons < 2000


def test_errors_that_show_many_owners_are_few() -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "1", "controller": True}
    causes = validate_metadata({"name": "a", "ownerReferences": [owner] * 1000}, lambda name: ())
    assert len(causes) == 10


def test_errors_that_show_many_keys_are_one_error() -> None:
    keys = [f"key-{number}" for number in range(1000)]
    array = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
        "items": {"type": "object"},
    }
    schema = {"type": "object", "properties": {"list": array}}
    causes = [
        cause
        for cause in check_schema(schema, "schema", status=False)
        if "names of item properties" in cause.message
    ]
    assert len(causes) == 1000
    assert len({id(cause) for cause in causes}) == 1
    scopes = [f"scope-{number}" for number in range(1000)]
    assert len({id(cause) for cause in resource_quota({"spec": {"scopes": scopes}})}) == 1
    error = invalid("", "ConfigMap", "a", [Cause("FieldValueInvalid", "data", "x" * 1_000_000)] * 100)
    assert len(error.message) + len(str(error.details)) < 10_000_000


def test_names_of_definitions_are_compared_once() -> None:
    Compared.comparisons = 0
    names = [Compared(f"name{number}") for number in range(500)]
    others = [Compared(f"other{number}") for number in range(500)]
    accept_names({"shortNames": names}, {"shortNames": others}, [])
    assert Compared.comparisons < 2000


def test_addresses_of_a_node_are_compared_once() -> None:
    def checking(count: int) -> Callable[[], object]:
        addresses = [{"type": "InternalIP", "address": Compared(f"10.0.0.{n}")} for n in range(count)]
        node = {"metadata": {}, "spec": {}, "status": {"addresses": addresses}}
        return lambda: list(node_update(node, node))

    Compared.comparisons = 0
    checking(500)()
    assert Compared.comparisons < 2000
    doubled = {"type": "InternalIP", "address": "10.0.0.1"}
    node = {"metadata": {}, "spec": {}, "status": {"addresses": [doubled, doubled]}}
    assert [cause.field for cause in node_update(node, node)] == ["status.addresses[1]"]
