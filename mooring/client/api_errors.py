"""Errors of requests to an API server.

ClusterError
├── ApiError        the server refused the request; code, reason and message are from its Status
└── Unreachable     no response: connection refused or cut, invalid certificate, timeout
"""

from __future__ import annotations

from typing import Any


class CredentialsError(ValueError):
    """Credentials that cannot be used: which file and field, what is wrong, and what is expected."""


class ClusterError(Exception):
    """Base class of ApiError and Unreachable."""


class ApiError(ClusterError):
    """A response of 400 or above, with the fields of its Status."""

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
        self.request = request  # "POST /api/v1/…": the request
        self.details = details or {}
        self.retry_after = retry_after

    @property
    def not_found(self) -> bool:
        return self.code == 404

    @property
    def conflict(self) -> bool:
        return self.code == 409

    @property
    def gone(self) -> bool:
        """Whether the requested resource version has been compacted."""
        return self.code == 410

    @property
    def namespace_terminating(self) -> bool:
        """Whether an object could not be created because its namespace is being deleted."""
        causes = self.details.get("causes")
        return isinstance(causes, list) and any(
            isinstance(cause, dict) and cause.get("reason") == "NamespaceTerminating" for cause in causes
        )

    @property
    def transient(self) -> bool:
        """Whether a retry may succeed."""
        return self.code in (408, 425, 429) or self.code >= 500


class Unreachable(ClusterError):  # noqa: N818 - the name says what the server is
    """The server did not respond."""

    def __init__(self, server: str, cause: str, *, request: str = "", sent: bool = True) -> None:
        super().__init__(f"{server}: {cause}")
        self.server = server
        self.cause = cause
        self.request = request
        self.sent = sent  # False if the request certainly did not reach the server
