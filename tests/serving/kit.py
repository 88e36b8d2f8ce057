"""A server on loopback with real TLS, a small API server that knows who may, and clients of every kind."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import uvloop

from mooring.api.kinds import ApiResource
from mooring.client.port import Obj
from mooring.serving.gate import Gate
from mooring.serving.identity import ServingIdentity
from mooring.serving.limits import Limits
from mooring.serving.listening import open_listener
from mooring.serving.messages import Answer, Handler, Request
from mooring.serving.reviews import CONFIG_MAPS, TOKEN_REVIEWS
from mooring.serving.routing import Router
from mooring.serving.server import HttpServer
from mooring.serving.settings import EndpointSettings
from tests.client.fake_cluster import FakeCluster, Tree

T = TypeVar("T")

TOKEN = "tok-4b1d7c0e9f5a"
LOOPBACK = EndpointSettings(bind_address="127.0.0.1", secure_port=0)
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def run(main: Coroutine[Any, Any, T], loop: str = "asyncio") -> T:
    """On an event loop of a kind; a test that hangs fails."""

    async def bounded() -> T:
        async with asyncio.timeout(20):
            return await main

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(bounded())


class Reviewer(FakeCluster):
    """An API server that reviews: `users` by their tokens, and `rights` as (user, verb, path)."""

    def __init__(self) -> None:
        super().__init__()
        self.users: dict[str, Tree] = {TOKEN: {"username": "reader", "groups": ["system:authenticated"]}}
        self.rights: set[tuple[str, str, str]] = set()
        self.reviewed: list[Tree] = []

    async def create(self, resource: ApiResource[Obj], body: Any, namespace: str = "") -> Obj:
        await self._receive("create", resource, resource.name)
        tree: Tree = json.loads(msgspec.json.encode(body))  # as it would travel
        assert (tree["apiVersion"], tree["kind"].lower() + "s") == (resource.api_version, resource.plural)
        self.reviewed.append(tree)
        about = self._whose if resource.name == TOKEN_REVIEWS.name else self._may
        return await self._answer("create", resource, {**tree, "metadata": {}, "status": about(tree["spec"])})

    def _whose(self, spec: Tree) -> Tree:
        user = self.users.get(spec["token"])
        if user is None:
            return {"user": {}, "error": f"invalid bearer token {spec['token']}"}
        return {"authenticated": True, "user": user}

    def _may(self, spec: Tree) -> Tree:
        asked = spec["nonResourceAttributes"]
        allowed = (spec["user"], asked["verb"], asked["path"]) in self.rights
        return {"allowed": allowed, "reason": "RBAC: allowed by a test" if allowed else ""}

    def allow(self, *paths: str, user: str = "reader") -> None:
        self.rights |= {(user, verb, path) for path in paths for verb in ("get", "head")}

    def believe(self, authorities: bytes) -> None:
        """Say whose client certificates an API server believes, where others look that up."""
        metadata = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
        self.put(CONFIG_MAPS, {"metadata": metadata, "data": {"client-ca-file": authorities.decode()}})


@dataclass
class Reply:
    """What a client got."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def refusal(self) -> tuple[int, str, str]:
        """Of a Status, which says the same as the status line."""
        told = self.json
        assert (told["kind"], told["apiVersion"], told["status"]) == ("Status", "v1", "Failure")
        assert told["code"] == self.status
        return told["code"], told["reason"], told["message"]


def trusting_all() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def ask(
    port: int,
    path: str,
    token: str = "",
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
) -> Reply:
    """One request on a connection of its own."""
    sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context or trusting_all())
    try:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, told, answer.read())
    finally:
        connection.close()


@dataclass
class Served:
    """A running server, and ways to ask it."""

    server: HttpServer
    reviewer: Reviewer
    serving: asyncio.Task[None] = field(repr=False)

    async def ask(
        self,
        path: str,
        token: str = "",
        *,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> Reply:
        return await asyncio.to_thread(
            ask, self.server.port, path, token, method=method, body=body, headers=headers, context=context
        )

    async def connect(
        self, context: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.server.port, ssl=context or trusting_all(), server_hostname="localhost"
        )

    async def raw(self, data: bytes) -> bytes:
        """Everything that comes back, until the server closes."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def serving(
    routes: Mapping[str, Handler] | None = None,
    settings: EndpointSettings = LOOPBACK,
    reviewer: Reviewer | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Served]:
    reviewer = reviewer or Reviewer()
    router = Router(Gate(settings, reviewer, reviewer), HELLO if routes is None else routes)
    server = HttpServer(router, open_listener(settings), ServingIdentity(settings, reviewer), limits)
    task = asyncio.create_task(server.run())
    await asyncio.sleep(0)
    try:
        yield Served(server, reviewer, task)
    finally:
        task.cancel()
        await asyncio.wait({task})


async def hello(request: Request) -> Answer:
    """Says who asked, and how."""
    return Answer(body=f"{request.method} {request.path} {sorted(request.query.items())}".encode())


HELLO: Mapping[str, Handler] = {"/hello": hello, "/healthz": hello}
