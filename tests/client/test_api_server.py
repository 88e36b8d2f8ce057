"""The adapter to an API server: what is asked for, what comes back, what goes wrong."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.kinds import EVENTS, NODES, PODS
from mooring.api.objects import Node
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials
from mooring.client.credentials.identity import Proof
from mooring.client.credentials.trust import Trust
from mooring.client.port import Cluster, PatchType
from tests.client.api_kit import asked, asking, changes_of, pod, run, status
from tests.client.certificates import authority, loopback
from tests.client.loopback import Loopback, Reply, Request, serving


async def echo_a_pod(request: Request, reply: Reply) -> None:
    await reply.json(200, pod("web", nodeName="n1"))


# ---- requests


def test_it_is_an_adapter_of_the_port() -> None:
    async def main() -> None:
        async with asking(echo_a_pod) as (api, _):
            cluster: Cluster = api
            assert (await cluster.get(PODS, "web", "default")).spec.node_name == "n1"

    run(main())


def test_every_verb_asks_for_the_right_thing() -> None:
    async def main() -> None:
        async with asking(echo_a_pod, tls=True, token="abc", user_agent="mooring/1.0") as (api, server):
            await api.get(PODS, "web", "default")
            await api.create(PODS, pod("web"), "default")
            await api.post(EVENTS, "", "", {"note": "hi"}, "default")
            await api.post(PODS, "web", "binding", {"target": {"name": "n1"}}, "default")
            await api.update(PODS, "web", pod("web"), "default")
            await api.update(NODES, "n 1/2", {"metadata": {"name": "x"}}, subresource="status")
            await api.patch(
                PODS, "web", {"status": {}}, "default", subresource="status", kind=PatchType.STRATEGIC
            )
            await api.patch(PODS, "web", pod("web"), "default", kind=PatchType.APPLY)
            await api.delete(PODS, "web", "default")
            await api.delete(PODS, "web", "default", uid="u1", grace_period_seconds=0)
            await api.raw("GET", "/version")
        assert [asked(request) for request in server.requests] == [
            ("GET", "/api/v1/namespaces/default/pods/web", {}),
            ("POST", "/api/v1/namespaces/default/pods", {}),
            ("POST", "/apis/events.k8s.io/v1/namespaces/default/events", {}),
            ("POST", "/api/v1/namespaces/default/pods/web/binding", {}),
            ("PUT", "/api/v1/namespaces/default/pods/web", {}),
            ("PUT", "/api/v1/nodes/n%201%2F2/status", {}),
            ("PATCH", "/api/v1/namespaces/default/pods/web/status", {}),
            ("PATCH", "/api/v1/namespaces/default/pods/web", {"fieldManager": "mooring", "force": "true"}),
            ("DELETE", "/api/v1/namespaces/default/pods/web", {}),
            ("DELETE", "/api/v1/namespaces/default/pods/web", {}),
            ("GET", "/version", {}),
        ]
        types = [request.headers.get("content-type") for request in server.requests]
        json = "application/json"
        assert types == [
            None, json, json, json, json, json, PatchType.STRATEGIC, PatchType.APPLY, json, json, None,
        ]  # fmt: skip
        assert server.requests[3].json == {"target": {"name": "n1"}}
        assert server.requests[9].json["preconditions"] == {"uid": "u1"}
        assert server.requests[9].json["gracePeriodSeconds"] == 0
        for request in server.requests:
            assert request.headers["host"] == f"127.0.0.1:{server.port}"
            assert request.headers["authorization"] == "Bearer abc"
            assert request.headers["user-agent"] == "mooring/1.0"
            assert request.headers["accept"] == json

    run(main())


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_change_the_path_is_refused(name: str) -> None:
    async def main() -> None:
        async with asking(echo_a_pod) as (api, server):
            with pytest.raises(ValueError, match="expected the name of an object"):
                await api.delete(PODS, name, "default")
            with pytest.raises(ValueError, match="expected the name of an object"):
                await api.post(PODS, name, "binding", {}, "default")
            assert server.requests == []

    run(main())


def test_structs_and_bytes_are_bodies_too() -> None:
    async def main() -> None:
        async with asking(echo_a_pod) as (api, server):
            found = await api.get(PODS, "web", "default")
            await api.update(PODS, "web", found, "default")
            await api.update(PODS, "web", b'{"a": 1}', "default")
        assert server.requests[1].json["spec"] == {"nodeName": "n1"}
        assert server.requests[2].json == {"a": 1}

    run(main())


def test_a_server_below_a_path_is_asked_there() -> None:
    async def main() -> None:
        async with serving(echo_a_pod) as server:
            api = ApiServer(Credentials(f"{server.url}/k8s/clusters/c-1/"))
            await api.get(NODES, "n1")
            await api.close()
            assert server.requests[0].path == "/k8s/clusters/c-1/api/v1/nodes/n1"

    run(main())


def test_requests_keep_to_qps_and_burst() -> None:
    async def main() -> None:
        async with asking(echo_a_pod, qps=0.001, burst=2) as (api, server):
            tasks = [asyncio.ensure_future(api.get(NODES, f"n{number}")) for number in range(3)]
            await asyncio.gather(*tasks[:2])
            await asyncio.sleep(0.05)
            assert len(server.requests) == 2
            assert not tasks[2].done()
            tasks[2].cancel()

    run(main())


# ---- lists


def test_a_list_asks_for_a_page_and_tells_of_the_next() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        items = [pod("a", "3"), pod("b", "4")]
        await reply.json(200, {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": items})

    async def main() -> None:
        async with asking(answer) as (api, server):
            page = await api.list(
                PODS,
                namespace="default",
                label_selector="app in (a, b)",
                field_selector="spec.nodeName=",
                limit=2,
                continue_token="before",
                resource_version="0",
            )
        assert [found.key for found in page.items] == ["default/a", "default/b"]
        assert (page.resource_version, page.continue_token, page.malformed) == ("7", "more", [])
        assert asked(server.requests[0]) == (
            "GET",
            "/api/v1/namespaces/default/pods",
            {
                "labelSelector": "app in (a, b)",
                "fieldSelector": "spec.nodeName=",
                "limit": "2",
                "continue": "before",
                "resourceVersion": "0",
            },
        )

    run(main())


def test_one_bad_object_spoils_nothing_else() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        bad = pod("bad", priority="high")
        with_nulls = pod("nulls", nodeName=None, tolerations=[None])
        with_nulls["metadata"] |= {"labels": None, "creationTimestamp": None}
        items = [pod("a"), bad, with_nulls, "no object", pod("b")]
        await reply.json(200, {"metadata": {"resourceVersion": "7", "continue": None}, "items": items})

    async def main() -> None:
        async with asking(answer) as (api, _):
            page = await api.list(PODS)
        assert [found.key for found in page.items] == ["default/a", "default/nulls", "default/b"]
        assert page.items[1].metadata.labels == {}
        assert [str(error) for error in page.malformed] == [
            'Pod default/bad: spec.priority: found "high", expected an integer',
            'Pod: object: found "no object", expected an object',
        ]

    run(main())


def test_no_items_are_an_empty_list_but_no_list_is_no_answer() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.send(200, answers.pop(0))

    answers = [
        b'{"metadata": {"resourceVersion": "7"}, "items": null}',
        b"{}",
        b"<html>hello</html>",
        b"[" * 100_000,
    ]

    async def main() -> None:
        async with asking(answer) as (api, _):
            assert (await api.list(PODS)).items == []
            for begins in ("{}", "<html>hello</html>", r"\[\["):
                with pytest.raises(Unreachable, match=f"invalid response: .*; it starts with '{begins}"):
                    await api.list(PODS)

    run(main())


# ---- refusals


def test_a_refusal_keeps_all_that_the_server_said() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        refusal = status(409, "AlreadyExists", 'pods "web" already exists')
        refusal["details"] = {"name": "web", "kind": "pods"}
        await reply.json(409, refusal)

    async def main() -> None:
        async with asking(answer) as (api, _):
            with pytest.raises(ApiError, match='pods "web" already exists') as caught:
                await api.create(PODS, pod("web"), "default")
        error = caught.value
        assert (error.code, error.reason, error.details) == (
            409,
            "AlreadyExists",
            {"name": "web", "kind": "pods"},
        )
        assert error.request == "POST /api/v1/namespaces/default/pods"
        assert error.retry_after is None

    run(main())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the server returned 502"),
        (b"<h1>Bad\n  Gateway</h1>", "the server returned 502: <h1>Bad Gateway</h1>"),
        (b"x" * 2_000_000, "the server returned 502: " + "x" * 300 + "…"),
        (b'{"kind": "Status", "message": null, "code": null}', "the server returned 502: {"),
        (b"\xff\xfe", "the server returned 502: \ufffd\ufffd"),
        (b"[" * 100_000, "the server returned 502: [["),
    ],
)
def test_a_refusal_that_is_no_status_shows_its_beginning(body: bytes, message: str) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.send(502, body)

    async def main() -> None:
        async with asking(answer) as (api, _):
            with pytest.raises(ApiError) as caught:
                await api.get(NODES, "n1")
            assert str(caught.value).startswith(message)
            assert (caught.value.code, caught.value.transient) == (502, True)

    run(main())


def test_an_answer_that_is_no_such_object_is_no_answer() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.json(200, pod("web", nodeName=["n1"]))

    async def main() -> None:
        async with asking(answer) as (api, _):
            with pytest.raises(
                Unreachable, match=r'Pod default/web: spec\.nodeName: found \["n1"\], expected a string'
            ):
                await api.get(PODS, "web", "default")

    run(main())


@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_says_when_to_come_back_is_asked_again(code: int) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if len(bodies) < 3:
            bodies.append(request.body)
            await reply.json(code, status(code, "TooManyRequests", "busy"), Retry_After="0")
        else:
            await echo_a_pod(request, reply)

    bodies: list[bytes] = []

    async def main() -> None:
        async with asking(answer) as (api, server):
            await api.post(PODS, "web", "binding", {"a": 1}, "default")
            assert [request.body for request in server.requests] == [b'{"a":1}'] * 4

    run(main())


def test_it_gives_up_after_ten_more_attempts() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.json(429, status(429, "TooManyRequests", "busy"), Retry_After="0")

    async def main() -> None:
        async with asking(answer) as (api, server):
            with pytest.raises(ApiError, match="busy") as caught:
                await api.get(NODES, "n1")
            assert len(server.requests) == 11
            assert caught.value.retry_after == 0

    run(main())


@pytest.mark.parametrize(("code", "headers"), [(429, {}), (503, {}), (500, {"Retry_After": "0"}), (409, {})])
def test_nothing_else_is_repeated(code: int, headers: dict[str, str]) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.json(code, status(code, "Whatever", "no"), **headers)

    async def main() -> None:
        async with asking(answer) as (api, server):
            with pytest.raises(ApiError):
                await api.post(PODS, "web", "binding", {}, "default")
            assert len(server.requests) == 1

    run(main())


def test_a_binding_that_may_have_been_done_is_told_as_sent() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if request.path.endswith("binding"):
            reply.cut()
        else:
            await echo_a_pod(request, reply)

    async def main() -> None:
        async with asking(answer, tls=True) as (api, server):
            await api.get(NODES, "n1")
            with pytest.raises(Unreachable) as caught:
                await api.post(PODS, "web", "binding", {}, "default")
            assert caught.value.sent
            assert caught.value.request == "POST /api/v1/namespaces/default/pods/web/binding"
            assert len(server.requests) == 2

    run(main())


# ---- credentials that change


class Rotating:
    """An identity that has another token each time, or the same one for ever."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.asked = 0

    async def prove(self) -> Proof:
        self.asked += 1
        await asyncio.sleep(0)
        return Proof(f"Bearer {self.tokens[min(self.asked, len(self.tokens)) - 1]}")


async def only_new(request: Request, reply: Reply) -> None:
    """A server to which the old token means nothing any more."""
    if request.headers.get("authorization") != "Bearer new":
        await reply.json(401, status(401, "Unauthorized", "Unauthorized"))
    elif "watch=true" in request.path:
        await reply.begin_chunks()
        await reply.chunk(b"")
    else:
        await echo_a_pod(request, reply)


async def with_identity(identity: Rotating, server: Loopback) -> ApiServer:
    trust = Trust(authority().certificate)
    return ApiServer(Credentials(server.url, identity, trust=trust), qps=-1)


def test_a_refused_token_is_renewed_once_for_all_who_were_refused() -> None:
    async def main() -> None:
        async with serving(only_new, loopback().context()) as server:
            identity = Rotating("old", "new", "newer")
            api = await with_identity(identity, server)
            await asyncio.gather(*(api.get(NODES, "n1") for _ in range(5)))
            assert identity.asked == 2
            await api.close()

    run(main())


def test_a_watch_renews_a_refused_token_too() -> None:
    async def main() -> None:
        async with serving(only_new, loopback().context()) as server:
            api = await with_identity(Rotating("old", "new"), server)
            assert await changes_of(api) == []
            await api.close()

    run(main())


def test_a_token_that_stays_refused_is_told_and_not_tried_again() -> None:
    async def main() -> None:
        async with serving(only_new, loopback().context()) as server:
            api = await with_identity(Rotating("old"), server)
            with pytest.raises(ApiError, match="Unauthorized") as caught:
                await api.get(NODES, "n1")
            assert caught.value.code == 401
            assert len(server.requests) == 1
            with pytest.raises(ApiError):
                await changes_of(api)
            assert len(server.requests) == 2
            await api.close()

    run(main())


def test_objects_are_typed() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        found = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
        await reply.json(200, found)

    async def main() -> None:
        async with asking(answer) as (api, _):
            node: Node = await api.get(NODES, "n1")
            assert node.status.allocatable == {"cpu": "4"}

    run(main())
