"""Patches: what differs between two objects, sent as a patch, makes one of the other; and limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.patches import merge_patch
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.kinds.codec import FieldValidation
from mooring.sandbox.apiserver.kinds.merge_keys import merging_of
from mooring.sandbox.apiserver.kinds.types import ListOf, ObjectType, object_type
from mooring.sandbox.apiserver.patches.json_patch import MOST_OPERATIONS, apply_json_patch, read_json_patch
from mooring.sandbox.apiserver.patches.strategic import apply_strategic_patch
from tests.sandbox.apiserver.kit import Direct
from tests.sandbox.apiserver.patch_replay import PATCHES, merge_difference
from tests.sandbox.apiserver.webs import webs

Tree = dict[str, Any]
DEPLOYMENT = object_type("apps_v1", "Deployment")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab/~", max_size=2),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), below, max_size=3)
    ),
    max_leaves=8,
)
documents = st.dictionaries(st.text("ab/~", max_size=2), json_values, max_size=3)


def copied(tree: Any) -> Any:
    return json.loads(json.dumps(tree))


def refusal(call: Callable[..., Any], *arguments: Any) -> tuple[int, str] | None:
    """How a call is refused, if it is."""
    try:
        call(*arguments)
    except ApiError as error:
        return error.code, error.reason
    return None


# ---- merge patches --------------------------------------------------------------------------------


@given(webs(), webs())
def test_a_merge_patch_of_the_difference_makes_the_other(old: Tree, new: Tree) -> None:
    assert merge_patch(old, merge_difference(old, new)) == new


# ---- strategic merge patches ----------------------------------------------------------------------


def strategic_difference(type: ObjectType, old: Tree, new: Tree) -> Tree:
    """The strategic merge patch that makes `new` of `old`, written as kubectl writes it."""
    patch: Tree = {name: None for name in old if name not in new}
    for name, value in new.items():
        before, field, merging = old.get(name), type.fields.get(name), merging_of(type, name)
        held = field.type if field is not None else None
        if before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            patch[name] = (
                strategic_difference(held, before, value)
                if isinstance(held, ObjectType)
                else (merge_difference(before, value))
            )
        elif isinstance(value, list) and isinstance(before, list) and "merge" in merging.patch_strategy:
            if merging.merge_key:
                assert isinstance(held, ListOf)
                assert isinstance(held.item, ObjectType)
                patch |= _keyed_difference(held.item, name, merging.merge_key, before, value)
            else:
                patch[name] = [item for item in value if item not in before]
                patch[f"$deleteFromPrimitiveList/{name}"] = [item for item in before if item not in value]
                patch[f"$setElementOrder/{name}"] = value
        else:
            patch[name] = value
    return patch


def _keyed_difference(type: ObjectType, name: str, key: str, old: list[Tree], new: list[Tree]) -> Tree:
    before = {item[key]: item for item in old}
    items = [
        {**strategic_difference(type, before.get(item[key], {}), item), key: item[key]}
        for item in new
        if before.get(item[key]) != item
    ]
    gone = [{key: value, "$patch": "delete"} for value in before if value not in [item[key] for item in new]]
    return {name: items + gone, f"$setElementOrder/{name}": [{key: item[key]} for item in new]}


@given(webs(), webs())
def test_a_strategic_patch_of_the_difference_makes_the_other(old: Tree, new: Tree) -> None:
    patch = strategic_difference(DEPLOYMENT, old, new)
    before, sent = copied(old), copied(patch)
    result = apply_strategic_patch(DEPLOYMENT, patch, old)
    assert without_empty(result) == without_empty(new)
    assert (old, patch) == (before, sent), "neither is changed"


def without_empty(tree: Any) -> Any:
    """What reading the object as one of its kind does with nulls and empty lists."""
    if isinstance(tree, dict):
        found = {name: without_empty(value) for name, value in tree.items()}
        return {name: value for name, value in found.items() if value is not None and value not in ({}, [])}
    return [without_empty(item) for item in tree] if isinstance(tree, list) else tree


@given(webs(), documents)
def test_no_patch_at_all_breaks_the_server(old: Tree, patch: Tree) -> None:
    nasty = {"spec": {"$patch": patch.get("a"), "$setElementOrder/template": [patch]}, "metadata": patch}
    for sent in (patch, nasty, {"metadata": {"finalizers": [patch], "$deleteFromPrimitiveList/x": patch}}):
        assert refusal(apply_strategic_patch, DEPLOYMENT, sent, old) in (None, (400, "BadRequest"))


# ---- JSON patches ---------------------------------------------------------------------------------


def json_difference(path: str, old: Any, new: Any) -> list[Tree]:
    """The JSON patch that makes `new` of `old`; it tests what it changes."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [{"op": "test", "path": path, "value": old}, {"op": "replace", "path": path, "value": new}]
    operations: list[Tree] = []
    for name in {**old, **new}:
        below = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in new:
            operations.append({"op": "remove", "path": below})
        elif name not in old:
            operations.append({"op": "add", "path": below, "value": new[name]})
        elif old[name] != new[name] or isinstance(old[name], bool) != isinstance(new[name], bool):
            operations += json_difference(below, old[name], new[name])
    return operations


@given(documents, documents)
def test_a_json_patch_of_the_difference_makes_the_other(old: Tree, new: Tree) -> None:
    operations, problems = read_json_patch(json_difference("", old, new), FieldValidation.STRICT)
    assert problems == []
    assert apply_json_patch(operations, copied(old)) == new


@given(documents, st.lists(st.fixed_dictionaries({}, optional={
    "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "no"]),
    "path": st.sampled_from(["", "/", "/a", "/a/0", "/a/-", "/a/b", "/b/-1", "a", "/~0", "/a/99999999999"]),
    "from": st.sampled_from(["", "/a", "/a/0", "/b", "x"]),
    "value": json_values,
}), max_size=5))  # fmt: skip
def test_a_json_patch_applies_or_is_refused(document: Tree, operations: list[Tree]) -> None:
    assert refusal(apply_json_patch, operations, document) in (None, (422, "Invalid"))


@pytest.mark.parametrize(("found", "tested"), [(True, 1), (1, 1.0), ("1", 1), ({}, []), (None, False)])
def test_values_that_look_alike_are_told_apart(found: Any, tested: Any) -> None:
    with pytest.raises(ApiError):
        apply_json_patch([{"op": "test", "path": "/a", "value": tested}], {"a": found})


def test_the_number_of_operations_is_bounded() -> None:
    operation = {"op": "test", "path": "/a", "value": 1}
    read_json_patch([operation] * MOST_OPERATIONS, FieldValidation.WARN)
    with pytest.raises(ApiError) as caught:
        read_json_patch([operation] * (MOST_OPERATIONS + 1), FieldValidation.WARN)
    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")


def test_what_is_copied_is_bounded() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 40
    with pytest.raises(ApiError) as caught:
        apply_json_patch(doubling, {"a": ["x" * 100]})
    assert caught.value.code == 422


# ---- through the server ---------------------------------------------------------------------------


def test_bodies_that_nest_without_end_are_refused(direct: Direct) -> None:
    direct.ask("create", "configmaps", body={"metadata": {"name": "a"}})
    for content_type in PATCHES.values():
        for depth in (900, 100_000):
            with pytest.raises(ApiError) as caught:
                direct.ask(
                    "patch",
                    "configmaps",
                    "a",
                    b'{"metadata":{"labels":' * depth + b"{}" + b"}}" * depth,
                    content_type=content_type,
                    fieldManager="m",
                )
            assert 400 <= caught.value.code < 500


def test_types_that_are_not_offered(direct: Direct) -> None:
    direct.ask("create", "configmaps", body={"metadata": {"name": "a"}})
    with pytest.raises(ApiError) as caught:
        direct.ask("patch", "configmaps", "a", {}, content_type="application/json")
    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")


def test_a_patch_is_read_case_insensitively_and_without_parameters(direct: Direct) -> None:
    direct.ask("create", "configmaps", body={"metadata": {"name": "a"}})
    content_type = "Application/Merge-Patch+JSON; charset=utf-8"
    patched = direct.tree("patch", "configmaps", "a", {"data": {"x": "y"}}, content_type=content_type)
    assert patched["data"] == {"x": "y"}
