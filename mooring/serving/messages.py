"""Requests and answers, as handlers see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

TEXT = "text/plain; charset=utf-8"
NO_SNIFFING = (b"x-content-type-options", b"nosniff")
JSON = "application/json"


class User(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asks, as the API server knows them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class ClientCertificate(msgspec.Struct, frozen=True):
    """Whom a certificate names that the server believed, and until when."""

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
    """`stream` comes after the body, in pieces, for what is too much to be held at once."""

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream: AsyncIterator[bytes] | None = None


Handler = Callable[[Request], Awaitable[Answer]]


def as_json(value: Any, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(value), JSON)


def failure(code: int, reason: str, message: str) -> Answer:
    """A refusal as Kubernetes words it."""
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
    answer.headers = (NO_SNIFFING,)  # it may quote what was asked for
    return answer
