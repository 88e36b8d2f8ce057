"""/openapi: choose a document and its form, and say how long clients may cache it."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from typing import Final, NamedTuple

from mooring.sandbox.apiserver.http.negotiation import accepts_json
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.openapi.documents import OpenAPI
from mooring.sandbox.apiserver.openapi.v2_protobuf import MEDIA_TYPE as PROTOBUF_V2

Headers = list[tuple[bytes, bytes]]

_YEAR: Final = 365 * 86400
_ACCEPTED_V2: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_NOT_CACHED: Final = (b"cache-control", b"no-cache, private")
_JSON: Final = (b"content-type", b"application/json")
_VARY: Final = (b"vary", b"Accept")


class Reply(NamedTuple):
    code: int
    headers: Headers
    body: bytes = b""


_NOT_FOUND: Final = Reply(404, [_NOT_CACHED])
_NOT_ACCEPTABLE: Final = Reply(406, [_NOT_CACHED, _VARY])


def openapi_reply(
    openapi: OpenAPI,
    path: str,
    params: Mapping[str, list[str]],
    accept: str,
    cached: str,
    now: float,
    remote: Mapping[str, Tree],
) -> Reply:
    """Return the answer to a path below /openapi; `cached` is the entity tag of what the client has, and
    `remote` the entries of other servers in the index."""
    if path == "/openapi/v2":
        return _v2(openapi, accept, cached)
    if path.rstrip("/") == "/openapi/v3":
        return Reply(200, [_JSON, _NOT_CACHED], openapi.index(remote))
    if path.startswith("/openapi/v3/"):
        hash = (params.get("hash") or [""])[0]
        return _v3(openapi, path.removeprefix("/openapi/v3/"), hash, accept, cached, now)
    return _NOT_FOUND


def _v2(openapi: OpenAPI, accept: str, cached: str) -> Reply:
    if _ACCEPTED_V2 in accept:
        document, media = openapi.v2(protobuf=True), PROTOBUF_V2
    elif accepts_json(accept):
        document, media = openapi.v2(protobuf=False), "application/json"
    else:
        return _NOT_ACCEPTABLE
    etag = f'"{document.hash}"'
    headers = [(b"content-type", media.encode()), (b"etag", etag.encode()), _VARY, _NOT_CACHED]
    return Reply(304, headers) if cached == etag else Reply(200, headers, document.body)


def _v3(openapi: OpenAPI, path: str, hash: str, accept: str, cached: str, now: float) -> Reply:
    """Return a document. A URL with a hash never changes its content, so clients may cache it for good."""
    document = openapi.v3(path)
    if document is None:
        return _NOT_FOUND
    if not accepts_json(accept):
        return _NOT_ACCEPTABLE
    etag = f'"{document.hash}"'
    headers = [_JSON, (b"etag", etag.encode()), _VARY]
    if hash and hash != document.hash:
        location = f"/openapi/v3/{path}?hash={document.hash}"
        return Reply(301, [*headers, _NOT_CACHED, (b"location", location.encode())])
    if hash:
        expires = formatdate(now + _YEAR, usegmt=True).encode()
        headers += [(b"cache-control", b"public, immutable"), (b"expires", expires)]
    else:
        headers.append(_NOT_CACHED)
    return Reply(304, headers) if cached == etag else Reply(200, headers, document.body)
