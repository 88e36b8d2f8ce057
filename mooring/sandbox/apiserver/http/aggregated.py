"""Requests to groups that other API servers serve: authorized here, answered there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.aggregation.remotes import Remote
from mooring.sandbox.apiserver.aggregation.upstream import (
    FRONT_PROXY,
    Identity,
    Question,
    Upstream,
    UpstreamError,
    ask,
)
from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
from mooring.serving.exchange import Exchange

_SECONDS: Final = 60
_VERBS: Final = {
    "GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
}  # fmt: skip


def attributes_of_path(method: str, path: str, *, watch: bool) -> Attributes:
    """Return what a request is about to do, from its path below /apis/GROUP/VERSION alone."""
    group, rest = path.split("/")[2], [part for part in path.split("/")[4:] if part]
    namespace, verb = "", _VERBS.get(method, method.lower())
    if rest[:1] == ["watch"]:
        watch, rest = True, rest[1:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, part = [*rest, "", "", ""][:3]
    if verb == "get" and watch:
        verb = "watch"
    elif not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    return Attributes(verb, group, f"{resource}/{part}" if part else resource, namespace, name)


async def forward(
    api: Api, exchange: Exchange, remote: Remote, user: User, body: bytes, identity: Identity | None
) -> Upstream:
    """Return the answer of another server to a request, while it comes. Raises ApiError."""
    if user.name == FRONT_PROXY:
        raise _unreachable(
            f"APIService {remote.name} leads to this server, which would ask itself without end"
        )
    query = f"?{exchange.query}" if exchange.query else ""
    target = quote(exchange.path, safe="/~:@!$&'()*+,;=") + query
    question = Question(exchange.method, target, exchange.headers, body)
    try:
        async with asyncio.timeout(_SECONDS):
            return await ask(api, remote, question, user, identity)
    except UpstreamError as error:
        raise _unreachable(str(error)) from None
    except TimeoutError:
        raise _unreachable("context deadline exceeded") from None


async def read(answer: Upstream) -> bytes:
    """Return the content of an answer that ends. Raises ApiError."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await answer.read()
    except TimeoutError:
        raise _unreachable("context deadline exceeded") from None
    except (OSError, ValueError) as error:
        raise _unreachable(str(error)) from None


def is_watch(path: str, params: Mapping[str, list[str]]) -> bool:
    return path.split("/")[4:5] == ["watch"] or (params.get("watch") or ["false"])[0].lower() not in (
        "", "false", "0",
    )  # fmt: skip


def _unreachable(why: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", f"error trying to reach service: {why}")
