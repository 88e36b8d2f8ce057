"""The ASGI application: who may ask, which handler answers, and how that is sent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from mooring.serving.gate import Gate
from mooring.serving.messages import Answer, Handler, Request, failure

log = logging.getLogger("mooring.serving")

MOST_PARAMETERS = 100
_METHODS = ("GET", "HEAD")
_ALLOW = (b"allow", b"GET, HEAD")
_CLOSE = (b"connection", b"close")
_NOT_CACHED = (b"cache-control", b"no-cache, private")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class App:
    """Paths are exact; one that ends in a slash stands for all below it."""

    def __init__(self, gate: Gate, routes: Mapping[str, Handler]) -> None:
        self._gate = gate
        self._routes = {path: handler for path, handler in routes.items() if not path.endswith("/")}
        self._below = {path: handler for path, handler in routes.items() if path.endswith("/")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope)
        except Exception as bug:
            log.error("answering %s %s", scope["method"], scope["path"], exc_info=bug)
            answer = failure(500, "InternalError", "Internal error occurred; the scheduler's log says more")
        await _send(answer, scope, send)

    async def _answer(self, scope: Scope) -> Answer:
        method, path = scope["method"], scope["path"]
        if method not in _METHODS:
            answer = failure(405, "MethodNotAllowed", f"found {method}, expected GET or HEAD")
            answer.headers += (_ALLOW,)
            return answer
        try:
            query = parse_qs(
                scope["query_string"].decode("latin-1"),
                keep_blank_values=True,
                max_num_fields=MOST_PARAMETERS,
            )
        except ValueError:
            message = f"found more than {MOST_PARAMETERS} parameters, expected at most that"
            return failure(400, "BadRequest", message)
        headers = dict(reversed(scope["headers"]))  # of several by one name the first
        request = Request(method, path, query, headers, scope["state"].get("certificate"))
        refusal = await self._gate.refusal(request)
        if refusal is not None:
            return refusal
        handler = self._handler(path)
        if handler is None:
            return failure(404, "NotFound", "the server could not find the requested resource")
        return await handler(request)

    def _handler(self, path: str) -> Handler | None:
        found = self._routes.get(path)
        if found is None:
            found = next((each for start, each in self._below.items() if path.startswith(start)), None)
        return found


async def _send(answer: Answer, scope: Scope, send: Send) -> None:
    headers = [(b"content-type", answer.content_type.encode()), _NOT_CACHED, *answer.headers]
    if answer.stream is None:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    if _has_body(scope):  # nobody reads it: the connection is of no more use
        headers.append(_CLOSE)
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if answer.stream is not None and scope["method"] != "HEAD":
        async for piece in answer.stream:
            if scope["state"]["gone"]():
                return
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": answer.body if answer.stream is None else b""})


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )
