"""Schedules of CronJobs: against a calendar that is leafed through minute by minute, and known cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.sandbox.controllers.cron_schedule import Every, Schedule, ScheduleError, parse_schedule

START = datetime(2030, 1, 1, tzinfo=UTC)


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    spans = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    steps = st.integers(1, high)
    part = st.one_of(
        st.just("*"),
        number.map(str),
        spans,
        st.builds("{}/{}".format, st.one_of(st.just("*"), spans, number.map(str)), steps),
    )
    return st.lists(part, min_size=1, max_size=2).map(",".join)


SCHEDULES = st.tuples(field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)).map(" ".join)


def plainly(schedule: Schedule, moment: datetime) -> bool:
    """Whether a schedule has a minute, said in the plainest way."""
    day = moment.day in schedule.day.values
    weekday = (moment.weekday() + 1) % 7 in schedule.weekday.values
    on = (day and weekday) if schedule.day.any or schedule.weekday.any else (day or weekday)
    return (
        on
        and moment.minute in schedule.minute.values
        and moment.hour in schedule.hour.values
        and moment.month in schedule.month.values
    )


@settings(deadline=None)
@given(SCHEDULES, st.integers(0, 3 * 366 * 1440), st.integers(0, 59))
def test_the_next_time_is_the_first_that_fits(text: str, minutes: int, seconds: int) -> None:
    schedule = parse_schedule(text)
    assert isinstance(schedule, Schedule)
    after = START + timedelta(minutes=minutes, seconds=seconds)
    found = schedule.next(after.timestamp())
    leafed = after.replace(second=0)
    for _ in range(1500):
        leafed += timedelta(minutes=1)
        if plainly(schedule, leafed):
            assert found == leafed.timestamp()
            return
    assert found is None or found > leafed.timestamp()
    assert found is None or plainly(schedule, datetime.fromtimestamp(found, UTC))


@settings(deadline=None)
@given(SCHEDULES, st.integers(0, 366 * 1440), st.integers(0, 2000))
def test_the_latest_time_is_the_last_before_the_next(text: str, minutes: int, later: int) -> None:
    schedule = parse_schedule(text)
    first = schedule.next((START + timedelta(minutes=minutes)).timestamp())
    if first is None:
        return
    now = first + 60 * later + 30
    latest = schedule.latest(first, now)
    following = schedule.next(latest)
    assert first <= latest <= now
    assert following is None or following > now


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("@hourly", "2030-01-01T00:00:00", "2030-01-01T01:00:00"),
        ("@daily", "2030-01-01T00:00:01", "2030-01-02T00:00:00"),
        ("@weekly", "2030-01-01T00:00:00", "2030-01-06T00:00:00"),
        ("@monthly", "2030-01-31T12:00:00", "2030-02-01T00:00:00"),
        ("@yearly", "2030-06-01T00:00:00", "2031-01-01T00:00:00"),
        ("30 6 * * mon-fri", "2030-01-04T07:00:00", "2030-01-07T06:30:00"),
        ("0 0 29 feb *", "2030-01-01T00:00:00", "2032-02-29T00:00:00"),
        ("0 12 13 * 5", "2030-01-01T00:00:00", "2030-01-04T12:00:00"),
        ("*/25 * * * *", "2030-01-01T00:50:00", "2030-01-01T01:00:00"),
    ],
)
def test_known_cases(text: str, after: str, expected: str) -> None:
    found = parse_schedule(text).next(datetime.fromisoformat(after).replace(tzinfo=UTC).timestamp())
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC).timestamp()


def test_a_day_that_never_comes() -> None:
    assert parse_schedule("0 0 31 2 *").next(START.timestamp()) is None


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_the_first_and_the_last_times_of_the_calendar(zone: str) -> None:
    for text in ("* * * * *", "0 0 1 1 *", "30 2 31 12 *"):
        schedule = parse_schedule(text, ZoneInfo(zone))
        assert schedule.next(datetime.max.replace(tzinfo=UTC).timestamp()) is None
        first = schedule.next(datetime.min.replace(tzinfo=UTC).timestamp())
        assert first is not None
        assert datetime.fromtimestamp(first, UTC).year in (1, 2, 3)


def test_the_clock_goes_forward_and_back() -> None:
    zone = ZoneInfo("Europe/Berlin")
    schedule = parse_schedule("30 2 * * *", zone)
    times = [datetime(2030, 3, 30, tzinfo=zone).timestamp()]
    for _ in range(3):
        found = schedule.next(times[-1])
        assert found is not None
        times.append(found)
    local = [datetime.fromtimestamp(time, zone).isoformat() for time in times[1:]]
    assert local == ["2030-03-30T02:30:00+01:00", "2030-04-01T02:30:00+02:00", "2030-04-02T02:30:00+02:00"]
    autumn = schedule.next(datetime(2030, 10, 27, tzinfo=zone).timestamp())
    assert autumn is not None
    again = schedule.next(autumn)
    assert again == autumn + 3600  # half past two comes twice


def test_every_so_often() -> None:
    every = parse_schedule("@every 1h30m")
    assert every == Every(5400)
    assert every.next(100.0) == 5500
    assert every.latest(5500, 5500 + 3 * 5400 + 7) == 5500 + 3 * 5400
    assert parse_schedule("@every 10ms") == Every(1)


@pytest.mark.parametrize(
    "text", ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "5-1 * * * *",
             "*/0 * * * *", "a * * * *", "1-2-3 * * * *", "@sometimes", "@every", "@every soon", "@every 1d"],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(text)
