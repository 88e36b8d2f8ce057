"""Spans of time, rates and ranges as scenario files write them. Errors are ValueErrors."""

from __future__ import annotations

import re
from math import isfinite

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|d|w)", re.ASCII)
_SPAN = re.compile(rf"(?:0|(?:{_PART.pattern})+)", re.ASCII)
_RATE = re.compile(r"(\d+\.?\d*(?:[eE][+-]?\d+)?)\s*/\s*(ms|s|sec|m|min|h|hour|d|day|w|week)", re.ASCII)
_LONG = {"sec": "s", "min": "m", "hour": "h", "day": "d", "week": "w"}
MOST_SEEDS = 100_000
LONGEST_SPAN = 1000 * 365 * 86400.0


def parse_span(value: object) -> float:
    """Seconds: `90`, `"30s"`, `"1h30m"`, `"7d"`."""
    seconds = -1.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = value
    elif isinstance(value, str) and _SPAN.fullmatch(value):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    if seconds > LONGEST_SPAN and isfinite(seconds):
        raise ValueError(f"expected a duration of at most 1000 years, found {_show(value)}")
    if 0 <= seconds <= LONGEST_SPAN:
        return float(seconds)
    raise ValueError(f'expected a duration such as "30s", "1h30m" or "7d", found {_show(value)}')


def parse_rate(value: object) -> float:
    """Per second: `"2/s"`, `"300/min"`, `"10/h"`."""
    match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or float(match[1]) <= 0:
        raise ValueError(f'expected a rate such as "2/s" or "300/min", found {_show(value)}')
    return float(match[1]) / _UNITS[_LONG.get(match[2], match[2])]


def parse_seeds(value: object) -> list[int]:
    """`7`, `"42..51"` (both included) or a list."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return [value]
    if isinstance(value, list) and value and all(type(each) is int and each >= 0 for each in value):
        return list(dict.fromkeys(value))
    if isinstance(value, str):
        first, dots, last = value.partition("..")
        if dots and first.strip().isdigit() and last.strip().isdigit():
            low, high = int(first), int(last)
            if low <= high < low + MOST_SEEDS:
                return list(range(low, high + 1))
    raise ValueError(f"expected a seed, a range such as 42..51, or a list of seeds, found {_show(value)}")


def parse_share(value: object) -> float:
    """A percentage such as `"100%"`, as a share of 1."""
    if isinstance(value, str) and re.fullmatch(r"\d+\.?\d*%", value.strip(), re.ASCII):
        return float(value.strip()[:-1]) / 100
    raise ValueError(f'expected a percentage such as "100%", found {_show(value)}')


def format_span(seconds: float) -> str:
    """A duration for people: `1d 2h`, `3m 20s`, `250ms`."""
    if not isfinite(seconds):
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms" if seconds else "0s"
    if seconds < 60:
        return f"{seconds:.3g}s"
    left, parts = round(seconds), []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def _show(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else "null" if value is None else str(value)
