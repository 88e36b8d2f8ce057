"""Clients of a server on loopback, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mooring.api.kinds import PODS
from mooring.api.objects import Pod
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials
from mooring.client.credentials.identity import PlainIdentity
from mooring.client.credentials.trust import Trust
from mooring.client.port import Change
from tests.client.certificates import authority, loopback
from tests.client.loopback import Answer, Loopback, Request, serving


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a scenario; one that hangs is a failure."""

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main

    asyncio.run(bounded())


@asynccontextmanager
async def asking(
    answer: Answer, *, tls: bool = False, token: str = "", **options: Any
) -> AsyncIterator[tuple[ApiServer, Loopback]]:
    """A client and the server that it asks."""
    async with serving(answer, loopback().context() if tls else None) as server:
        identity = PlainIdentity(token=token)
        api = ApiServer(
            Credentials(server.url, identity, trust=Trust(authority().certificate)), **{"qps": -1, **options}
        )
        try:
            yield api, server
        finally:
            await api.close()


def asked(request: Request) -> tuple[str, str, dict[str, str]]:
    """Method, path and query of a request."""
    url = urlsplit(request.path)
    return request.method, url.path, dict(parse_qsl(url.query))


async def changes_of(api: ApiServer, **options: Any) -> list[Change[Pod]]:
    """All that a watch of pods since version 5 tells."""
    return [change async for change in api.watch(PODS, "5", **options)]


def pod(name: str, version: str = "1", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": message, "metadata": {}}  # fmt: skip
