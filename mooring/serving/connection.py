"""One connection: uvicorn's HTTP protocol, with bounds on size and time."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from mooring.serving.messages import ClientCertificate, User

LARGEST_HEAD = 32 * 1024  # bytes of the URL and the headers of a request together
HEAD_WITHIN = 10.0  # seconds from the beginning of a request to the end of its head
ANSWER_WITHIN = 60.0  # seconds for an answer to be made and read
KEEP_ALIVE = 90  # seconds, as kube-scheduler's server

AUTHENTICATED = "system:authenticated"

# What clients send that is no HTTP is no concern of the log's, and bugs are told by the app.
_silent = logging.getLogger("mooring.serving.http")
_silent.setLevel(logging.CRITICAL)


class Connection(HttpToolsProtocol):
    """Closes itself where a client takes too long, and refuses heads that are too large."""

    def __init__(self, config: uvicorn.Config, server_state: ServerState) -> None:
        super().__init__(config, server_state, app_state={})
        self.logger = _silent
        self.access_log = False
        self.since = self.loop.time()
        self._head = 0
        self._within_head = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether it is open, and no answer is under way."""
        return not self.gone() and (self.cycle is None or self.cycle.response_complete)

    def gone(self) -> bool:
        """Whether nothing more can be sent."""
        return self.transport.is_closing()

    # ---- the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state["gone"] = self.gone
        self.app_state["certificate"] = named_in(transport.get_extra_info("peercert"))
        self._allow(HEAD_WITHIN)

    def connection_lost(self, exc: Exception | None) -> None:
        self._allow(None)
        super().connection_lost(exc)

    # ---- the parser

    def on_message_begin(self) -> None:
        self._head, self._within_head = 0, True
        if self.idle:
            self._allow(HEAD_WITHIN)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._within_head = False
        self._allow(ANSWER_WITHIN)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._allow(ANSWER_WITHIN if self.pipeline else HEAD_WITHIN if self._within_head else None)
        super().on_response_complete()

    # ---- bounds

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > LARGEST_HEAD:
            raise httptools.HttpParserError(f"the head of a request is limited to {LARGEST_HEAD} bytes")

    def _allow(self, seconds: float | None) -> None:
        """The time until the next step; None: uvicorn's own keep-alive timer is running."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


def named_in(certificate: dict[str, Any] | None) -> ClientCertificate | None:
    """Whom a verified certificate names: the common name is the user, the organizations are the groups."""
    name, groups = "", []
    for part in (certificate or {}).get("subject", ()):
        for kind, value in part:
            if kind == "commonName":
                name = value
            elif kind == "organizationName":
                groups.append(value)
    if not name or certificate is None:
        return None
    user = User(username=name, groups=(*groups, AUTHENTICATED))
    return ClientCertificate(user, ssl.cert_time_to_seconds(certificate["notAfter"]))
