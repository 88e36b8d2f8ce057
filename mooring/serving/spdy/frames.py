"""Frames of SPDY/3.1: from bytes as they come, and to bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from mooring.serving.spdy.headers import LARGEST, HeaderReader, HeaderWriter, SpdyError

REFUSED_STREAM: Final = 3
CANCEL: Final = 5
INITIAL_WINDOW: Final = 7
"""The setting with the bytes that a stream may send before its window is updated."""

_FIN: Final = 1
_CONTROL: Final = 0x80000000
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _SETTINGS, _PING, _GO_AWAY, _HEADERS = 1, 2, 3, 4, 6, 7, 8
_WINDOW_UPDATE: Final = 9
_VERSION: Final = 3
_HEAD: Final = struct.Struct(">II")
_ONE: Final = struct.Struct(">I")
_SETTING: Final = struct.Struct(">II")
_31_BITS: Final = 0x7FFFFFFF
_24_BITS: Final = 0xFFFFFF
_SIZES: Final = {_RST_STREAM: 8, _PING: 4, _GO_AWAY: 8, _WINDOW_UPDATE: 8}


class Data(NamedTuple):
    """A part of what a stream sends; `is_last` if nothing follows."""

    stream: int
    data: bytes
    is_last: bool = False


class SynStream(NamedTuple):
    """A new stream."""

    stream: int
    headers: Mapping[str, str]
    is_last: bool = False


class SynReply(NamedTuple):
    """A stream was accepted."""

    stream: int
    headers: Mapping[str, str]


class RstStream(NamedTuple):
    """The end of a stream in both directions."""

    stream: int
    status: int


class Settings(NamedTuple):
    values: Mapping[int, int]


class Ping(NamedTuple):
    id: int


class GoAway(NamedTuple):
    """The end of the connection."""

    last_stream: int
    status: int = 0


class WindowUpdate(NamedTuple):
    """How many more bytes a stream may send; stream 0 is all together."""

    stream: int
    size: int


Frame = Data | SynStream | SynReply | RstStream | Settings | Ping | GoAway | WindowUpdate


class FrameReader:
    """Reads what a client sends. Data is passed on as it comes, so only control frames are gathered."""

    def __init__(self) -> None:
        self._headers = HeaderReader()
        self._buffer = b""
        self._at = 0  # where the next frame begins
        self._data: tuple[int, int, bool] | None = None
        """The data frame that is being read: its stream, the bytes left, and whether it is the last."""

    def read(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete with `data`. Raises SpdyError."""
        self._buffer, self._at = self._buffer[self._at :] + data, 0
        while (frame := self._next()) is not None:
            if not isinstance(frame, bool):
                yield frame

    def _next(self) -> Frame | bool | None:
        """Return the next frame, True if there is none to handle, or None if more bytes are needed."""
        if self._data is not None:
            return self._next_data(*self._data)
        left = len(self._buffer) - self._at - _HEAD.size
        if left < 0:
            return None
        first, second = _HEAD.unpack_from(self._buffer, self._at)
        flags, size = second >> 24, second & _24_BITS
        if not first & _CONTROL:
            if not first:
                raise SpdyError("data without a stream")
            self._data = first, size, bool(flags & _FIN)
            self._at += _HEAD.size
            return True
        if size > LARGEST:
            raise SpdyError(f"a control frame exceeds {LARGEST} bytes")
        if left < size:
            return None
        self._at += _HEAD.size
        return self._control(first, flags, self._take(size)) or True

    def _next_data(self, stream: int, left: int, is_last: bool) -> Frame | None:
        part = self._take(left)
        if left and not part:
            return None
        left -= len(part)
        self._data = (stream, left, is_last) if left else None
        return Data(stream, part, is_last and not left)

    def _take(self, size: int) -> bytes:
        part = self._buffer[self._at : self._at + size]
        self._at += len(part)
        return part

    def _control(self, first: int, flags: int, body: bytes) -> Frame | None:
        """Return a control frame; None for a type that is ignored."""
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != _VERSION:
            raise SpdyError(f"version {version} is not supported")
        if kind in _SIZES and len(body) != _SIZES[kind]:
            raise SpdyError(f"a frame of type {kind} has {len(body)} bytes")
        match kind:
            case 1:
                stream, _, _ = _unpack(">IIH", body)
                return SynStream(_stream(stream), self._headers.read(body[10:]), bool(flags & _FIN))
            case 2:
                return SynReply(_stream(_unpack(">I", body)[0]), self._headers.read(body[4:]))
            case 3:
                stream, status = _unpack(">II", body)
                return RstStream(_stream(stream), status)
            case 4:
                return Settings(_read_settings(body))
            case 6:
                return Ping(_unpack(">I", body)[0])
            case 7:
                return GoAway(*_unpack(">II", body))
            case 8:
                self._headers.read(body[4:])  # also changes how those after it are read
            case 9:
                stream, delta = _unpack(">II", body)
                return WindowUpdate(stream & _31_BITS, delta & _31_BITS)
        return None


class FrameWriter:
    """Writes frames to a client."""

    def __init__(self) -> None:
        self._headers = HeaderWriter()

    def write(self, frame: Frame) -> bytes:
        match frame:
            case Data(stream, data, is_last):
                return _HEAD.pack(stream, (_FIN if is_last else 0) << 24 | len(data)) + data
            case SynStream(stream, headers, is_last):
                body = struct.pack(">IIH", stream, 0, 0) + self._headers.write(headers)
                return _control(_SYN_STREAM, body, _FIN if is_last else 0)
            case SynReply(stream, headers):
                return _control(_SYN_REPLY, _ONE.pack(stream) + self._headers.write(headers))
            case RstStream(stream, status):
                return _control(_RST_STREAM, _HEAD.pack(stream, status))
            case Settings(values):
                parts = [_ONE.pack(len(values)), *(_SETTING.pack(*setting) for setting in values.items())]
                return _control(_SETTINGS, b"".join(parts))
            case Ping(id):
                return _control(_PING, _ONE.pack(id))
            case GoAway(last_stream, status):
                return _control(_GO_AWAY, _HEAD.pack(last_stream, status))
            case WindowUpdate(stream, size):
                return _control(_WINDOW_UPDATE, _HEAD.pack(stream, size))


def _control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION << 16 | kind, flags << 24 | len(body)) + body


def _unpack(form: str, body: bytes) -> tuple[int, ...]:
    try:
        return struct.unpack_from(form, body)
    except struct.error:
        raise SpdyError("a frame is too short") from None


def _stream(number: int) -> int:
    if not number & _31_BITS:
        raise SpdyError("a frame without a stream")
    return number & _31_BITS


def _read_settings(body: bytes) -> dict[int, int]:
    (count,) = _unpack(">I", body)
    if len(body) != _ONE.size + count * _SETTING.size:
        raise SpdyError("the number of settings is invalid")
    return {number & _24_BITS: value for number, value in _SETTING.iter_unpack(body[_ONE.size :])}
