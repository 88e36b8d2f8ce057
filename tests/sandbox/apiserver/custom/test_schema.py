"""Schemas: what they make of any value, and what is no schema."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.go_regexp import PatternError, compile_pattern
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.custom import schema_check
from mooring.sandbox.apiserver.custom.formats import format_of
from mooring.sandbox.apiserver.custom.pruning import TooManyDefaultsError, drop_nulls, fill_in, prune
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.custom.schema_check import check
from tests.sandbox.apiserver.custom.scenes import TEXT, Tree, definition, objects, spec
from tests.sandbox.apiserver.kit import Direct

_SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "abc"]) | st.just(0.5)
_WORDS = st.sampled_from(
    ["type", "properties", "items", "additionalProperties", "anyOf", "not", "default", "enum", "required",
     "pattern", "object", "array", "metadata", "kind", "a", "b", "x-kubernetes-list-type",
     "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string", "x-kubernetes-validations"]
)  # fmt: skip
ANYTHING = st.recursive(
    _SCALARS | _WORDS,
    lambda held: st.lists(held, max_size=3) | st.dictionaries(_WORDS, held, max_size=4),
    max_leaves=12,
)


def _nodes(held: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "array", "string", "integer", "number", "boolean"])},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), held, max_size=2),
            "items": held,
            "additionalProperties": held,
            "nullable": st.booleans(),
            "default": _SCALARS,
            "enum": st.lists(_SCALARS, min_size=1, max_size=2),
            "required": st.just(["a"]),
            "anyOf": st.just([{"required": ["a"]}, {"minLength": 1}]),
            "x-kubernetes-list-type": st.sampled_from(["atomic", "set"]),
            "x-kubernetes-preserve-unknown-fields": st.just(True),
        },
    )


SCHEMAS = st.recursive(_nodes(st.just(TEXT)), _nodes, max_leaves=6)


@given(SCHEMAS, ANYTHING)
def test_what_was_brought_into_form_stays_as_it_is(tree: Tree, value: Any) -> None:
    schema = Schema(tree)
    drop_nulls(value, schema)
    prune(value, schema)
    assert prune(value, schema) == []
    fill_in(value, schema)
    once = deepcopy(value)
    fill_in(value, schema)
    assert value == once
    assert check(schema, value, "", value) == []  # what did not change is not complained of


def test_defaults_are_bounded() -> None:
    item = {"type": "object", "properties": {"a": {"type": "string", "default": "x" * 1000}}}
    schema = Schema({"type": "array", "items": item})
    value: list[Tree] = [{} for _ in range(3000)]
    fill_in(value, schema)
    assert value[-1] == {"a": "x" * 1000}
    with pytest.raises(TooManyDefaultsError):
        fill_in([{} for _ in range(4000)], schema)


@settings(max_examples=60, deadline=None)
@given(st.one_of(ANYTHING, SCHEMAS), ANYTHING, st.sampled_from(["Strict", "Warn", "Ignore"]))
def test_no_definition_and_no_object_is_too_odd_to_be_answered(
    schema: Any, value: Any, validation: str
) -> None:
    direct = Direct()
    parts = {"subresources": {"status": {}}, "schema": {"openAPIV3Schema": objects(spec=schema)}}
    body = definition("Odd", None, **parts)
    where = {"group": "apiextensions.k8s.io", "fieldValidation": validation}
    try:
        direct.tree("create", "customresourcedefinitions", body=body, **where)
        where["group"] = "example.com"
        odd = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "a"}}
        direct.tree("create", "odds", body={**odd, "spec": value}, **where)
        merge = "application/merge-patch+json"
        direct.tree("patch", "odds", "a", {"status": value}, content_type=merge, **where)
    except ApiError as error:
        if error.code not in (400, 422):
            raise


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (spec(a={"minLength": "x"}), "cannot unmarshal string into Go struct field JSONSchemaProps"),
        (spec(a=5), "cannot unmarshal number"),
        (spec(a={"type": "array", "items": {"type": 5}}), "cannot unmarshal number"),
        (spec(a={"type": "object", "additionalProperties": "x"}), "cannot unmarshal string"),
    ],
)
def test_types_in_schemas_are_looked_at_however_deep(direct: Direct, schema: Tree, message: str) -> None:
    with pytest.raises(ApiError, match=message) as caught:
        direct.tree(
            "create",
            "customresourcedefinitions",
            body=definition("Bad", schema),
            group="apiextensions.k8s.io",
        )
    assert caught.value.code == 400


def test_unknown_members_of_schemas_are_told_however_deep(direct: Direct) -> None:
    deep = spec(a={"type": "array", "items": {**TEXT, "nope": 1}})
    answer: Any = direct.ask(
        "create", "customresourcedefinitions", body=definition("Bad", deep), group="apiextensions.k8s.io"
    )
    path = "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.a.items.nope"
    assert answer.warnings == [f'unknown field "{path}"']


@pytest.mark.parametrize("depth", [50, 2000])
def test_what_nests_too_deeply_is_refused(direct: Direct, depth: int) -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    direct.tree(
        "create",
        "customresourcedefinitions",
        body=definition("Deep", objects(spec=free)),
        group="apiextensions.k8s.io",
    )
    opening = b'{"apiVersion":"example.com/v1","kind":"Deep","metadata":{"name":"a"},"spec":'
    body = opening + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    if depth == 50:
        direct.tree("create", "deeps", body=body, group="example.com")
    else:
        with pytest.raises(ApiError) as caught:
            direct.tree("create", "deeps", body=body, group="example.com")
        assert caught.value.code == 400


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [("^a$", "a", True), ("^a$", "a\n", False), (r"a\z", "a", True), ("[$]", "$", True), (r"\$", "$", True),
     (r"^\d$", "٣", False), ("b", "abc", True), ("[]$]", "]", True)],
)  # fmt: skip
def test_patterns_are_those_of_go(pattern: str, text: str, matches: bool) -> None:
    assert (compile_pattern(pattern).search(text) is not None) is matches


def test_patterns_that_would_backtrack_are_matched_in_linear_time() -> None:
    assert compile_pattern("^(a+)+$").search("a" * 5000 + "!") is None


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", "a{2000}", "("])
def test_patterns_that_go_rejects_are_rejected(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"^error parsing regexp: "):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("mac", "00:1a:2B:3c:4d:5e", "00:1a"),
        ("uuid4", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        ("hexcolor", "#fff", "#ffff"),
        ("k8s-short-name", "a-b", "A"),
        ("k8s-long-name", "a.b", "a_b"),
        ("date-time", "2020-01-01T23:59:59Z", "2020-01-01T24:00:00Z"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ("ssn", "111-11-1111", "1-1-1"),
        ("duration", "15.s" * 1000, "15.s" * 1000 + "x"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    found = format_of(name, "string")
    assert found is not None
    assert found.fits is not None
    assert found.fits(good)
    assert not found.fits(bad)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"anyOf": [{"required": [f"r{n}"]} for n in range(100)]}, {f"p{n}": 1 for n in range(1000)}),
        ({"items": {"enum": [{"n": n} for n in range(300)]}}, [{"n": 299}] * 300),
        ({"allOf": [{"pattern": f"^a*{n}?$"} for n in range(200)]}, "a" * 30_000),
        ({"not": {"not": {"oneOf": [{"required": [f"r{m}" for m in range(300)]}] * 300}}}, {}),
    ],
)
def test_values_with_too_many_alternatives_are_rejected(
    schema: Tree, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_check, "_MOST_STEPS", 20_000)
    causes = check(Schema(schema), value)
    assert causes[-1].message == "Forbidden: checking the value against its schema takes too long"


def test_texts_are_found_in_long_enumerations_at_once() -> None:
    texts = [f"t{n}" for n in range(20_000)]
    schema = Schema({"type": "array", "items": {"type": "string", "enum": texts}})
    assert check(schema, texts) == []
    assert [one.field for one in check(schema, [*texts, "other"])] == ["[20000]"]
