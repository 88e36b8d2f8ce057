"""The page on a loopback address of its own: Host and Origin checks, a token, bounded requests.

The assets hold no data and are open; everything below /v1/ needs the token in the Authorization header. The
link that `mooring up` prints carries it in the query, from where the page moves it into the browser's
storage for this origin. A cookie would be sent to every other port of the host as well.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from mooring.serving.exchange import BodyTooLargeError, Exchange, TooManyParametersError
from mooring.serving.messages import NO_SNIFFING, Answer, Request, failure
from mooring.web.api import Api
from mooring.web.assets import asset_answer
from mooring.web.records import API

MOST_BYTES = 3 << 20  # of a request's body
_PREFIX = f"/{API}/"
_NOT_STORED = (b"cache-control", b"no-store")
_REVALIDATED = (b"cache-control", b"no-cache")
REASONS = {400: "BadRequest", 408: "Timeout", 431: "RequestHeaderFieldsTooLarge", 500: "InternalError"}

Action = Callable[[Any], Awaitable[Answer]]
"""Answers a POST request with a JSON body."""


class PageService:
    """Serves the assets and the API to browsers on this host that have the token."""

    def __init__(self, api: Api, token: str, port: int, actions: Mapping[str, Action] | None = None) -> None:
        self._api = api
        self._token = token.encode()
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))
        self._actions = actions or {}

    async def answer(self, exchange: Exchange) -> None:
        await exchange.send(await self._answer(exchange))

    def error(self, code: int, message: str) -> Answer:
        return failure(code, REASONS.get(code, "InternalError"), message)

    async def _answer(self, exchange: Exchange) -> Answer:
        host = exchange.header(b"host").lower()
        if host not in self._hosts:
            return failure(421, "MisdirectedRequest", f'Host "{host[:100]}" is not served here')
        if not exchange.path.startswith(_PREFIX):
            return self._asset(exchange)
        exchange.extra_headers += [_NOT_STORED, NO_SNIFFING]
        if exchange.header(b"sec-fetch-site") == "cross-site" or not self._from_here(exchange, host):
            return failure(403, "Forbidden", "requests from other origins are not allowed")
        if not self._has_token(exchange):
            answer = failure(401, "Unauthorized", "open the link that was printed at the start again")
            answer.headers += ((b"www-authenticate", b"Bearer"),)
            return answer
        path = exchange.path.removeprefix(_PREFIX)
        if exchange.method == "POST":
            return await self._post(path, exchange)
        if exchange.method not in ("GET", "HEAD"):
            return _not_allowed(exchange.method, b"GET, HEAD, POST")
        try:
            request = Request("GET", exchange.path, exchange.params(), dict(reversed(exchange.headers)))
        except TooManyParametersError as error:
            return failure(400, "BadRequest", str(error))
        return await self._api.get(path, request)

    def _asset(self, exchange: Exchange) -> Answer:
        if exchange.method not in ("GET", "HEAD"):
            return _not_allowed(exchange.method, b"GET, HEAD")
        exchange.extra_headers.append(_REVALIDATED)
        accepted, tag = exchange.header(b"accept-encoding"), exchange.header(b"if-none-match")
        answer = asset_answer(exchange.path.removeprefix("/"), accepted, tag)
        return answer or failure(404, "NotFound", "the server could not find the requested resource")

    def _from_here(self, exchange: Exchange, host: str) -> bool:
        """Return whether a request was made by this page; browsers send Origin with every POST."""
        origin = exchange.header(b"origin")
        return origin == f"http://{host}" if origin else exchange.method != "POST"

    def _has_token(self, exchange: Exchange) -> bool:
        scheme, _, given = exchange.header(b"authorization").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.encode("latin-1"), self._token)

    async def _post(self, path: str, exchange: Exchange) -> Answer:
        action = self._actions.get(path)
        if action is None:
            return failure(404, "NotFound", "the server could not find the requested resource")
        if exchange.header(b"content-type").partition(";")[0].strip() != "application/json":
            return failure(415, "UnsupportedMediaType", "expected Content-Type application/json")
        try:
            body = msgspec.json.decode(await exchange.body(MOST_BYTES))
        except BodyTooLargeError as error:
            return failure(413, "RequestEntityTooLarge", str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return failure(400, "BadRequest", f"request body: {error}")
        return await action(body)


def _not_allowed(method: str, allowed: bytes) -> Answer:
    answer = failure(405, "MethodNotAllowed", f"method {method} is not allowed")
    answer.headers += ((b"allow", allowed),)
    return answer
