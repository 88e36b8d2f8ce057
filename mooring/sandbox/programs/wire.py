"""The network as a program sees it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from mooring.sandbox.network.messages import NetworkError, Query, Reply
from mooring.sandbox.network.names import DnsRecord
from mooring.sandbox.network.network import Network
from mooring.sandbox.network.services import Source
from mooring.sandbox.programs.errors import ForeverError
from mooring.sandbox.programs.work import Work

T = TypeVar("T")

MOST_KEPT: Final = 2_000  # answers of one run; a program that asks for more is taken to run on
MOST_BYTES: Final = 4 * 1024 * 1024  # of these answers, and of what was sent for them
_PER_RECORD: Final = 200  # bytes of a DNS record


class Client(NamedTuple):
    """The network, as it is reached from one pod. With `work`, what it causes is accounted for: methods may
    raise ForeverError."""

    network: Network
    source: Source
    work: Work | None = None

    def find_records(self, name: str, kind: str = "A") -> list[DnsRecord]:
        return self.network.find_records(name, kind, self.work)

    def connect(self, address: str, port: int, protocol: str = "TCP") -> None:
        """Raises NetworkError."""
        self.network.connect(self.source, address, port, protocol, self.work)

    def find_sockets(self) -> list[tuple[str, str, int]]:
        """Return the protocol, address and port of each socket that listens in the network of the pod."""
        return self.network.find_sockets(self.source, self.work)

    def ask(self, address: str, port: int, query: Query, protocol: str = "TCP") -> Reply:
        """Raises NetworkError."""
        return self.network.ask(self.source, address, port, query, protocol, self.work)


class LaterError(ForeverError):
    """The program asks at a time that has not come yet; until then it is taken to run on."""


class Answers:
    """What a run of a container has asked so far, with the answers: when the run is evaluated again up to a
    later time, it gets the same."""

    def __init__(self) -> None:
        self._kept: dict[tuple[float, str, int], Any] = {}
        self._bytes = 0

    def get(self, key: tuple[float, str, int], act: Callable[[], T]) -> T:
        """Return what an action returned the first time. Raises NetworkError and ForeverError."""
        if key not in self._kept:
            if len(self._kept) >= MOST_KEPT or self._bytes >= MOST_BYTES:
                raise ForeverError
            try:
                self._kept[key] = act()
            except NetworkError as error:
                self._kept[key] = error
            self._bytes += len(key[1]) + _size(self._kept[key])  # the key has what was sent
        kept = self._kept[key]
        if isinstance(kept, NetworkError):
            raise kept
        result: T = kept
        return result


def _size(answer: object) -> int:
    if isinstance(answer, Reply):
        return len(answer.body)
    return len(answer) * _PER_RECORD if isinstance(answer, list) else 0


class Wire:
    """What connects one run of a program: it can ask up to a time, which is now."""

    def __init__(self, client: Client, until: float = math.inf, answers: Answers | None = None) -> None:
        self.client = client
        self._until = until
        self._answers = Answers() if answers is None else answers
        self._counts: dict[tuple[float, str], int] = {}

    def ask(self, at: float, what: str, act: Callable[[Client], T], work: Work) -> T:
        """Ask at a time. Raises NetworkError, LaterError and ForeverError."""
        if at > self._until:
            raise LaterError
        count = self._counts[at, what] = self._counts.get((at, what), 0) + 1
        client = self.client._replace(work=work)
        return self._answers.get((at, what, count), lambda: act(client))
