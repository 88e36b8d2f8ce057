"""Times and durations, in and out of the texts that Kubernetes uses for them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:[.,](\d+))?([Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = (
    (moment.replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1) for moment in (datetime.min, datetime.max)
)
_USUAL = {20: "--TZZ", 27: "--T.Z"}
"""What stands between the numbers of nearly all times there are, by their length: Time and MicroTime."""


def parse_time(text: str) -> float:
    """Unix seconds of an RFC 3339 time; fractions of any length are accepted."""
    usual = _usual(text)
    if usual is not None:
        return usual.timestamp()
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f'time "{text}": expected a form such as 2006-01-02T15:04:05Z')
    day, clock, fraction, _, sign, hours, minutes = match.groups()
    try:
        zone = UTC
        if sign:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            zone = timezone(-offset if sign == "-" else offset)
        moment = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=zone)
    except ValueError as error:
        raise ValueError(f'time "{text}": {error}') from None
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    return seconds + float(f"0.{fraction or 0}")


def _usual(text: str) -> datetime | None:
    """The time, if it is a text of the usual form."""
    if _USUAL.get(len(text)) == text[4:5] + text[7:8] + text[10:11] + text[19:20] + text[-1:]:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            return None
    return None


def canonical_time(text: str, *, micro: bool = False) -> str:
    """A time as `format_time` writes it, which it most often is already. Raises ValueError."""
    if len(text) == (27 if micro else 20) and _usual(text) is not None:
        return text
    return format_time(parse_time(text), micro=micro)


def format_time(seconds: float, *, micro: bool = False) -> str:
    """The RFC 3339 text of Unix seconds: whole seconds as metav1.Time, or six digits as MicroTime. Times that
    it has no text for become the first or the last that it has."""
    if micro:
        second, fraction = divmod(round(seconds * 1_000_000), 1_000_000)
        return f"{_format_second(second)[:-1]}.{fraction:06d}Z"
    return _format_second(int(seconds // 1))


@lru_cache(maxsize=64)  # many objects are written within a second
def _format_second(second: int) -> str:
    second = min(max(second, _FIRST), _LAST)
    return (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)  # from year 1 on


def go_duration(seconds: float) -> str:
    """Seconds as Go prints a time.Duration: `1h0m0s`, `5m0s`, `1.5s`, `100ms`, `0s`."""
    nanos = round(seconds * 1_000_000_000)
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    if nanos == 0:
        return "0s"
    if nanos < 1_000_000_000:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if nanos >= size:
                return f"{sign}{_decimal(nanos, size)}{unit}"
    minutes, rest = divmod(nanos, 60_000_000_000)
    text = f"{_decimal(rest, 1_000_000_000)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(number: int, size: int) -> str:
    """number / size without trailing zeros; size is a power of ten."""
    whole, rest = divmod(number, size)
    digits = len(str(size)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
