"""What containers listen at, and what the programs there see of their container."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mooring.sandbox.network.messages import TCP, UDP, Query, Reply, Speech, TlsError
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.loads import Load
from mooring.sandbox.programs.wire import Client

if TYPE_CHECKING:
    from mooring.sandbox.programs.program import Outcome

ANY_PORT: Final = 0
_HTML: Final = re.compile(
    r"\s*<(!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[\s>]",
    re.IGNORECASE,
)


class Process:
    """A running container. `lines` takes what the server logs, `exit` after how many seconds it ends with
    which code, `loads` what it uses from now on; `state` is kept for as long as the container runs."""

    def __init__(
        self,
        name: str,
        address: str,
        files: Files,
        started: float,
        now: float,
        client: Client,
        state: dict[str, Any],
        run: Callable[[str], Outcome | None],
        *,
        is_stopping: bool = False,
    ) -> None:
        self.name = name
        self.address = address
        self.files = files
        self.started = started
        self.now = now
        self.client = client
        self.state = state
        self.run = run
        self.is_stopping = is_stopping
        self.lines: list[str] = []
        self.exit: tuple[float, int] | None = None
        self.loads: list[Load] = []

    def log(self, line: str) -> None:
        """Log a line as Go programs do."""
        self.lines.append(f"{datetime.fromtimestamp(self.now, UTC):%Y/%m/%d %H:%M:%S} {line}\n")


Answer = Callable[[Query, Process], Reply]


class Listener(NamedTuple):
    """A port at which a program listens, with what it answers."""

    port: int
    answer: Answer
    protocol: str = TCP
    is_secure: bool = False
    is_raw: bool = False
    """Whether it answers whatever is sent, by TCP without HTTP."""

    @property
    def speech(self) -> Speech:
        if self.is_raw:
            return Speech.TEXT
        return Speech.ANY if self.port == ANY_PORT else Speech.HTTP


def answer_query(listener: Listener, query: Query, process: Process) -> Reply:
    """Return the answer of a program. Raises NetworkError."""
    if listener.protocol == UDP or listener.is_raw:
        return listener.answer(query, process)
    if not query.method:
        return text("400 Bad Request", 400)
    if query.scheme == "https" and not listener.is_secure and listener.port != ANY_PORT:
        raise TlsError
    if query.scheme != "https" and listener.is_secure:
        return text("Client sent an HTTP request to an HTTPS server.\n", 400)
    reply = listener.answer(query, process)
    return reply if query.method != "HEAD" else reply._replace(body=b"")


def find_listener(listeners: tuple[Listener, ...], protocol: str, port: int) -> Listener | None:
    matching = (one for one in listeners if one.protocol == protocol and one.port in (port, ANY_PORT))
    return next(matching, None)


def text(body: str, status: int = 200) -> Reply:
    """Return text as Go programs send it that do not name its type."""
    if _HTML.match(body):
        return html(body, status)
    return Reply(status, body.encode(errors="surrogateescape"))


def html(body: str, status: int = 200) -> Reply:
    data = body.encode(errors="surrogateescape")
    return Reply(status, data, {"content-type": "text/html; charset=utf-8"})


def json_text(body: bytes) -> Reply:
    """Return JSON as Go programs send it that do not name its type."""
    return Reply(200, body)


def hang_up(query: Query, process: Process) -> Reply:
    """Accept a connection and close it: the protocol is not known."""
    return Reply(0)


def placeholder(query: Query, process: Process) -> Reply:
    """Answer for a program that is not known."""
    return text(
        f"This is a placeholder: the program in pod {process.name} is not known, and no containers run in a "
        "sandbox cluster.\n"
    )


UNKNOWN: Final = (Listener(ANY_PORT, placeholder),)
"""A program that is not known is taken to listen at all ports."""
