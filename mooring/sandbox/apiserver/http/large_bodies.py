"""Large bodies are decoded in a thread, so that other requests need not wait for them."""

from __future__ import annotations

import asyncio
from typing import Final

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.kinds.codec import Codec, Decoded, FieldValidation
from mooring.sandbox.apiserver.verbs.body import JSON, to_json
from mooring.sandbox.apiserver.verbs.options import write_options
from mooring.sandbox.apiserver.verbs.request import Request

LARGE: Final = 128 * 1024
"""Bytes of a body that take milliseconds to decode."""
_OPTIONS: Final = {"create": "CreateOptions", "update": "UpdateOptions"}


async def decode_in_advance(request: Request) -> None:
    """Decode the body of a create or update. Errors are reported when the request is handled."""
    if len(request.body) < LARGE or request.verb not in _OPTIONS:
        return
    try:
        validation = write_options(request.params, _OPTIONS[request.verb]).field_validation
        request.body, request.decoded = await asyncio.to_thread(
            _decode, request.body, request.content_type, request.resource.kind, request.codec, validation
        )
        request.content_type = JSON
    except ApiError:
        return


def _decode(
    data: bytes, content_type: str, kind: str, codec: Codec, validation: FieldValidation
) -> tuple[bytes, Decoded | ApiError]:
    body = to_json(data, content_type, kind, codec.type)
    try:
        return body, codec.decode(body, validation)
    except ApiError as error:
        return body, error
