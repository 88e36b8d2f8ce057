"""Heat maps as PNG images inside a page."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np
import numpy.typing as npt

from mooring.simulate.arrivals import FloatArray

_STOPS = np.array([[236, 240, 245], [126, 176, 213], [38, 109, 169], [14, 46, 92]], np.float64)
_AT = np.array([0.0, 0.4, 0.8, 1.0])


def heat_map(shares: FloatArray) -> str:
    """A `data:` URL of an image with a pixel per value; 0 is light, 1 is dark."""
    channels = [np.interp(shares, _AT, _STOPS[:, i]).astype(np.uint8) for i in range(3)]
    return "data:image/png;base64," + b64encode(_png(np.stack(channels, axis=-1))).decode()


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body
