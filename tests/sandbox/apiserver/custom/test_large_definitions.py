"""Definitions with tens of thousands of properties cost little per property: other clients wait meanwhile.

Calls are counted rather than seconds, which depend on the machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from mooring.sandbox.apiserver.openapi.documents import OpenAPI
from tests.sandbox.apiserver.kit import Direct

GROUPS, MEMBERS = 60, 50
DEFINITIONS = {"group": "apiextensions.k8s.io", "plural": "customresourcedefinitions"}


def definition(leaf: dict[str, Any]) -> dict[str, Any]:
    members = {f"p{index}": leaf for index in range(MEMBERS)}
    groups = {f"a{index}": {"type": "object", "properties": members} for index in range(GROUPS)}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": groups}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "bigs", "kind": "Big"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "bigs.example.com"}, "spec": spec}


def count_calls(work: Callable[[], object]) -> float:
    """Return the calls of Python functions per property."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls / (GROUPS * MEMBERS)


@pytest.mark.parametrize("leaf", [{"type": "string"}, {"type": "integer", "maximum": 5, "description": "a"}])
def test_calls_per_property(direct: Direct, leaf: dict[str, Any]) -> None:
    body = json.dumps(definition(leaf), separators=(",", ":")).encode()
    openapi = OpenAPI(direct.api.registry, "v1.36.0")
    openapi.v2(protobuf=False)
    common = count_calls(lambda: OpenAPI(direct.api.registry, "v1.36.0").v2(protobuf=False))
    assert count_calls(lambda: direct.ask("create", body=body, **DEFINITIONS)) < 30
    assert count_calls(lambda: openapi.v2(protobuf=False)) < common + 5
    assert count_calls(lambda: openapi.v3("apis/example.com/v1")) < 5
    patch, merge = b'{"metadata":{"labels":{"a":"b"}}}', "application/merge-patch+json"
    name = {"name": "bigs.example.com"}
    assert (
        count_calls(lambda: direct.ask("patch", body=patch, content_type=merge, **name, **DEFINITIONS)) < 20
    )
    assert count_calls(lambda: direct.ask("delete", **name, **DEFINITIONS)) < 10
