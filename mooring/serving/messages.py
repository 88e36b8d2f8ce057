"""Requests and answers as handlers see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

TEXT = "text/plain; charset=utf-8"
NO_SNIFFING = (b"x-content-type-options", b"nosniff")
JSON = "application/json"

Header = tuple[bytes, bytes]
"""Name, in lower case, and value."""

REASONS = {400: "BadRequest", 408: "Timeout", 431: "RequestHeaderFieldsTooLarge", 500: "InternalError"}
"""Kubernetes' words for what a server answers before, or instead of, a handler."""


class User(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client as the API server identifies it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class ClientCertificate(msgspec.Struct, frozen=True):
    """The user that a verified certificate names, and when it expires."""

    user: User
    expires: float  # Unix time


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: dict[str, list[str]] = {}
    headers: dict[bytes, bytes] = {}
    certificate: ClientCertificate | None = None

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")


class Answer(msgspec.Struct):
    """`stream` yields the body in pieces where it is too large to be held at once."""

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: tuple[Header, ...] = ()
    stream: AsyncIterator[bytes] | None = None


Handler = Callable[[Request], Awaitable[Answer]]


def as_json(value: Any, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(value), JSON)


def failure(code: int, reason: str, message: str) -> Answer:
    """Make an answer with a Status of Kubernetes."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if code == 403:
        status["details"] = {}
    answer = as_json({**status, "code": code}, code)
    answer.headers = (NO_SNIFFING,)  # the message may quote the request
    return answer
