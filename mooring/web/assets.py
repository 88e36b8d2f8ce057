"""The files of the page, read and compressed once."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mooring.serving.messages import Answer, Header

FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
SECURITY: tuple[Header, ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Asset(NamedTuple):
    content_type: str
    body: bytes
    compressed: bytes
    tag: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the files by their path below the page's address; the page itself is ""."""
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in TYPES:
            body = path.read_bytes()
            tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:16].encode()
            asset = Asset(TYPES[path.suffix], body, gzip.compress(body, 9, mtime=0), tag)
            found[path.relative_to(FOLDER).as_posix()] = asset
    found[""] = found["index.html"]
    return found


def asset_answer(path: str, accept_encoding: str, if_none_match: str) -> Answer | None:
    """Return the file at a path; None if there is none."""
    asset = assets().get(path)
    if asset is None:
        return None
    headers = (*SECURITY, (b"etag", asset.tag), (b"vary", b"accept-encoding"))
    if if_none_match.encode() == asset.tag:
        return Answer(304, b"", asset.content_type, headers)
    if "gzip" in accept_encoding:
        zipped = (*headers, (b"content-encoding", b"gzip"))
        return Answer(200, asset.compressed, asset.content_type, zipped)
    return Answer(200, asset.body, asset.content_type, headers)
