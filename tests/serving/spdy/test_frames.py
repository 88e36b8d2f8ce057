"""Frames of SPDY/3.1, as clients write them and as hostile clients do."""

from __future__ import annotations

import struct
import zlib

import pytest

from mooring.serving.spdy.dictionary import DICTIONARY
from mooring.serving.spdy.frames import (
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    Ping,
    RstStream,
    Settings,
    SynReply,
    SynStream,
    WindowUpdate,
)
from mooring.serving.spdy.headers import LARGEST, SpdyError

RECORDED = bytes.fromhex(
    "80030001000000430000000100000000000078f9e3c6a7c26260606006a7b392a2d4c45c6851c29a5a54945f0429968b4a40b485818501"
    "0303036711241a3353181818180d00000000ffff800300010000001a00000003000000000000c2aa992525b12491b05e00000000ffff00"
    "0000010100000080030006000000040000000180030007000000080000000000000000"
)
"""What moby/spdystream writes for a pair of streams, an empty last frame, a ping and the end."""
PORT = {"port": "8080", "requestid": "0"}


def read(*pieces: bytes) -> list[Frame]:
    reader = FrameReader()
    return [frame for piece in pieces for frame in reader.read(piece)]


def test_what_clients_in_go_write_is_read() -> None:
    expected = [
        SynStream(1, {"streamtype": "error", **PORT}),
        SynStream(3, {"streamtype": "data", **PORT}),
        Data(1, b"", is_last=True),
        Ping(1),
        GoAway(0),
    ]
    assert read(RECORDED) == expected
    assert read(*(bytes([one]) for one in RECORDED)) == expected


def test_what_is_written_can_be_read() -> None:
    frames: list[Frame] = [
        SynStream(1, {"a": "1", "b": ""}, is_last=True),
        SynReply(1, {}),
        RstStream(1, 5),
        Settings({7: 1024}),
        Ping(2),
        WindowUpdate(0, 5),
        Data(1, b"abc"),
        GoAway(1, 1),
    ]
    writer = FrameWriter()
    assert read(b"".join(map(writer.write, frames))) == frames


def test_data_is_passed_on_as_it_comes() -> None:
    frame = FrameWriter().write(Data(1, b"abcdef", is_last=True))
    assert read(frame[:9], frame[9:11], frame[11:]) == [
        Data(1, b"a"),
        Data(1, b"bc"),
        Data(1, b"def", is_last=True),
    ]


def test_frames_of_unknown_types_are_ignored() -> None:
    unknown = struct.pack(">II", 0x80030000 | 99, 4) + b"abcd"
    assert read(unknown + FrameWriter().write(Ping(1))) == [Ping(1)]


def block(*texts: bytes, count: int | None = None) -> bytes:
    """Return compressed headers."""
    data = struct.pack(">I", len(texts) // 2 if count is None else count)
    data += b"".join(struct.pack(">I", len(one)) + one for one in texts)
    deflate = zlib.compressobj(zdict=DICTIONARY)
    return deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH)


def opening(headers: bytes) -> bytes:
    body = struct.pack(">IIH", 1, 0, 0) + headers
    return struct.pack(">II", 0x80030001, len(body)) + body


@pytest.mark.parametrize(
    "data",
    [
        opening(block(b"a", b"x" * 10_000_000)),  # 10 MB in a few kB
        opening(block(*(b"%d" % n for n in range(2 * 101)))),
        opening(block(b"A", b"1")),
        opening(block(b"a", b"1", b"a", b"2")),
        opening(block(b"", b"1")),
        opening(block(b"a", b"1", count=2)),
        opening(block(b"a", b"1", count=0)),
        opening(block(count=2**32 - 1)),
        opening(b"not compressed"),
        opening(b""),
        struct.pack(">II", 0x80030001, LARGEST + 1),
        struct.pack(">II", 0x80030001, 4) + b"abcd",
        struct.pack(">II", 0x80020006, 4) + b"abcd",
        struct.pack(">II", 0x80030006, 3) + b"abc",
        struct.pack(">III", 0x80030004, 4, 2**32 - 1),
        struct.pack(">IIII", 0x80030003, 8, 0, 1),
        struct.pack(">II", 0, 4) + b"abcd",
    ],
)
def test_what_breaks_the_protocol_is_rejected(data: bytes) -> None:
    with pytest.raises(SpdyError):
        read(data)
