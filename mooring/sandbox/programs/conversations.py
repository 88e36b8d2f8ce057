"""Connections to programs by TCP: bytes from a client, and what the program that listens sends back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import httptools

from mooring.sandbox.network.messages import LARGEST, NetworkError, Query, Reply, Speech
from mooring.sandbox.network.network import Network
from mooring.sandbox.network.services import Source
from mooring.sandbox.programs.http_text import render_reply
from mooring.sandbox.programs.listeners import text

_LARGEST_HEAD: Final = 64 * 1024
_LARGEST_TEXT: Final = 64 * 1024
"""What is kept of a client that speaks no HTTP."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE: Final = "close"


class Conversation(Protocol):
    """One connection. `is_over` once the program has closed it."""

    is_over: bool

    def receive(self, data: bytes) -> Iterator[bytes]:
        """Take what the client sends, and yield what the program answers."""
        ...

    def end(self) -> Iterator[bytes]:
        """Take the end of what the client sends."""
        ...

    def close(self) -> None:
        """Close the connection; nothing is kept of it."""
        ...


def connect(network: Network, source: Source, address: str, port: int) -> Conversation:
    """Open a connection. Raises NetworkError."""
    speech = network.speech(source, address, port)

    def ask(query: Query) -> Reply:
        return network.ask(source, address, port, query)

    return converse(ask, speech)


def converse(ask: Callable[[Query], Reply], speech: Speech) -> Conversation:
    """Return a connection to a program that answers what it is asked. `ask` may raise NetworkError."""
    return _TextConversation(ask) if speech == Speech.TEXT else _HttpConversation(ask, speech)


class _TextConversation:
    """A program that answers once it has received what it expects; status 0 is not yet."""

    def __init__(self, ask: Callable[[Query], Reply]) -> None:
        self.is_over = False
        self._ask = ask
        self._received = b""

    def receive(self, data: bytes) -> Iterator[bytes]:
        self._received = (self._received + data)[:_LARGEST_TEXT]
        yield from self._answer(Query(body=self._received))

    def end(self) -> Iterator[bytes]:
        yield from self._answer(Query(body=self._received, is_end=True))
        self.is_over = True

    def close(self) -> None:
        self.is_over = True

    def _answer(self, query: Query) -> Iterator[bytes]:
        if self.is_over:
            return
        try:
            reply = self._ask(query)
        except NetworkError:
            self.is_over = True
            return
        if reply.status:
            self.is_over = True
            for start in range(0, len(reply.body), reply.piece):
                yield reply.body[start : start + reply.piece]


class _HttpConversation:
    """A program that serves HTTP/1.1. Of one that is not known, what is not HTTP gets no answer."""

    def __init__(self, ask: Callable[[Query], Reply], speech: Speech) -> None:
        self.is_over = False
        self._ask = ask
        self._is_silent = False
        self._may_be_silent = speech == Speech.ANY
        self._parser = httptools.HttpRequestParser(self)
        self._queries: list[Query] = []
        self._is_last = False  # the connection is closed after the request
        self._expects_continue = False
        self._begin()

    def receive(self, data: bytes) -> Iterator[bytes]:
        if self.is_over or self._is_silent or not data:
            return
        failed = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_last = True  # no other protocol is spoken
        except httptools.HttpParserError:
            failed = True
        self._head_left -= len(data) if self._in_head else 0
        yield from self._answers()
        yield from self._after(failed=failed or self._head_left < 0)

    def _after(self, *, failed: bool) -> Iterator[bytes]:
        """Go on after what was complete."""
        if self.is_over:
            return
        if failed and self._may_be_silent:
            self._is_silent = True
        elif failed:
            yield self._closing(text("400 Bad Request", 400))
        elif self._expects_continue:
            self._expects_continue = False
            yield _CONTINUE

    def end(self) -> Iterator[bytes]:
        self.is_over = True
        yield from ()

    def close(self) -> None:
        self.is_over = True
        self._begin()
        self._queries = []
        del self._parser  # refers to this object, too

    def _answers(self) -> Iterator[bytes]:
        queries, self._queries = self._queries, []
        for number, query in enumerate(queries):
            try:
                reply = self._ask(query)
            except NetworkError:
                reply = Reply(0)
            if not reply.status:
                self.is_over = True
                return
            is_last = self._is_last and number == len(queries) - 1
            if is_last or query.headers.get("connection", "").lower() == _CLOSE:
                yield self._closing(reply, with_body=query.method != "HEAD")
                return
            yield _render(reply, with_body=query.method != "HEAD")

    def _closing(self, reply: Reply, *, with_body: bool = True) -> bytes:
        self.is_over = True
        return _render(reply._replace(headers={**reply.headers, "connection": _CLOSE}), with_body=with_body)

    # ---- the parser

    def _begin(self) -> None:
        self._in_head, self._head_left = True, _LARGEST_HEAD
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_left = LARGEST

    def on_message_begin(self) -> None:
        self._begin()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._expects_continue = self._headers.get("expect", "").lower() == "100-continue"

    def on_body(self, body: bytes) -> None:
        self._body_left -= len(body)
        if self._body_left >= 0:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self._expects_continue = False
        method, target = self._parser.get_method().decode(), self._target.decode("latin-1")
        body = b"".join(self._body) if self._body_left >= 0 else bytes(LARGEST + 1)  # is rejected
        self._queries.append(Query(method, target, self._headers, body))
        self._is_last = not self._parser.should_keep_alive()
        self._in_head, self._head_left = True, _LARGEST_HEAD


def _render(reply: Reply, *, with_body: bool) -> bytes:
    return render_reply(reply, with_body=with_body).encode(errors="surrogateescape")
