"""Server-side apply: who owns what, whatever is applied in whatever order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.api.kinds import PODS
from mooring.client.api_errors import ApiError
from mooring.client.port import PatchType
from mooring.sandbox.apiserver.fields.managers import manager_name, updater
from mooring.sandbox.apiserver.fields.sets import paths
from mooring.sandbox.apiserver.kinds.merge_keys import is_atomic, merging_of
from mooring.sandbox.apiserver.kinds.types import ListOf, MapOf, ObjectType, Type, object_type
from mooring.sandbox.apiserver.port import EmbeddedCluster
from tests.sandbox.apiserver.kit import Direct, pod
from tests.sandbox.apiserver.webs import webs

Tree = dict[str, Any]
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
DEPLOYMENT = object_type("apps_v1", "Deployment")


def apply_map(direct: Direct, manager: str, data: Tree, **params: str) -> Tree:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
    return direct.tree("patch", "configmaps", "a", config, content_type=APPLY, fieldManager=manager, **params)


def owned(tree: Tree) -> dict[str, set[tuple[str, ...]]]:
    """What each manager owns; appliers by their name, others with a star."""
    entries = tree["metadata"].get("managedFields", ())
    return {
        entry["manager"] + ("" if entry["operation"] == "Apply" else "*"): set(paths(entry["fieldsV1"]))
        for entry in entries
    }


# ---- any Deployment -------------------------------------------------------------------------------


def applied_to(direct: Direct, web: Tree) -> Tree:
    config = {"apiVersion": "apps/v1", "kind": "Deployment", **web}
    return direct.tree(
        "patch", "deployments", "web", config, group="apps", content_type=APPLY, fieldManager="m"
    )


def leaves(type: Type, value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The fields that a configuration names, told anew: members down to scalars and atomic values."""
    if isinstance(type, ObjectType):
        found = set()
        for name, held in value.items():
            below, field = (*path, f"f:{name}"), type.fields[name].type
            merging = merging_of(type, name)
            inner = field if isinstance(field, ObjectType) else None
            if isinstance(field, ListOf) and merging.list_type != "atomic":
                found |= items(field, merging.map_keys, held, below)
            elif isinstance(field, ObjectType | MapOf) and not is_atomic(type, name, inner):
                found |= leaves(field, held, below)
            else:
                found.add(below)
        return found
    assert isinstance(type, MapOf)
    return {(*path, f"f:{name}") for name in value}


def items(
    type: ListOf, keys: tuple[str, ...], held: list[Any], path: tuple[str, ...]
) -> set[tuple[str, ...]]:
    found = set()
    for item in held:
        if not keys:
            found.add((*path, f'v:"{item}"'))
            continue
        known = {"protocol": "TCP", **item}
        told = ",".join(
            f'"{key}":{known[key] if isinstance(known[key], int) else f"{chr(34)}{known[key]}{chr(34)}"}'
            for key in sorted(keys)
        )
        below = (*path, f"k:{{{told}}}")
        found |= {below} | leaves(type.item, item, below)
    return found


def whole(web: Tree) -> Tree:
    """A Deployment that passes validation; finalizers and labels get proper names."""
    spec = web["spec"]
    metadata = {**web["metadata"]}
    if "finalizers" in metadata:
        metadata["finalizers"] = [f"x.y/{name}" for name in metadata["finalizers"]]
    template = {**spec["template"], "metadata": {"labels": {"app": "web"}}}
    return {
        "metadata": metadata,
        "spec": {**spec, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


@settings(max_examples=25, deadline=None)
@given(webs())
def test_a_manager_owns_exactly_what_it_applied(web: Tree) -> None:
    config = whole(web)
    made = applied_to(Direct(), config)
    unowned = {("f:metadata", "f:name")}
    assert owned(made) == {"m": leaves(DEPLOYMENT, config) - unowned}


@settings(max_examples=25, deadline=None)
@given(webs(), webs())
def test_applying_again_changes_nothing(first: Tree, second: Tree) -> None:
    direct = Direct()
    applied_to(direct, whole(first))
    changed = applied_to(direct, whole(second))
    direct.clock.advance(10)
    assert applied_to(direct, whole(second)) == changed
    fresh = applied_to(Direct(), whole(second))
    assert changed["spec"]["template"]["spec"] == fresh["spec"]["template"]["spec"], "nothing is left behind"
    assert changed["metadata"].get("labels") == fresh["metadata"].get("labels")
    assert owned(changed) == owned(fresh)


# ---- a model of a flat map ------------------------------------------------------------------------

managers = st.sampled_from(["one", "two", "three"])
some_data = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["1", "2"]), max_size=3)


class Managers(RuleBasedStateMachine):
    """Appliers and an updater of one ConfigMap, against what the documentation says of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.direct = Direct()
        self.data: dict[str, str] = {}
        self.owners: dict[str, set[str]] = {}
        labelled = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"l": "v"}}}
        self.direct.ask("patch", "configmaps", "a", labelled, content_type=APPLY, fieldManager="labeller")

    @rule(manager=managers, data=some_data, force=st.booleans())
    def apply(self, manager: str, data: Tree, force: bool) -> None:
        conflicts = {
            key
            for key, value in data.items()
            if self.data.get(key, value) != value and self.owners[key] - {manager}
        }
        if conflicts and not force:
            with pytest.raises(ApiError) as caught:
                apply_map(self.direct, manager, data)
            told = {cause["field"] for cause in caught.value.details["causes"]}
            assert (caught.value.code, told) == (409, {f".data.{key}" for key in conflicts})
            return
        for key in [key for key, owners in self.owners.items() if manager in owners and key not in data]:
            self._give_up(manager, key)
        for key, value in data.items():
            taken = self.data.get(key, value) != value
            self.owners[key] = {manager} if taken else self.owners.get(key, set()) | {manager}
            self.data[key] = value
        apply_map(self.direct, manager, data, force="true")

    def _give_up(self, manager: str, key: str) -> None:
        self.owners[key].discard(manager)
        if not self.owners[key]:
            del self.owners[key], self.data[key]

    @rule(key=st.sampled_from(["a", "b", "c", "d"]), value=st.sampled_from(["1", "2", None]))
    def update(self, key: str, value: str | None) -> None:
        if value is None:
            self.owners.pop(key, None)
            self.data.pop(key, None)
        elif self.data.get(key) != value:
            self.data[key], self.owners[key] = value, {"editor*"}
        patch = {"data": {key: value}}
        self.direct.ask("patch", "configmaps", "a", patch, content_type=MERGE, fieldManager="editor")

    @invariant()
    def everybody_owns_what_they_should(self) -> None:
        tree = self.direct.tree("get", "configmaps", "a")
        assert tree.get("data", {}) == self.data
        found = {
            (who, path[1][2:])
            for who, fields in owned(tree).items()
            for path in fields
            if path[0] == "f:data" and len(path) == 2
        }
        expected = {(who, key) for key, owners in self.owners.items() for who in owners}
        assert found == expected


TestManagers = Managers.TestCase
TestManagers.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)


# ---- particular cases -----------------------------------------------------------------------------


def test_times_move_only_with_the_object(direct: Direct) -> None:
    apply_map(direct, "one", {"a": "1"})
    direct.clock.advance(5)
    same = apply_map(direct, "one", {"a": "1"})
    assert same["metadata"]["managedFields"][0]["time"] == "2030-01-01T00:00:00Z"
    changed = apply_map(direct, "one", {"a": "2"})
    assert changed["metadata"]["managedFields"][0]["time"] == "2030-01-01T00:00:05Z"
    assert changed["metadata"]["resourceVersion"] != same["metadata"]["resourceVersion"]


def test_a_dry_run_takes_nothing(direct: Direct) -> None:
    apply_map(direct, "one", {"a": "1"})
    dry = apply_map(direct, "two", {"a": "2"}, force="true", dryRun="All")
    assert owned(dry) == {"two": {("f:data", "f:a")}}
    assert owned(direct.tree("get", "configmaps", "a")) == {"one": {("f:data", "f:a")}}


def test_several_conflicts_are_told_by_manager(direct: Direct) -> None:
    apply_map(direct, "one", {"a": "1", "b": "1"})
    apply_map(direct, "two", {"c": "1"})
    with pytest.raises(ApiError) as caught:
        apply_map(direct, "three", {"a": "2", "b": "2", "c": "2"})
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .data.a\n- .data.b\n'
        'conflicts with "two":\n- .data.c'
    )


TWICE = b"""apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  x: "1"
  y: "2"
  x: "3"
"""


@pytest.mark.parametrize(("body", "line"), [(TWICE, 7), (
    b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"3"}}', 1,
)])  # fmt: skip
def test_keys_that_a_configuration_sets_twice_are_reported(direct: Direct, body: bytes, line: int) -> None:
    def apply(validation: str) -> Any:
        params = {"fieldManager": "m", "fieldValidation": validation}
        return direct.ask("patch", "configmaps", "a", body, content_type=APPLY, **params)

    problem = f'line {line}: key "x" already set in map'
    with pytest.raises(ApiError) as caught:
        apply("Strict")
    assert (caught.value.code, caught.value.message) == (
        400,
        f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {problem}",
    )
    assert apply("Warn").warnings == [problem]
    assert apply("Ignore").warnings == []
    assert direct.tree("get", "configmaps", "a")["data"]["x"] == "3"


def test_what_admission_and_defaults_add_is_nobodys(direct: Direct) -> None:
    config = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    made = direct.tree("patch", "namespaces", "n", config, content_type=APPLY, fieldManager="m")
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert owned(made) == {}


def test_binding_a_pod_gives_nobody_its_node(direct: Direct) -> None:
    direct.ask("create", "pods", body=pod("p"))
    before = owned(direct.tree("get", "pods", "p"))
    direct.ask(
        "create", "pods", "p", {"metadata": {"name": "p"}, "target": {"name": "n"}}, subresource="binding"
    )
    bound = direct.tree("get", "pods", "p")
    assert bound["spec"]["nodeName"] == "n"
    assert owned(bound) == before


def test_writers_in_this_process_may_go_untracked(direct: Direct) -> None:
    direct.store.soon = lambda flush: flush()
    quick = EmbeddedCluster(direct.api, tracked=False)
    asyncio.run(quick.create(PODS, pod("quick"), "default"))
    direct.ask("patch", "pods", "quick", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert owned(direct.tree("get", "pods", "quick")) == {}, "nobody is known until somebody applies"
    direct.ask("create", "pods", body=pod("known"))
    asyncio.run(quick.patch(PODS, "known", {"metadata": {"labels": {"a": "b"}}}, "default"))
    known = direct.tree("get", "pods", "known")
    assert known["metadata"]["labels"] == {"a": "b"}
    assert list(owned(known)) == ["test*"]
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "quick", "labels": {"c": "d"}}}
    applied = direct.tree("patch", "pods", "quick", config, content_type=APPLY, fieldManager="late")
    assert ("f:spec", "f:containers", 'k:{"name":"c"}', "f:image") in owned(applied)["before-first-apply*"]
    assert owned(applied)["late"] == {("f:metadata", "f:labels", "f:c")}


def test_the_port_applies_in_its_own_name(direct: Direct) -> None:
    direct.store.soon = lambda flush: flush()
    cluster = EmbeddedCluster(direct.api)
    direct.ask("create", "pods", body=pod("p"))
    direct.ask("patch", "pods", "p", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "c"}}}
    applied = asyncio.run(cluster.patch(PODS, "p", config, "default", kind=PatchType.APPLY))
    assert applied.metadata.labels == {"a": "c"}
    assert owned(direct.tree("get", "pods", "p"))["mooring"] == {("f:metadata", "f:labels", "f:a")}


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1.36.0 (linux)", "kubectl"),
        ("", "unknown"),
        ("a\x00b\u200bc/1", "abc"),
        ("ü" * 99, "ü" * 64),
    ],
)
def test_managers_without_a_name_are_called_after_their_program(agent: str, manager: str) -> None:
    assert updater(manager_name(agent), "v1", "").name == manager


def test_fields_are_shown_in_order(direct: Direct) -> None:
    fields = apply_map(direct, "m", {"b": "1", "a": "2"})["metadata"]["managedFields"][0]["fieldsV1"]
    assert list(fields["f:data"]) == ["f:a", "f:b"]
