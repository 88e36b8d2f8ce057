"""A page server over a scheduler with known objects, and a client for it."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from mooring.api.meta import KubeObject
from mooring.config import LoadedConfig, default_config
from mooring.core.build import registry_with
from mooring.core.scheduler import Scheduler
from mooring.testing.clock import START
from mooring.web.page_server import PageServer
from mooring.web.source import FixedSource
from mooring.web.what_if import WhatIf

NOW = START


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Page:
    """A running page server."""

    def __init__(self, server: PageServer, core: Scheduler) -> None:
        self.server = server
        self.core = core
        address, _, self.token = server.link.partition("/?token=")
        self.host = address.removeprefix("http://")

    async def get(self, path: str, **headers: str) -> Reply:
        return await asyncio.to_thread(self._request, "GET", path, None, headers)

    async def post(self, path: str, body: Any, **headers: str) -> Reply:
        given = {"origin": f"http://{self.host}", "content-type": "application/json", **headers}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await asyncio.to_thread(self._request, "POST", path, data, given)

    def _request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            given = {"authorization": f"Bearer {self.token}", **headers}
            connection.request(method, path, body, {k.replace("_", "-"): v for k, v in given.items()})
            reply = connection.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()


def serving(
    objects: list[KubeObject],
    scenario: Callable[[Page], Awaitable[None]],
    feature_gates: dict[str, bool] | None = None,
) -> None:
    """Run a scenario against a page over these objects."""

    async def main() -> None:
        settings = default_config()
        settings.feature_gates = feature_gates or {}
        config, registry = LoadedConfig(settings), registry_with()
        core = Scheduler(config, clock=lambda: NOW, pick=random.Random(0).randrange, registry=registry)
        for obj in objects:
            core.apply(obj)
        source = FixedSource(core, config, registry, "test")
        server = PageServer(source, lambda: NOW, actions=WhatIf(source).actions())
        running = asyncio.create_task(server.run())
        try:
            await scenario(Page(server, core))
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(main())
