"""The short way for replicas leads where the long one does, and is taken where it may be."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.kinds import PODS
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver import EmbeddedServer
from mooring.sandbox.apiserver.http.negotiation import PLAIN
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.verbs.request import ObjectAnswer, TreeAnswer
from tests.sandbox.apiserver.kit import Direct, pod

SPECS: list[Tree] = [
    {},
    {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]},
    {"priorityClassName": "high"},
    {"nodeName": "n"},
    {"schedulingGates": [{"name": "g"}]},
    {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
    {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"a": "b"}},
                "matchLabelKeys": ["c"],
            }
        ]
    },
    {"containers": [{"name": "Bad", "image": "i"}]},
    {"containerz": []},
]
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
METADATA: list[Tree] = [
    {},
    {"labels": {"c": "d"}},
    {"labels": {"c": "e"}},
    {"labels": {"-": "e"}},
    {"annotations": {"a": "b"}},
    {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "much"}},
    {"annotations": {"kubernetes.io/config.mirror": "x"}},
    {"ownerReferences": [OWNER]},
    {"finalizers": ["a.b/c"]},
    {"namespace": "other"},
    {"resourceVersion": "1"},
    {"uid": "mine"},
    {"generateName": "g-"},
    {"lable": "a"},
]
OTHERS: list[tuple[str, str, str, Tree]] = [
    ("scheduling.k8s.io", "priorityclasses", "", {"metadata": {"name": "high"}, "value": 7}),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        "",
        {"metadata": {"name": "all"}, "value": 3, "globalDefault": True},
    ),
    (
        "",
        "limitranges",
        "default",
        {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "default": {"cpu": "2"}}]}},
    ),
    (
        "",
        "limitranges",
        "kube-public",
        {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}},
    ),
]
steps = st.one_of(
    st.tuples(
        st.just("pod"),
        st.sampled_from(SPECS),
        st.sampled_from(METADATA),
        st.sampled_from(["p", "q", "", "Bad"]),
        st.sampled_from(["default", "kube-public", "none"]),
        st.sampled_from(["Ignore", "Warn", "Strict"]),
    ),
    st.tuples(st.sampled_from(["create", "delete"]), st.sampled_from(OTHERS)),
)


class Side:
    """A server, with or without the fast path."""

    def __init__(self, *, short: bool) -> None:
        self.direct = Direct()
        pods = self.direct.api.registry.find("", "v1", "pods")
        assert pods is not None
        self._encoded = 0
        if not short:
            pods.strategy.outcomes = None
        select = pods.strategy.select

        def counting(obj: Tree) -> tuple[str, ...]:
            self._encoded += 1
            return select(obj)

        pods.strategy.select = counting  # type: ignore[method-assign]

    @property
    def taken(self) -> int:
        """How many pods were stored without being encoded as a whole."""
        return len(self.direct.store.table("pods").records) - self._encoded

    def ask(self, *args: Any, validation: str = "Ignore", **kwargs: Any) -> tuple[Any, ...]:
        try:
            answer = self.direct.ask(*args, fieldValidation=validation, **kwargs)
        except ApiError as error:
            return (error.code, error.message.partition("g-")[0])
        if isinstance(answer, TreeAnswer):
            return (200, answer.tree)
        assert isinstance(answer, ObjectAnswer)
        tree = json.loads(PLAIN.single(answer.resource, answer.record))
        tree["metadata"].pop("uid", None)
        if "generateName" in tree["metadata"]:
            tree["metadata"]["name"] = "generated"
        return (200, tree, answer.warnings)

    def do(self, number: int, step: tuple[Any, ...]) -> tuple[Any, ...]:
        if step[0] == "pod":
            _, spec, metadata, name, *rest = step
            namespace = rest[0] if rest else "default"
            validation = rest[1] if len(rest) > 1 else "Ignore"
            named = {"name": f"{name}{number}"} if name and "generateName" not in metadata else {}
            body = encode_json({**pod("", **spec), "metadata": {**named, **metadata}})
            return self.ask("create", "pods", body=body, namespace=namespace, validation=validation)
        verb, (group, plural, namespace, body) = step
        if verb == "create":
            return self.ask("create", plural, body=body, group=group, namespace=namespace)
        return self.ask("delete", plural, body["metadata"]["name"], group=group, namespace=namespace)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=25))
def test_both_ways_lead_to_the_same(told: list[tuple[Any, ...]]) -> None:
    short, long = Side(short=True), Side(short=False)
    for number, step in enumerate(told):
        assert short.do(number, step) == long.do(number, step)
    assert len(short.direct.store.table("pods")) == len(long.direct.store.table("pods"))


@pytest.mark.parametrize("metadata", [{}, {"labels": {"a": "b"}}, {"ownerReferences": [OWNER]}])
@pytest.mark.parametrize("validation", ["Ignore", "Warn", "Strict"])
def test_replicas_take_it_from_the_third_on(metadata: Tree, validation: str) -> None:
    side = Side(short=True)
    for number in range(5):
        code, made, warnings = side.do(number, ("pod", SPECS[1], metadata, "p", "default", validation))
        assert (code, warnings) == (200, [])
        assert made["spec"]["tolerations"]
        assert made["metadata"]["managedFields"][0]["manager"] == "test"
    assert side.taken == 3


@pytest.mark.parametrize(
    "metadata", [{}, {"generateName": "G_"}, {"generateName": "g-", "labels": {"a b": ""}}]
)
def test_a_replica_whose_metadata_is_wrong_is_refused_though_those_before_were_not(metadata: Tree) -> None:
    async def act() -> None:
        async with EmbeddedServer() as server:
            cluster = EmbeddedCluster(server.api, tracked=False)
            for _ in range(4):
                await cluster.create(PODS, {**pod(""), "metadata": {"generateName": "g-"}}, "default")
            with pytest.raises(ApiError) as refused:
                await cluster.create(PODS, {**pod(""), "metadata": metadata}, "default")
            assert refused.value.code == 422
            names = [one.name for one in (await cluster.list(PODS)).items]
            assert len(names) == 4
            assert all(name.startswith("g-") for name in names)

    asyncio.run(act())


def test_what_has_a_say_is_asked_again() -> None:
    side = Side(short=True)
    for number in range(3):
        side.do(number, ("pod", {}, {}, "p"))
    assert side.taken == 1
    side.do(0, ("create", OTHERS[1]))
    assert side.do(3, ("pod", {}, {}, "p"))[1]["spec"]["priority"] == 3
    assert side.do(4, ("pod", {}, {}, "p"))[1]["spec"]["priority"] == 3
    assert side.taken == 2
    assert side.do(4, ("pod", {}, {}, "p"))[0] == 409


def test_another_namespace_has_limits_of_its_own() -> None:
    side = Side(short=True)
    side.do(0, ("create", OTHERS[3]))
    for number in range(3):
        assert side.do(number, ("pod", SPECS[1], {}, "p"))[0] == 200
    assert side.do(3, ("pod", SPECS[1], {}, "p", "kube-public"))[0] == 403
    assert side.taken == 1


def test_bodies_that_differ_in_space_only_are_others() -> None:
    side = Side(short=True)
    for number in range(4):
        body = json.dumps(pod(f"p{number}"), indent=number)
        assert side.ask("create", "pods", body=body.encode())[0] == 200
    assert side.taken == 0


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        (b'{"metadata"', b'{"spec":{},"metadata"', 'duplicate field "spec"'),
        (b'"name":"p5"', b'"name":"x","name":"p5"', 'duplicate field "metadata.name"'),
        (b'"name":"p5"', b'"name":"p5","lable":"a"', 'unknown field "metadata.lable"'),
        (b'{"metadata"', b'{"more":1,"metadata"', 'unknown field "more"'),
        (b'{"metadata"', b'{"status":{"more":1},"metadata"', 'unknown field "status.more"'),
    ],
)
def test_fields_outside_the_spec_are_warned_of_as_ever(old: bytes, new: bytes, warning: str) -> None:
    side = Side(short=True)
    for number in range(5):
        assert side.do(number, ("pod", {}, {}, "p", "default", "Warn"))[0] == 200
    assert side.taken == 3
    body = encode_json(pod("p5")).replace(old, new)
    code, _, warnings = side.ask("create", "pods", body=body, validation="Warn")
    assert (code, warnings) == (200, [warning])
