"""Bounds on what clients may take up."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one server. The defaults are those of the scheduler's endpoints and of extenders."""

    connections: int = 256  # open at once, TLS handshakes included
    handshake_seconds: float = 10.0
    head_bytes: int = 32 * 1024  # URL, headers and trailers of one request together
    head_seconds: float = 10.0  # from the start of a connection or request to the end of its headers
    request_seconds: float = 60.0  # from the start of a request to the end of its body
    answer_seconds: float | None = 60.0  # from the end of the headers to the end of the answer
    send_seconds: float = 60.0  # for a client to make room for more of an answer
    idle_seconds: int = 90  # between two requests, as in kube-scheduler
    grace_seconds: float = 1.0  # for answers in progress when the server stops
    sweep_seconds: float = 1.0  # between two checks for clients that are too slow
