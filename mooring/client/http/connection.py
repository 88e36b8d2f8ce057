"""One connection: a request goes out as one write, its answer comes back through httptools."""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

import httptools
import msgspec

LARGEST_HEAD = 256 * 1024
LARGEST_BODY = 1024**3  # a list of 100,000 pods in one page still fits
LARGEST_FRAMING = 256 * 1024  # trailers, and sizes of chunks that are out of proportion to what they hold

Header = tuple[bytes, bytes]


class Response(msgspec.Struct):
    """An answer, read whole."""

    status: int
    headers: list[Header]
    body: bytes

    def header(self, name: bytes) -> str:
        """A header's value by its lower-case name; empty where there is none."""
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == name), "")


class Connection(asyncio.Protocol):
    """Carries one request at a time; `usable` says whether it may carry another.

    A request that fails raises ConnectionError, TimeoutError or ValueError (what came is no answer);
    `answered` is then true if any byte of a response was received.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)  # until connection_made
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._framing = 0
        self._in_head = False
        self.status = 0
        self.headers: list[Header] = []
        self.has_request = self.answered = self.usable = False
        self.deadline = 0.0
        self.idle_since = 0.0  # 0: it never was
        self.tls: ssl.SSLContext | None = None
        self.lost = self._loop.create_future()  # done when the connection is closed for good

    # ---- what the client calls

    def send(self, request: bytes, deadline: float) -> asyncio.Future[None]:
        """Send a request; the future is done with its answer. `expire` is for who watches the deadline."""
        self._waiter = waiter = self._loop.create_future()
        self._chunks = []
        self.headers = []
        self._size = self._head_size = self._framing = 0
        self._in_head = self.has_request = True
        self.answered = self.usable = False
        self.deadline = deadline
        self._transport.write(request)
        return waiter

    def response(self) -> Response:
        chunks = self._chunks
        return Response(self.status, self.headers, chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def expire(self) -> None:
        """The request took too long."""
        self.fail(TimeoutError("timed out while reading the response" if self.answered else "timed out"))

    def close(self) -> None:
        """Close at once; a request under way fails."""
        self.fail(ConnectionAbortedError("closed by the client"))

    def fail(self, error: Exception) -> None:
        self.usable = False
        self._transport.abort()
        self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        """The answer is complete, or will never be."""
        self.has_request = False
        self._wake(error)

    def _wake(self, error: Exception | None = None) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    # ---- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True

    def data_received(self, data: bytes) -> None:
        self.answered = True
        if self._in_head:
            if self._head_size > LARGEST_HEAD:
                self.fail(ValueError(f"the headers of the answer are longer than {LARGEST_HEAD} bytes"))
                return
            self._head_size += len(data)
        else:
            self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            ours = isinstance(error, httptools.HttpParserCallbackError)  # raised by a method below
            self.fail(ValueError(str(error.__context__) if ours else f"the answer is not HTTP: {error}"))
            return
        if self._framing > LARGEST_FRAMING:
            self.fail(ValueError(f"more than {LARGEST_FRAMING} bytes of the answer are not its content"))

    def eof_received(self) -> None:
        self.usable = False  # it is about to be lost: nothing more is to be sent on it

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        if error is None and self.answered and not (self._in_head or self._framed()):
            self._finish(None)
        else:
            where = "in the middle of the answer" if self.answered else "before an answer"
            why = f" ({error})" if error else ""
            self._finish(ConnectionResetError(f"the connection was closed {where}{why}"))
        if not self.lost.done():
            self.lost.set_result(None)

    def _framed(self) -> bool:
        """Whether the answer said where it ends; otherwise it ends where the connection does."""
        return any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in self.headers)

    # ---- what httptools calls

    def on_message_begin(self) -> None:
        if not self.has_request:
            raise ValueError("an unexpected response")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers are not read
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._in_head = False

    def _take_content(self, chunk: bytes) -> None:
        """Take content out of the count, and allow as many bytes that are not content."""
        self._framing = max(0, self._framing - 2 * len(chunk))

    def on_body(self, chunk: bytes) -> None:
        self._take_content(chunk)
        self._size += len(chunk)
        if self._size > LARGEST_BODY:
            raise ValueError(f"response body exceeds {LARGEST_BODY} bytes")
        self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        if self.status < 200:  # 103 Early Hints and the like come before the answer
            self.headers = []
            self._in_head = True
            return
        self.usable = self._parser.should_keep_alive()
        self._finish(None)
