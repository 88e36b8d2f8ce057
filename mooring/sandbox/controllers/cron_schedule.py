"""Schedules in the form of cron: "30 6 * * mon-fri", "@hourly", "@every 90m"."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS: Final = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS))
_PART = re.compile(r"(\*|\?|(\w+)(?:-(\w+))?)(?:/(\d{1,9}))?", re.ASCII)
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ns|us|µs|ms|s|m|h)", re.ASCII)
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_YEARS_AHEAD: Final = 5
_FIRST: Final = datetime(2, 1, 1, tzinfo=UTC).timestamp()
_LAST: Final = datetime(9999, 11, 1, tzinfo=UTC).timestamp()
"""Calendars of all zones have the month after it, too."""


class ScheduleError(ValueError):
    """An invalid schedule."""


class Field(NamedTuple):
    """The values of a field; `any` where it says nothing."""

    values: frozenset[int]
    any: bool = False


class Every(NamedTuple):
    """Again and again after so many seconds."""

    seconds: int

    def next(self, after: float) -> float | None:
        return after // 1 + self.seconds

    def latest(self, first: float, now: float) -> float:
        """The last time up to now, of those that begin with the first."""
        return first + (now - first) // self.seconds * self.seconds


class Schedule(NamedTuple):
    """The minutes that five fields describe, in some time zone."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    zone: tzinfo = UTC

    @lru_cache(maxsize=4096)  # noqa: B019 - schedules are values, and few
    def next(self, after: float) -> float | None:
        """The first time after another; None where there is none in years: on the 31st of February, or after
        the year 9999."""
        time = max(after, _FIRST) // 60 * 60 + 60
        end = min(time + _YEARS_AHEAD * 366 * 86400, _LAST)
        while time < end:
            local = datetime.fromtimestamp(time, self.zone)
            if local.month not in self.month.values:
                time = _midnight(local.replace(day=1) + timedelta(days=32), first=True)
            elif not self._on(local):
                time = _midnight(local + timedelta(days=1))
            elif local.hour not in self.hour.values:
                time += 3600 - 60 * local.minute
            elif local.minute not in self.minute.values:
                time += 60 * self._minutes_to_skip(local.minute)
            else:
                return time
        return None

    def _minutes_to_skip(self, minute: int) -> int:
        """One by one where the offset of the zone may change within the hour."""
        if self.zone is not UTC:
            return 1
        return min((each for each in self.minute.values if each > minute), default=60) - minute

    def _on(self, local: datetime) -> bool:
        """Whether the schedule has a day: where it names days of both months and weeks, either will do."""
        day, weekday = local.day in self.day.values, local.isoweekday() % 7 in self.weekday.values
        return day and weekday if self.day.any or self.weekday.any else day or weekday

    def latest(self, first: float, now: float) -> float:
        """The last time up to now; the first is one of them."""
        span = 60.0
        while now - span > first and ((following := self.next(now - span)) is None or following > now):
            span *= 2
        latest = first
        candidate = self.next(max(first, now - span))
        while candidate is not None and candidate <= now:
            latest, candidate = candidate, self.next(candidate)
        return latest


def _midnight(local: datetime, *, first: bool = False) -> float:
    day = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return (day.replace(day=1) if first else day).timestamp()


@lru_cache(maxsize=1024)
def parse_schedule(text: str, zone: tzinfo = UTC) -> Schedule | Every:
    """Raises ScheduleError."""
    if text.startswith("@every "):
        return Every(_seconds(text.removeprefix("@every ")))
    fields = DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_BOUNDS):
        joined = " ".join(fields)
        raise ScheduleError(f"expected exactly {len(_BOUNDS)} fields, found {len(fields)}: [{joined}]")
    parsed = (_field(field, *bounds) for field, bounds in zip(fields, _BOUNDS, strict=True))
    minute, hour, day, month, weekday = parsed
    return Schedule(minute, hour, day, month, weekday, zone)


def _seconds(text: str) -> int:
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ScheduleError(f"failed to parse duration @every {text}")
    return max(1, int(sum(float(number) * _UNITS[unit] for number, unit in parts)))


def _field(text: str, low: int, high: int, names: tuple[str, ...]) -> Field:
    values: set[int] = set()
    every = False
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ScheduleError(f"failed to parse {part}")
        span, first, last, step_text = match.groups()
        step = int(step_text or 1)
        if first is None:
            start, stop = low, high
            every |= step == 1
        else:
            start = _number(first, low, names)
            stop = high if step_text and last is None else _number(last or first, low, names)
        if not low <= start <= stop <= high or step == 0:
            raise ScheduleError(f"expected a range from {low} to {high}: {span}")
        values.update(range(start, stop + 1, step))
    return Field(frozenset(values), every)


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not text.isdecimal() or len(text) > 9:
        raise ScheduleError(f"failed to parse int from {text}")
    return int(text)
