"""The scheduler's endpoints: authorize a request, find its handler, send the answer."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.serving.exchange import Exchange, TooManyParametersError
from mooring.serving.gate import Gate
from mooring.serving.messages import REASONS, Answer, Handler, Request, failure

_METHODS = ("GET", "HEAD")
_ALLOW = (b"allow", b"GET, HEAD")
_NOT_CACHED = (b"cache-control", b"no-cache, private")


class Router:
    """Paths are exact; one that ends in a slash stands for all below it."""

    def __init__(self, gate: Gate, routes: Mapping[str, Handler]) -> None:
        self._gate = gate
        self._routes = routes

    async def answer(self, exchange: Exchange) -> None:
        exchange.extra_headers.append(_NOT_CACHED)
        await exchange.send(await self._answer(exchange))

    def error(self, code: int, message: str) -> Answer:
        return failure(code, REASONS[code], message)

    async def _answer(self, exchange: Exchange) -> Answer:
        method, path = exchange.method, exchange.path
        if method not in _METHODS:
            answer = failure(405, "MethodNotAllowed", f"method {method} is not allowed")
            answer.headers += (_ALLOW,)
            return answer
        try:
            query = exchange.params()
        except TooManyParametersError as error:
            return failure(400, "BadRequest", str(error))
        headers = dict(reversed(exchange.headers))  # the first of each name
        request = Request(method, path, query, headers, exchange.certificate)
        rejection = await self._gate.reject(request)
        if rejection is not None:
            return rejection
        handler = find_handler(self._routes, path)
        if handler is None:
            return failure(404, "NotFound", "the server could not find the requested resource")
        return await handler(request)


def find_handler(routes: Mapping[str, Handler], path: str) -> Handler | None:
    """Return the handler of a path; a route that ends in a slash is for all paths below it."""
    handler = routes.get(path)
    if handler is not None and not path.endswith("/"):
        return handler
    below = (each for route, each in routes.items() if route.endswith("/") and path.startswith(route))
    return next(below, None)
