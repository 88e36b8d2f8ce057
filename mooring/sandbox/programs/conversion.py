"""`agnhost crd-conversion-webhook`: converts the custom resource of Kubernetes' own tests."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.serving.messages import Answer, as_json

Tree = dict[str, Any]

_V1: Final = "stable.example.com/v1"
_V2: Final = "stable.example.com/v2"
_SUCCESS: Final = {"status": "Success"}


class _ConversionError(Exception):
    """An object cannot be converted."""


async def convert_resources(path: str, body: bytes) -> Answer:
    """Answer a ConversionReview."""
    if path == "/readyz":
        return Answer(body=b"ok")
    if path != "/crdconvert":
        return Answer(404, b"404 page not found\n")
    try:
        review = msgspec.json.decode(body)
        version, request = review["apiVersion"], review["request"]
        response = _respond(request)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        return Answer(400, f"failed to deserialize body with error {error}".encode())
    response["uid"] = request.get("uid", "")
    return as_json({"kind": "ConversionReview", "apiVersion": version, "response": response})


def _respond(request: Tree) -> Tree:
    target = request["desiredAPIVersion"]
    try:
        objects = [{**_convert(obj, target), "apiVersion": target} for obj in request["objects"]]
    except _ConversionError as error:
        return {"convertedObjects": [], "result": {"status": "Failure", "message": str(error)}}
    return {"convertedObjects": objects, "result": _SUCCESS}


def _convert(obj: Tree, target: str) -> Tree:
    """Return an object with the host and port of the target version. Raises _ConversionError."""
    source, converted = obj["apiVersion"], dict(obj)
    if source == target:
        raise _ConversionError(f"conversion from a version to itself should not call the webhook: {target}")
    if source not in (_V1, _V2):
        raise _ConversionError(f'unexpected conversion version "{source}"')
    if target != (_V2 if source == _V1 else _V1):
        raise _ConversionError(f'unexpected conversion version "{target}"')
    if source == _V1 and "hostPort" in obj:
        parts = converted.pop("hostPort").split(":")
        if len(parts) != 2:
            raise _ConversionError(f"invalid hostPort value `{obj['hostPort']}`")
        converted["host"], converted["port"] = parts
    elif source == _V2 and ("host" in obj or "port" in obj):
        converted["hostPort"] = f"{converted.pop('host', '')}:{converted.pop('port', '')}"
    return converted
