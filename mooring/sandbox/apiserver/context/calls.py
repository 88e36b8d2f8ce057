"""Calls to webhooks, which a write needs before it can go on.

Verbs do not wait: a write that needs a call stops with `CallsNeeded`, the call is made, and the write begins
again from what is stored then, with the answers so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from mooring.sandbox.apiserver.objects import Tree


class Call(NamedTuple):
    """A request to a webhook: where to, and what it asks."""

    webhook: str
    client_config: bytes
    timeout: int
    review: bytes
    """The AdmissionReview without the uid of the request."""


class Reply(NamedTuple):
    """A decoded answer, or why there is none."""

    tree: Tree
    uid: str
    problem: str = ""


class CallsNeeded(Exception):  # noqa: N818 (not an error: the write begins again)
    def __init__(self, calls: list[Call]) -> None:
        super().__init__(calls)
        self.calls = calls


class TooLongError(Exception):
    """A request takes too long for the event loop: it begins again in a thread."""


class Calls:
    """What one request has called, and what must be the same each time it begins again."""

    def __init__(self, seed: int, now: str) -> None:
        self.seed = seed
        self.now = now
        self.replies: dict[Call, Reply] = {}

    def get(self, calls: list[Call]) -> list[Reply]:
        """Return the replies. Raises CallsNeeded if some were not called yet."""
        missing = [call for call in calls if call not in self.replies]
        if missing:
            raise CallsNeeded(missing)
        return [self.replies[call] for call in calls]


ACTIVE: ContextVar[Calls | None] = ContextVar("calls", default=None)
"""The calls of the request that is handled now."""


class _NoCalls(Calls):
    def get(self, calls: list[Call]) -> list[Reply]:
        return [Reply({}, "", "not called") for _ in calls]


@contextmanager
def without_calls() -> Iterator[None]:
    """Let calls fail: what is done is not a request, so it cannot begin again."""
    token = ACTIVE.set(_NoCalls(0, ""))
    try:
        yield
    finally:
        ACTIVE.reset(token)


def call_webhooks(calls: list[Call]) -> list[Reply]:
    """Return the replies for the request that is handled now. Raises CallsNeeded, or TooLongError if the
    request does not expect calls."""
    active = ACTIVE.get()
    if active is None:
        raise TooLongError
    return active.get(calls)
