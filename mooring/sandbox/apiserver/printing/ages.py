"""Ages in human-readable form."""

from __future__ import annotations

from mooring.api.times import parse_time
from mooring.sandbox.apiserver.objects import Tree

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human_duration(seconds: float) -> str:
    """Format seconds in two or three significant figures, like apimachinery's HumanDuration.

    Clocks differ: up to two seconds in the future count as now.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, unit: int, name: str, small_unit: int, small_name: str) -> str:
    count, rest = divmod(whole, unit)
    rest //= small_unit
    return f"{count}{name}{rest}{small_name}" if rest else f"{count}{name}"


class Ages:
    """Ages at one moment, the same for all rows of a table."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._ages: dict[str, str] = {}  # many objects are created in the same second

    def since(self, time: str | None) -> str:
        """Return the age of an RFC 3339 time."""
        if not time:
            return "<unknown>"
        age = self._ages.get(time)
        if age is None:
            age = self._ages[time] = human_duration(self._now - parse_time(time))
        return age

    def of(self, obj: Tree) -> str:
        """Return the age of an object."""
        return self.since(obj["metadata"].get("creationTimestamp"))
