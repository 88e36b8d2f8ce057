"""When CronJobs start Jobs: the start that is due, and the next one."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mooring.api.jobs import CronJob
from mooring.api.times import parse_time
from mooring.sandbox.controllers.cron_schedule import Every, Schedule, ScheduleError, parse_schedule


class UnclearScheduleError(ValueError):
    """A schedule that cannot be followed: the reason of the event, and its note."""


class Due(NamedTuple):
    """What a schedule says at some time."""

    time: float | None
    """The last start that is due and was not made yet."""
    missed: int
    wait: float
    """In how many seconds the next one is."""


def zone_of(cron_job: CronJob) -> tzinfo:
    """The time zone of a schedule. Raises UnclearScheduleError."""
    name = cron_job.spec.time_zone
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        note = f'invalid timeZone: "{name}": unknown time zone {name}'
        raise UnclearScheduleError("UnknownTimeZone", note) from None


def find_due(cron_job: CronJob, now: float) -> Due:
    """What is due, and when the next is. Raises UnclearScheduleError."""
    text = cron_job.spec.schedule
    try:
        schedule = parse_schedule(text, zone_of(cron_job))
    except ScheduleError as problem:
        note = f'unparseable schedule: "{text}" : {problem}'
        raise UnclearScheduleError("UnparseableSchedule", note) from None
    since = parse_time(cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp or "")
    deadline = cron_job.spec.starting_deadline_seconds
    earliest = since if deadline is None else max(since, now - deadline)
    time, missed = _latest(schedule, earliest, now)
    last = time if earliest == since else _latest(schedule, since, now)[0]
    following = schedule.next(since if last is None else last)
    if following is None:
        note = f"invalid schedule: {text} : time difference between two schedules is less than 1 second"
        raise UnclearScheduleError("InvalidSchedule", note)
    return Due(time, missed, following - now)


def _latest(schedule: Schedule | Every, since: float, now: float) -> tuple[float | None, int]:
    """The last time between two, and about how many there were."""
    first = schedule.next(since)
    if first is None or first > now:
        return None, 0
    latest = schedule.latest(first, now)
    second = schedule.next(first)
    gap = second - first if second is not None else now - first
    return latest, int((now - first) // gap) + 1 if gap else 1
