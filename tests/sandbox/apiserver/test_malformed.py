"""Bodies that are wrong in any way are refused, nothing breaks: good requests with something odd in them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sandbox.apiserver.kit import USER, Running
from tests.sandbox.apiserver.patch_replay import PATCHES, Embedded, Step
from tests.sandbox.apiserver.write_replay import PAUSE, all_scenes, making_namespace

SCENES = all_scenes()
STEPS = [
    (scene, step) for scene, steps in SCENES.items() for step in steps if step.method in ("POST", "PATCH")
]
WORDS = (
    "", "-", "..", "/", "a/b/c", "a.b/c", "x" * 300, "9" * 5000, "9" * 4400 + "%", "1e999", "-1", "0",
    "1.5", "1n", "1Gi", "100%", "None", "é\u0000", "0/0 * * * *", "*/99999999999 * * * *", "10.96.0.1",
    "::ffff:1.2.3.4", "2020-13-45T99:99:99Z", "Always", "Never", "In", "Gt", "cpu", "hugepages-2Mi",
    "hugepages-x", "metadata.labels['a']", "ClusterIP", "NodePort", "ExternalName", "OnDelete", "Indexed",
)  # fmt: skip
NUMBERS = (0, 1, -1, 101, 65536, 2**31, 2**63 - 1, 2**63, -(2**70))
ANYTHING: tuple[Any, ...] = (
    None,
    True,
    1.5,
    "a",
    [],
    {},
    [None],
    [{}],
    [[]],
    {"a": None},
    {"a": "b"},
    {"": ""},
)


def odd(value: Any) -> st.SearchStrategy[Any]:
    """Something else in the place of a value: of its type, so that more than types is looked at, or not."""
    if isinstance(value, str):
        return st.sampled_from((*WORDS, *ANYTHING)) | st.text(max_size=8)
    if isinstance(value, int):
        return st.sampled_from((*NUMBERS, *ANYTHING))
    if isinstance(value, list):
        return st.sampled_from((value + value, value[:1] * 3, *ANYTHING))
    if isinstance(value, dict):
        return st.sampled_from(({**value, "zork": 1}, dict(list(value.items())[1:]), *ANYTHING))
    return st.sampled_from(ANYTHING)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every member and item."""
    found: list[tuple[Any, ...]] = []
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, member in members:
        found += [(*path, name), *places(member, (*path, name))]
    return found


@cache
def server(scene: str) -> Embedded:
    """A server to which all requests of a scene were made, so that patches find what they are for."""
    found = Embedded(USER)
    found.ask(making_namespace(scene))
    for step in SCENES[scene]:
        if step.method not in (PAUSE, "DELETE"):
            found.ask(step)
    return found


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_something_odd_in_a_good_request(data: st.DataObject) -> None:
    scene, step = data.draw(st.sampled_from(STEPS))
    body = json.loads(step.body or b"{}")
    for _ in range(data.draw(st.integers(1, 3))):
        found = places(body)
        if not found:
            break
        *parents, last = data.draw(st.sampled_from(found))
        holder = body
        for part in parents:
            holder = holder[part]
        holder[last] = json.loads(json.dumps(data.draw(odd(holder[last]))))
    answer = server(scene).ask(step._replace(body=json.dumps(body).encode()))  # what is no refusal is raised
    assert answer.code < 500, answer.tree


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(STEPS),
    st.binary(max_size=40) | st.sampled_from([b"{}", b"[]", b"null", b'"a"', b"[" * 3000]),
    st.sampled_from(["", "application/json", *PATCHES.values()]),
)
def test_bodies_that_are_no_objects(chosen: tuple[str, Step], body: bytes, content_type: str) -> None:
    scene, step = chosen
    answer = server(scene).ask(step._replace(body=body, content_type=content_type))
    assert answer.code < 500, answer.tree


def test_a_refusal_can_be_written() -> None:
    """Messages quote what was sent, whatever it is."""
    body = b'{"metadata": {"name": "\\u0000\\ud83d\\ude00", "labels": {"\\u0007": "\\\\"}}}'
    answer = server("configuration").ask(Step("POST", "/api/v1/namespaces", "application/json", body, ""))
    assert answer.code == 422
    assert json.loads(json.dumps(answer.tree)) == answer.tree


DEPLOYMENTS, PODS, SERVICES, MAPS = (
    "/apis/apps/v1/namespaces/default/deployments",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/configmaps",
)


@pytest.mark.parametrize(
    ("path", "spec", "values", "field"),
    [
        (
            DEPLOYMENTS,
            '{"replicas":%s}',
            ("18446744073709551617", "2147483648", "1.5", "1e400"),
            "DeploymentSpec.spec.replicas of type int32",
        ),
        (
            PODS,
            '{"securityContext":{"runAsUser":%s}}',
            ("99999999999999999999", "1e400"),
            "PodSecurityContext.spec.securityContext.runAsUser of type int64",
        ),
        (
            SERVICES,
            '{"ports":[{"port":80,"targetPort":%s}]}',
            ("99999999999", "1.5"),
            "ServicePort.spec.ports.targetPort of type int32",
        ),
    ],
)
def test_numbers_out_of_range_are_rejected_as_recorded(
    server: Running, path: str, spec: str, values: tuple[str, ...], field: str
) -> None:
    """The messages are those of kube-apiserver v1.36.4."""
    kind = path.rpartition("/")[2].removesuffix("s").capitalize()
    version = "apps/v1" if path == DEPLOYMENTS else "v1"
    for value in values:
        body = f'{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"x"}},"spec":{spec % value}}}'
        reply = server.ask("POST", path, body.encode())
        problem = f"json: cannot unmarshal number {value} into Go struct field {field}"
        message = f'{kind} in version "v1" cannot be handled as a {kind}: {problem}'
        assert (reply.code, reply.tree["message"]) == (400, message)


@pytest.mark.parametrize(
    ("media", "patch", "prefix", "place"),
    [
        ("merge-patch", b'{"data":{"a":1e400}}', "error decoding patch: ", "value"),
        ("strategic-merge-patch", b'{"data":{"a":1e400}}', "", "value"),
        (
            "json-patch",
            b'[{"op":"add","path":"/data","value":1e400}]',
            "error decoding patch: ",
            "struct field jsonPatchOp.value",
        ),
    ],
)
def test_patches_with_numbers_out_of_range_are_rejected_as_recorded(
    server: Running, media: str, patch: bytes, prefix: str, place: str
) -> None:
    server.ask("POST", MAPS, {"metadata": {"name": "numbers"}})
    reply = server.ask("PATCH", f"{MAPS}/numbers", patch, content_type=f"application/{media}+json")
    problem = f"json: cannot unmarshal number 1e400 into Go {place} of type float64"
    assert (reply.code, reply.tree["message"]) == (400, prefix + problem)


@pytest.mark.parametrize("body", [b"1.5", b"[1e400]", b"1e400"])
def test_numbers_in_place_of_an_object_are_rejected(server: Running, body: bytes) -> None:
    assert server.ask("POST", PODS, body).code == 400
