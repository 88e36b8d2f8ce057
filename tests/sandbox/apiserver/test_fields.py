"""Sets of fields, and how two objects differ in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.sandbox.apiserver.builtin import builtin_registry
from mooring.sandbox.apiserver.fields.kind_shapes import shape_of, shape_of_schema
from mooring.sandbox.apiserver.fields.managers import Owned, cap, updater
from mooring.sandbox.apiserver.fields.merging import merge, remove, with_named_members
from mooring.sandbox.apiserver.fields.sets import (
    Fields,
    difference,
    has,
    intersection,
    of_path,
    only,
    path_text,
    paths,
    union,
    without,
)
from mooring.sandbox.apiserver.fields.shapes import Struct
from mooring.sandbox.apiserver.kinds import merge_keys
from mooring.sandbox.apiserver.kinds.types import ListOf, ObjectType, object_type
from tests.sandbox.apiserver.webs import webs

Path = tuple[str, ...]
Tree = dict[str, Any]


def fields_of(found: set[Path]) -> Fields:
    fields: Fields = {}
    for path in found:
        fields = union(fields, of_path(path))
    return fields


some_paths = st.sets(
    st.lists(st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"']), min_size=1, max_size=4).map(tuple),
    max_size=12,
)


# ---- sets -----------------------------------------------------------------------------------------


@given(some_paths)
def test_a_set_holds_what_was_put_in(found: set[Path]) -> None:
    fields = fields_of(found)
    assert set(paths(fields)) == found
    assert all(has(fields, path) for path in found)


@given(some_paths, some_paths)
def test_sets_of_fields_are_sets(one: set[Path], other: set[Path]) -> None:
    left, right = fields_of(one), fields_of(other)
    assert set(paths(union(left, right))) == one | other
    assert set(paths(intersection(left, right))) == one & other
    assert set(paths(difference(left, right))) == one - other
    assert difference(left, left) == {}
    assert union(left, right) == union(right, left)


@given(some_paths, some_paths)
def test_taking_fields_out_with_all_below_them(one: set[Path], other: set[Path]) -> None:
    left = without(fields_of(one), fields_of(other))
    assert set(paths(left)) == {
        path for path in one if not any(path[: len(taken)] == taken for taken in other)
    }


def test_patterns_admit_any_element() -> None:
    pattern: Fields = {"f:spec": {"f:containers": {"*": {"f:resources": {}}}}}
    fields = fields_of(
        {
            ("f:spec", "f:containers", 'k:{"name":"a"}'),
            ("f:spec", "f:containers", 'k:{"name":"a"}', "f:image"),
            ("f:spec", "f:containers", 'k:{"name":"a"}', "f:resources", "f:limits"),
            ("f:spec", "f:replicas"),
        }
    )
    assert set(paths(only(fields, pattern))) == {
        ("f:spec", "f:containers", 'k:{"name":"a"}'),
        ("f:spec", "f:containers", 'k:{"name":"a"}', "f:resources", "f:limits"),
    }


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:a", 'k:{"containerPort":80,"protocol":"TCP"}'), '.a[containerPort=80,protocol="TCP"]'),
        (("f:finalizers", 'v:"a/b"'), '.finalizers[="a/b"]'),
        (("f:list", "i:3"), ".list[3]"),
    ],
)
def test_paths_as_people_read_them(path: Path, text: str) -> None:
    assert path_text(path) == text


# ---- shapes ---------------------------------------------------------------------------------------


def shape(group: str, version: str, plural: str) -> Struct:
    resource = builtin_registry().find(group, version, plural)
    assert resource is not None
    return shape_of(resource)


DEPLOYMENT = shape("apps", "v1", "deployments")


def test_the_table_of_merge_keys_names_only_what_there_is() -> None:
    for name, merging in merge_keys._MERGING.items():
        module, type_name, field = name.split(".")
        type = object_type(module, type_name).fields[field].type
        if merging.map_keys or merging.merge_key:
            assert isinstance(type, ListOf), name
            assert isinstance(type.item, ObjectType), name
            assert set(merging.map_keys) | {merging.merge_key} - {""} <= set(type.item.fields), name
    for name in merge_keys._ATOMIC_TYPES:
        assert object_type(*name.split(".")).fields
    for name in merge_keys._ATOMIC_MAPS | merge_keys._GRANULAR:
        module, type_name, field = name.split(".")
        assert field in object_type(module, type_name).fields


def test_what_a_new_object_has() -> None:
    pod = {
        "metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {
            "containers": [{"name": "c", "resources": {}, "ports": [{"containerPort": 1}]}],
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "k"}],
            "affinity": {"nodeAffinity": {}},
        },
        "status": {"phase": "Pending"},
    }
    changes = shape("", "v1", "pods").difference({}, pod)
    assert changes.removed == {}
    assert set(paths(union(changes.added, changes.modified))) == {
        ("f:metadata", "f:labels"),
        ("f:metadata", "f:labels", "f:a"),
        ("f:metadata", "f:finalizers"),
        ("f:metadata", "f:finalizers", 'v:"x/y"'),
        ("f:spec", "f:containers", 'k:{"name":"c"}'),
        ("f:spec", "f:containers", 'k:{"name":"c"}', "f:name"),
        ("f:spec", "f:containers", 'k:{"name":"c"}', "f:resources"),
        ("f:spec", "f:containers", 'k:{"name":"c"}', "f:ports"),
        *(
            ("f:spec", "f:containers", 'k:{"name":"c"}', "f:ports", port, *rest)
            for port in ['k:{"containerPort":1,"protocol":"TCP"}']
            for rest in [(), ("f:containerPort",)]
        ),
        ("f:spec", "f:nodeSelector"),
        ("f:spec", "f:tolerations"),
        ("f:spec", "f:affinity"),
        ("f:spec", "f:affinity", "f:nodeAffinity"),
        ("f:status", "f:phase"),
    }


def test_items_that_stand_twice_count_as_one() -> None:
    twice = {"spec": {"template": {"spec": {"containers": [{"name": "c"}, {"name": "c", "image": "i"}]}}}}
    once = {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}
    container = ("f:spec", "f:template", "f:spec", "f:containers", 'k:{"name":"c"}')
    changes = DEPLOYMENT.difference(once, twice)
    assert set(paths(changes.added)) == {container}
    assert set(paths(changes.removed)) == {container, (*container, "f:name")}
    changes = DEPLOYMENT.difference(twice, once)
    assert set(paths(changes.removed)) == {container}


@given(webs(), webs())
def test_a_comparison_names_what_changed(old: Tree, new: Tree) -> None:
    changes = DEPLOYMENT.difference(old, new)
    found = [set(paths(fields)) for fields in changes]
    assert len(set.union(*found)) == sum(map(len, found)), "no field is in two of the sets"
    assert any(found) == (in_any_order(old) != in_any_order(new))
    back = DEPLOYMENT.difference(new, old)
    assert (back.removed, back.modified, back.added) == (changes.added, changes.modified, changes.removed)


def in_any_order(web: Tree) -> Any:
    """A Deployment without the order of its lists by key and sets, which belongs to nobody."""
    pods = web["spec"]["template"]["spec"]
    containers = {
        container["name"]: {
            **container,
            "env": {env["name"]: env for env in container.get("env", ())},
            "ports": {port["containerPort"]: port for port in container.get("ports", ())},
        }
        for container in pods["containers"]
    }
    finalizers = sorted(web["metadata"].get("finalizers", ()))
    rest = {"pods": {**pods, "containers": containers}, "spec": {**web["spec"], "template": None}}
    return {**rest, "metadata": {**web["metadata"], "finalizers": finalizers}}


@given(webs(), webs())
def test_a_merge_has_all_of_the_configuration(live: Tree, config: Tree) -> None:
    merged = merge(DEPLOYMENT, live, config)
    again = DEPLOYMENT.named(config)
    assert intersection(DEPLOYMENT.named(merged), again) == again
    assert merge(DEPLOYMENT, merged, config) == merged
    changes = DEPLOYMENT.difference(live, merged)
    assert changes.removed == {}
    touched = set(paths(union(changes.modified, changes.added)))
    allowed = set(paths(with_named_members(DEPLOYMENT, again)))
    assert touched <= allowed | {path[:-1] for path in allowed}


@given(webs())
def test_removing_all_that_is_named_leaves_nothing(web: Tree) -> None:
    named = with_named_members(DEPLOYMENT, DEPLOYMENT.named(web))
    assert remove(DEPLOYMENT, web, named) in (None, {"metadata": {"name": "web"}})
    assert remove(DEPLOYMENT, web, {}) == web


# ---- custom resources -----------------------------------------------------------------------------

SCHEMA: Tree = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "port": {"x-kubernetes-int-or-string": True},
                "rules": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "kind"],
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "kind": {"type": "string", "default": "plain"},
                            "on": {"type": "boolean"},
                        },
                    },
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "steps": {"type": "array", "items": {"type": "object"}},
                "limits": {"type": "object", "additionalProperties": {"type": "string"}},
                "ref": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"name": {"type": "string"}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
}


def test_custom_resources_have_the_shape_of_their_schema() -> None:
    custom = shape_of_schema(SCHEMA)
    config: Tree = {
        "metadata": {"name": "n", "labels": {"l": "v"}},
        "spec": {
            "size": 1,
            "port": "http",
            "rules": [{"name": "a"}],
            "tags": ["x"],
            "steps": [{}],
            "limits": {"cpu": "1"},
            "ref": {"name": "r"},
            "free": {"deep": {"er": [1]}},
        },
    }
    rule = 'k:{"kind":"plain","name":"a"}'
    assert set(paths(custom.named(config))) == {
        ("f:metadata", "f:labels", "f:l"),
        *(("f:spec", f"f:{name}") for name in ("size", "port", "steps", "ref")),
        ("f:spec", "f:rules", rule),
        ("f:spec", "f:rules", rule, "f:name"),
        ("f:spec", "f:tags", 'v:"x"'),
        ("f:spec", "f:limits", "f:cpu"),
        ("f:spec", "f:free", "f:deep"),
        ("f:spec", "f:free", "f:deep", "f:er"),
    }
    changed = {**config, "spec": {**config["spec"], "free": {"deep": 3}, "tags": ["y"]}}
    changes = custom.difference(config, changed)
    assert set(paths(changes.modified)) == {("f:spec", "f:free", "f:deep")}
    assert set(paths(changes.removed)) == {
        ("f:spec", "f:tags", 'v:"x"'),
        ("f:spec", "f:free", "f:deep", "f:er"),
    }
    assert set(paths(changes.added)) == {("f:spec", "f:tags", 'v:"y"')}


def test_thousands_of_managers_are_merged() -> None:
    managed = {
        updater(f"m{index}", "v1", ""): Owned("v1", {"f:data": {f"f:k{index}": {}}}, f"{index:04}")
        for index in range(3000)
    }
    capped = cap(managed)
    assert len(capped) == 10
    assert len(capped[updater("ancient-changes", "v1", "")].fields["f:data"]) == 2991
