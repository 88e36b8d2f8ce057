"""What can go wrong between Mooring and an API server.

ClusterError
├── ApiError        the server answered, and refused: code, reason and message are its own
└── Unreachable     no answer: refused connection, wrong certificate, time-out, cut in the middle
"""

from __future__ import annotations

from typing import Any


class ClusterError(Exception):
    """The base of both."""


class ApiError(ClusterError):
    """An answer of 400 or above, with what its Status says."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        request: str = "",
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason  # NotFound, Conflict, Forbidden, …
        self.message = message
        self.request = request  # "POST /api/v1/…": which request it answers
        self.details = details or {}
        self.retry_after = retry_after

    @property
    def told(self) -> str:
        """For a log: with what was asked. (The message alone is what pods' users see.)"""
        return f"{self.message} ({self.code} {self.reason}, {self.request})"

    @property
    def not_found(self) -> bool:
        return self.code == 404

    @property
    def conflict(self) -> bool:
        return self.code == 409

    @property
    def gone(self) -> bool:
        """The resource version asked for is no longer kept."""
        return self.code == 410

    @property
    def transient(self) -> bool:
        """Whether the same request may be answered otherwise a little later."""
        return self.code in (408, 425, 429) or self.code >= 500


class Unreachable(ClusterError):  # noqa: N818 - the name says what the server is
    """There was no answer: which server, and why."""

    def __init__(self, server: str, cause: str, *, request: str = "", sent: bool = True) -> None:
        super().__init__(f"{server}: {cause}")
        self.server = server
        self.cause = cause
        self.request = request
        self.sent = sent  # False: the request certainly did not reach the server
