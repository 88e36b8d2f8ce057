"""Messages in the network of a cluster, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

LARGEST: Final = 1024 * 1024  # bytes of a body
LONGEST_FORM: Final = 128 * 1024  # bytes of a body that is a form
_MOST_PARAMETERS: Final = 1000
TCP: Final = "TCP"
UDP: Final = "UDP"
_NO_HEADERS: Final[Mapping[str, str]] = {}


class Query(NamedTuple):
    """A request by HTTP; without a method, text by TCP or UDP. Names of headers are in lower case."""

    method: str = ""
    target: str = "/"
    """The path and the query, as they are sent."""
    headers: Mapping[str, str] = _NO_HEADERS
    body: bytes = b""
    scheme: str = "http"
    peer: str = ""
    """The address and the port of the client, as the server sees them."""
    is_end: bool = False
    """Whether nothing follows the text of a connection by TCP."""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path or "/"

    @property
    def is_form(self) -> bool:
        return self.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")

    def param(self, name: str) -> str:
        """Return a parameter of the query or of a form, "" if it is not there."""
        texts = [urlsplit(self.target).query]
        if self.is_form:
            texts.insert(0, self.body.decode(errors="replace"))
        return next((values[name] for values in map(_read_form, texts) if name in values), "")


@lru_cache(8)
def _read_form(text: str) -> dict[str, str]:
    """Return the first value of each parameter; none if they are too many."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        return {}
    return dict(reversed(pairs))


class Reply(NamedTuple):
    """An answer. By UDP, one without a body is none; by HTTP, one with status 0 is none."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {"content-type": "text/plain; charset=utf-8"}
    piece: int = LARGEST
    """Bytes of the body that a program sends at a time by TCP without HTTP."""


class Budget(Protocol):
    """The work that a client may still cause."""

    def spend(self, units: int) -> None:
        """Account for work; a unit takes about 0.3 µs. Raises an error if it is too much."""
        ...


class Speech(Enum):
    """What a program that listens by TCP understands."""

    HTTP = "HTTP"
    TEXT = "text"
    ANY = "any"
    """It is not known; HTTP is answered."""


class NetworkError(Exception):
    """There is no answer."""


class RefusedError(NetworkError):
    """Nothing listens at the port."""


class UnreachableError(NetworkError):
    """There is no answer until the timeout of the client."""


class TlsError(NetworkError):
    """The server does not speak TLS."""


class OutsideError(NetworkError):
    """The address or the name is not one of the cluster."""


class UnknownHostError(NetworkError):
    """There is no such name in the cluster."""
