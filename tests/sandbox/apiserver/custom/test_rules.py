"""Rules of custom resources that cost much: they are bounded, and other requests do not wait for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.sandbox.apiserver.answering import answer_request
from mooring.sandbox.apiserver.authorization.users import IN_PROCESS
from mooring.sandbox.apiserver.custom.escaping import escape
from mooring.sandbox.apiserver.custom.rule_evaluation import evaluate_rules
from mooring.sandbox.apiserver.custom.rule_values import TooCostlyError
from mooring.sandbox.apiserver.custom.rules import field_path, rule_tree
from mooring.sandbox.apiserver.objects import encode_json
from mooring.sandbox.apiserver.verbs.body import JSON
from mooring.sandbox.apiserver.verbs.request import Request
from tests.sandbox.apiserver.custom.rule_scenes.schemas import array, map_to, on_spec
from tests.sandbox.apiserver.custom.scenes import NUMBER, TEXT, definition, objects
from tests.sandbox.apiserver.kit import Direct

DEFINITIONS: Any = {"group": "apiextensions.k8s.io", "plural": "customresourcedefinitions"}
ALL_PAIRS = on_spec("self.l.all(x, self.l.all(y, x == y || x != y))", l=array(NUMBER, maxItems=1000))


def spec(items: int) -> dict[str, Any]:
    return {"spec": {"l": list(range(items))}}


def test_rules_are_evaluated_elsewhere_if_they_cost_more_than_allowed() -> None:
    tree = rule_tree(ALL_PAIRS)
    assert tree is not None
    assert not evaluate_rules(tree, spec(10), None, 5_000).causes
    with pytest.raises(TooCostlyError):
        evaluate_rules(tree, spec(40), None, 5_000)


def test_large_objects_are_converted_elsewhere() -> None:
    tree = rule_tree(on_spec("self.l.size() < 10000", l=array(NUMBER, maxItems=10_000)))
    assert tree is not None
    with pytest.raises(TooCostlyError):
        evaluate_rules(tree, spec(9_000), None, 5_000)


async def _answer(direct: Direct, body: dict[str, Any]) -> int:
    """Return how often other tasks had their turn while an object was created."""
    resource = direct.api.registry.of_kind(body["apiVersion"], body["kind"])
    assert resource is not None
    namespace = "default" if resource.namespaced else ""
    request = Request(
        direct.api, "create", resource, namespace, "", IN_PROCESS, body=encode_json(body), content_type=JSON
    )
    work = asyncio.create_task(answer_request(request))
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0.001)
    await work
    return turns


def test_other_requests_are_answered_meanwhile(direct: Direct) -> None:
    direct.ask("create", body=definition("Pair", ALL_PAIRS), **DEFINITIONS)
    body = {"apiVersion": "example.com/v1", "kind": "Pair", "metadata": {"name": "p"}, **spec(60)}
    assert asyncio.run(_answer(direct, body)) > 2


def test_long_rules_are_compiled_meanwhile(direct: Direct) -> None:
    schema = on_spec(*(f"self.a > {number} || self.a < {number * 2}" for number in range(200)), a=NUMBER)
    body = definition("Long", schema)
    assert asyncio.run(_answer(direct, body)) > 2
    body = {"apiVersion": "example.com/v1", "kind": "Long", "metadata": {"name": "p"}, "spec": {"a": 1}}
    assert asyncio.run(_answer(direct, body)) > 2


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("a", "a"),
        ("a-b.c/d__e", "a__dash__b__dot__c__slash__d__underscores__e"),
        ("in", "__in__"),
        ("1a", None),
    ],
)
def test_names(name: str, identifier: str | None) -> None:
    assert escape(name) == identifier


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (".a.b", "a.b"),
        ("['a']['b']", "a.b"),
        (".m['x\\'y']", "m[x'y]"),
        (".a.c", None),
        ("a", None),
        (".m[", None),
    ],
)
def test_paths(path: str, shown: str | None) -> None:
    assert field_path(path, objects(a=objects(b=TEXT), m=map_to(TEXT))) == shown
