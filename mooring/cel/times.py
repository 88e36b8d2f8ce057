"""Durations and timestamps."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from mooring.cel.cel_errors import CelError, no_such_overload
from mooring.cel.values import Duration, Timestamp

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern})+)", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_FARTHEST = 2**63 - 1


def duration(value: Any) -> Duration:
    if type(value) is Duration:
        return value
    if type(value) is int:
        raise CelError("type conversion error from 'int' to 'google.protobuf.Duration'")
    if type(value) is not str:
        raise no_such_overload()
    if not _DURATION.fullmatch(value):
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    total = 0
    for number, unit in _PART.findall(value):
        whole, _, fraction = number.partition(".")
        total += int(whole or "0") * _UNITS[unit] + int(fraction or "0") * _UNITS[unit] // int(
            10 ** len(fraction)
        )
    return _bounded(-total if value.startswith("-") else total)


def _bounded(nanoseconds: int) -> Duration:
    if abs(nanoseconds) > _FARTHEST:
        raise CelError("duration overflow")
    return Duration(nanoseconds)


def timestamp(value: Any) -> Timestamp:
    if type(value) is Timestamp:
        return value
    if type(value) is int:
        return _moment(value * 10**9)
    if type(value) is not str:
        raise no_such_overload()
    match = _TIMESTAMP.fullmatch(value)
    try:
        if match is None:
            raise ValueError
        *numbers, fraction, zone = match.groups()
        moment = datetime(*map(int, numbers), tzinfo=_zone(zone))  # type: ignore[arg-type, misc]
    except ValueError:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'") from None
    whole = int((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1))
    return _moment(whole * 10**9 + int((fraction or "").ljust(9, "0")))


def _moment(nanoseconds: int) -> Timestamp:
    if not -62135596800 * 10**9 <= nanoseconds <= 253402300799999999999:
        raise CelError("timestamp overflow")
    return Timestamp(nanoseconds)


def _zone(text: str) -> Any:
    if text in ("Z", "UTC", ""):
        return UTC
    match = _OFFSET.fullmatch(text)
    if match is not None:
        sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise CelError(f"unknown time zone {text}") from None


def add(a: Any, b: Any) -> Any:
    if type(a) is Duration and type(b) is Duration:
        return _bounded(a.nanoseconds + b.nanoseconds)
    if {type(a), type(b)} == {Duration, Timestamp}:
        return _moment(a.nanoseconds + b.nanoseconds)
    raise no_such_overload()


def subtract(a: Any, b: Any) -> Any:
    if type(a) is Timestamp and type(b) is Timestamp:
        return _bounded(a.nanoseconds - b.nanoseconds)
    if type(b) is Duration and type(a) in (Duration, Timestamp):
        nanoseconds = a.nanoseconds - b.nanoseconds
        return _bounded(nanoseconds) if type(a) is Duration else _moment(nanoseconds)
    raise no_such_overload()


def duration_text(value: Duration) -> str:
    seconds = value.nanoseconds / 10**9
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def timestamp_text(value: Timestamp) -> str:
    seconds, rest = divmod(value.nanoseconds, 10**9)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{rest:09d}".rstrip("0") if rest else "") + "Z"


def _field(of_moment: Callable[[datetime], int], of_duration: int = 0) -> Callable[..., int]:
    """A getter: of a timestamp in a time zone, or of a duration in whole units of so many nanoseconds."""

    def evaluate(scope: Any, value: Any, zone: Any = "") -> int:
        if type(value) is Timestamp and type(zone) is str:
            return of_moment(value.in_zone(_zone(zone)))
        if type(value) is Duration and of_duration and zone == "":
            whole = abs(value.nanoseconds) // of_duration
            return -whole if value.nanoseconds < 0 else whole
        raise no_such_overload()

    return evaluate


def _milliseconds(scope: Any, value: Any, zone: Any = "") -> int:
    if type(value) is Timestamp:
        return int(value.nanoseconds // 10**6 % 1000)
    if type(value) is Duration:
        return int(value.nanoseconds / 10**6)
    raise no_such_overload()


METHODS: dict[str, Callable[..., Any]] = {
    "getFullYear": _field(lambda t: t.year),
    "getMonth": _field(lambda t: t.month - 1),
    "getDate": _field(lambda t: t.day),
    "getDayOfMonth": _field(lambda t: t.day - 1),
    "getDayOfWeek": _field(lambda t: t.isoweekday() % 7),
    "getDayOfYear": _field(lambda t: t.timetuple().tm_yday - 1),
    "getHours": _field(lambda t: t.hour, _UNITS["h"]),
    "getMinutes": _field(lambda t: t.minute, _UNITS["m"]),
    "getSeconds": _field(lambda t: t.second, _UNITS["s"]),
    "getMilliseconds": _milliseconds,
}
