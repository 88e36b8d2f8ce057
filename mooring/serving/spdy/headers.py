"""Headers of SPDY/3 streams: blocks of names and values, compressed across all frames of a connection."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

from mooring.serving.spdy.dictionary import DICTIONARY

LARGEST: Final = 16 * 1024  # bytes of a block
_MOST: Final = 100  # headers of a block
_NUMBER: Final = struct.Struct(">I")


class SpdyError(Exception):
    """The client breaks the protocol; what it sends from then on cannot be read."""


class HeaderReader:
    """Reads the blocks of a connection in the order in which they come."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def read(self, data: bytes) -> dict[str, str]:
        """Return the headers of a block. Raises SpdyError."""
        try:
            block = self._inflate.decompress(data, LARGEST)
        except zlib.error as error:
            raise SpdyError(f"headers: {error}") from None
        if len(block) >= LARGEST or self._inflate.eof:
            raise SpdyError(f"headers exceed {LARGEST} bytes")
        return _parse(block)


class HeaderWriter:
    """Writes the blocks of a connection."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(wbits=11, memLevel=1, zdict=DICTIONARY)

    def write(self, headers: Mapping[str, str]) -> bytes:
        parts = [_NUMBER.pack(len(headers))]
        for text in (text for header in headers.items() for text in header):
            data = text.encode("latin-1", "replace")
            parts += _NUMBER.pack(len(data)), data
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _parse(block: bytes) -> dict[str, str]:
    count, at = _text_length(block, 0)
    if count > _MOST:
        raise SpdyError(f"more than {_MOST} headers")
    headers: dict[str, str] = {}
    for _ in range(count):
        name, at = _text(block, at)
        value, at = _text(block, at)
        if not name or name != name.lower() or name in headers:
            raise SpdyError(f"invalid header {name!r}")
        headers[name] = value
    if at != len(block):
        raise SpdyError("headers: too many bytes")
    return headers


def _text(block: bytes, at: int) -> tuple[str, int]:
    size, start = _text_length(block, at)
    if start + size > len(block):
        raise SpdyError("headers: too few bytes")
    return block[start : start + size].decode("latin-1"), start + size


def _text_length(block: bytes, at: int) -> tuple[int, int]:
    if at + _NUMBER.size > len(block):
        raise SpdyError("headers: too few bytes")
    return _NUMBER.unpack_from(block, at)[0], at + _NUMBER.size
