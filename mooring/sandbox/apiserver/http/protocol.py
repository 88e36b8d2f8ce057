"""uvicorn's HTTP protocol, with bounds on the size of heads and on patience, and fewer writes per answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mooring.client.errors import ApiError
from mooring.sandbox.apiserver.errors import bad_request, request_timeout, status_tree, too_large_head
from mooring.sandbox.apiserver.objects import encode_json

LARGEST_HEAD = 64 * 1024
"""Bytes of the URL and the headers of one request together."""

SLOWEST_REQUEST = 60.0
"""Seconds within which a request must be here as a whole, and a new connection must have made one."""
SLOWEST_SEND = 30.0
"""Seconds that a client may take to accept what was sent before there is room for more."""

logger = logging.getLogger(__name__)

_PER_LINE = 4  # the colon, the space and the end of the line


class BoundedProtocol(HttpToolsProtocol):
    """Refuses heads that are too large, ends clients that are too slow, and writes answers in one piece."""

    _head = 0
    _incomplete_since: float | None = None
    _unread_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._gathering = _Gathering(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._gathering))
        self._incomplete_since = self.loop.time()

    def on_message_begin(self) -> None:
        self._head = 0
        self._incomplete_since = self.loop.time()
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._incomplete_since = None
        super().on_message_complete()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def pause_writing(self) -> None:
        self._unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since = None
        super().resume_writing()

    def end_if_too_slow(self, now: float) -> None:
        """Called now and then: drop a client that does not read, refuse one that does not end its request."""
        if self._unread_since is not None and now - self._unread_since > SLOWEST_SEND:
            path = self.scope.get("path") if self.scope is not None else None
            logger.warning("the connection that asked for %s was dropped: its client does not read", path)
            self.transport.abort()
        elif self._incomplete_since is not None and now - self._incomplete_since > SLOWEST_REQUEST:
            if self.cycle is not None and self.cycle.response_started:
                self.transport.abort()
            else:
                self._refuse(request_timeout(SLOWEST_REQUEST))

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing to warn of: the answer tells the client why there is no stream, as to `kubectl exec`."""

    def on_response_complete(self) -> None:
        self._gathering.flush()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a request that could not be read, as all refusals are said."""
        self._refuse(too_large_head(LARGEST_HEAD) if self._head > LARGEST_HEAD else bad_request(msg))

    def _refuse(self, error: ApiError) -> None:
        body = encode_json(status_tree(error))
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[error.code] + head % len(body) + body)
        self.transport.close()

    def _count(self, size: int) -> None:
        self._head += size + _PER_LINE
        if self._head > LARGEST_HEAD:
            raise httptools.HttpParserError(f"the head of a request is limited to {LARGEST_HEAD} bytes")


class _Gathering:
    """A transport that sends what was written in one turn of the loop in one piece: one record of TLS and one
    system call instead of one for the head and one for the body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
