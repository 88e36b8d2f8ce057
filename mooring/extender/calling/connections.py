"""POST over kept HTTP(S) connections that are waited for: attempts ask their extenders in turn.

The time limit is for the whole of an exchange, from connecting to the last byte: a server that sends a byte
now and then cannot hold the scheduler up for longer.
"""

from __future__ import annotations

import base64
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from urllib.parse import SplitResult, unquote, urlsplit

import httptools

from mooring import __version__

LARGEST_ANSWER = 256 * 1024**2
LARGEST_HEAD = 64 * 1024
MOST_IDLE = 8
CHUNK = 256 * 1024


class ExchangeError(Exception):
    """There was no answer, or none in HTTP. `answered`: it had begun."""

    def __init__(self, cause: str, answered: bool = False) -> None:
        super().__init__(cause)
        self.answered = answered


class Connections:
    """The connections to one extender. Threads may use it together."""

    def __init__(self, url: str, tls: ssl.SSLContext | None, server_name: str = "") -> None:
        """`url` is http or https with a host; `tls` is for https."""
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = tls if parts.scheme == "https" else None
        self._server_name = server_name or self._host
        self._path = parts.path.rstrip("/")
        self._head = (
            f"Host: {parts.netloc.rpartition('@')[2]}\r\nUser-Agent: mooring/{__version__}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json\r\n{_authorization(parts)}"
        ).encode("latin-1")
        self._idle: deque[_Connection] = deque()

    def post(self, verb: str, body: Sequence[bytes], timeout: float, *, again: bool) -> tuple[int, bytes]:
        """The status and body of the answer; the request's body comes in pieces. Raises ExchangeError.

        A kept connection that turns out to be dead is replaced by a new one, once, where `again` says that it
        is no harm if the extender sees the request twice.
        """
        size = sum(map(len, body))
        head = b"POST %b/%b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n" % (
            self._path.encode("ascii"), verb.encode("ascii"), self._head, size,
        )  # fmt: skip
        pieces = [b"".join((head, *body))] if size < CHUNK else [head, *body]
        deadline = time.monotonic() + timeout
        kept = self._take()
        if kept is not None:
            try:
                return self._exchange(kept, pieces, deadline)
            except ExchangeError as error:
                if not again or error.answered or time.monotonic() >= deadline:
                    raise
        return self._exchange(self._connect(deadline), pieces, deadline)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> _Connection | None:
        """A connection that, as far as we can see, the extender has not closed meanwhile."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if connection.quiet():
                return connection
            connection.close()
        return None

    def _exchange(
        self, connection: _Connection, pieces: Sequence[bytes], deadline: float
    ) -> tuple[int, bytes]:
        try:
            answer = connection.exchange(pieces, deadline)
        except (OSError, ValueError) as error:
            connection.close()
            raise ExchangeError(_in_words(error, connection.answered), connection.answered) from None
        if connection.reusable and len(self._idle) < MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _connect(self, deadline: float) -> _Connection:
        where = f"dial tcp {self._host}:{self._port}"
        try:
            plain = socket.create_connection((self._host, self._port), _left(deadline))
        except TimeoutError:
            raise ExchangeError(f"{where}: i/o timeout") from None
        except socket.gaierror as error:
            cause = "no such host" if error.errno == socket.EAI_NONAME else error.strerror
            raise ExchangeError(f"dial tcp: lookup {self._host}: {cause}") from None
        except OSError as error:
            raise ExchangeError(f"{where}: connect: {(error.strerror or str(error)).lower()}") from None
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return _Connection(plain)
        try:
            plain.settimeout(_left(deadline))
            return _Connection(self._tls.wrap_socket(plain, server_hostname=self._server_name))
        except OSError as error:
            plain.close()
            raise ExchangeError(_in_words(error, False)) from None


class _Connection:
    """Carries one exchange at a time, read by httptools."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._parser = httptools.HttpResponseParser(self)
        self._chunks: list[bytes] = []
        self._size = self._head_size = self._framing = 0
        self._in_head = True
        self._complete = self._framed = False
        self.answered = self.reusable = False

    def close(self) -> None:
        self._sock.close()

    def quiet(self) -> bool:
        """Return whether the idle connection has received nothing, in particular no end of stream."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return not poll.poll(0)

    def exchange(self, request: Sequence[bytes], deadline: float) -> tuple[int, bytes]:
        """Raises OSError, TimeoutError among them, and ValueError for what is no answer."""
        self._chunks = []
        self._size = self._head_size = self._framing = 0
        self._in_head = True
        self._complete = self._framed = self.answered = self.reusable = False
        broken = self._send(request, deadline)
        while not self._complete:
            self._sock.settimeout(_left(deadline))
            data = self._sock.recv(CHUNK)
            if not data:
                if self.answered and not (self._in_head or self._framed):
                    break  # an answer that did not say how long it is ends where the connection does
                raise broken or ConnectionResetError("unexpected EOF" if self.answered else "EOF")
            self.answered = True
            self._feed(data)
        self.reusable = self.reusable and broken is None
        return self._parser.get_status_code(), b"".join(self._chunks)

    def _send(self, request: Sequence[bytes], deadline: float) -> OSError | None:
        """Send a request. One that breaks off may have been answered already: too large, for one."""
        try:
            for piece in request:
                self._sock.settimeout(_left(deadline))
                self._sock.sendall(piece)
        except (BrokenPipeError, ConnectionResetError) as error:
            return error
        return None

    def _feed(self, data: bytes) -> None:
        if self._in_head:
            self._head_size += len(data)
        else:
            self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            ours = isinstance(error, httptools.HttpParserCallbackError)  # raised by a method below
            raise ValueError(str(error.__context__) if ours else f"not HTTP: {error}") from None
        if self._in_head and self._head_size > LARGEST_HEAD:
            raise ValueError(f"headers longer than {LARGEST_HEAD} bytes")
        if self._framing > LARGEST_HEAD:
            raise ValueError(f"trailers or sizes of chunks longer than {LARGEST_HEAD} bytes")

    # ---- what httptools calls

    def on_header(self, name: bytes, value: bytes) -> None:
        self._framed = self._framed or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self._in_head = False

    def on_body(self, chunk: bytes) -> None:
        self._framing = max(0, self._framing - 2 * len(chunk))  # what is out of proportion to the content
        self._size += len(chunk)
        if self._size > LARGEST_ANSWER:
            raise ValueError(f"an answer longer than {LARGEST_ANSWER} bytes")
        self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:  # 103 Early Hints and the like come before the answer
            self._in_head, self._framed = True, False
            return
        self._complete = True
        self.reusable = self._parser.should_keep_alive()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _in_words(error: Exception, answered: bool) -> str:
    """What went wrong, in the words of Go's HTTP client where it has some."""
    if isinstance(error, TimeoutError):
        if answered:
            return "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
        return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"tls: {error.reason or error}"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower() if error.errno else str(error) or type(error).__name__
    return str(error)


def _authorization(parts: SplitResult) -> str:
    """The header for a user and password in the URL."""
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Authorization: Basic {base64.b64encode(pair.encode()).decode('ascii')}\r\n"
