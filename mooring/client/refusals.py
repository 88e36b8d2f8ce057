"""Answers that refuse, as errors: an API server's Status, or whatever a proxy before it says instead."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from mooring.client.api_errors import ApiError
from mooring.client.http.connection import Response

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises where bytes are not JSON, or not of the expected form."""

_SNIPPET = 300  # characters that are shown of what cannot be read
_LARGEST_STATUS = 1024**2


class _Status(msgspec.Struct):
    """Status object of a failed request. Its fields may be null."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


_status_of = msgspec.json.Decoder(_Status).decode


def refusal(request: str, answer: Response) -> ApiError:
    """The error that an answer of 300 and above stands for."""
    status = _Status()
    if len(answer.body) <= _LARGEST_STATUS:
        with suppress(*UNREADABLE):
            status = _status_of(answer.body)
    said = f": {snippet(answer.body)}" if answer.body else ""
    retry_after = answer.header(b"retry-after")
    return ApiError(
        answer.status,
        status.reason or "",
        status.message or f"the server returned {answer.status}{said}",
        request=request,
        details=status.details,
        retry_after=float(retry_after) if retry_after.isdecimal() else None,
    )


def watch_error(raw: msgspec.Raw) -> ApiError:
    """The error of a watch's ERROR event. Raises one of UNREADABLE."""
    status = _status_of(raw)
    code = status.code or 500
    message = status.message or f"the server ended the watch with {code}"
    return ApiError(code, status.reason or "", message, details=status.details)


def snippet(body: bytes) -> str:
    """The beginning of a text, on one line."""
    text = " ".join(body[: 4 * _SNIPPET].decode(errors="replace").split())
    return text if len(text) <= _SNIPPET else text[:_SNIPPET] + "…"
