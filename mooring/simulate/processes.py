"""Arrival processes: when pods come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mooring.config.findings import did_you_mean
from mooring.sandbox.controllers.cron_schedule import parse_schedule
from mooring.simulate.arrivals import FloatArray
from mooring.simulate.engine import START
from mooring.simulate.units import parse_rate, parse_span

DAY = 86400.0
MOST_ARRIVALS = 50_000_000

Process = Callable[[np.random.Generator, float], FloatArray]
"""The times of arrivals before an end, sorted."""


def poisson(rate: float, daily: list[tuple[float, float]] | None = None) -> Process:
    """Arrivals independent of each other, `rate` per second on average. `daily` has factors by time of day:
    (seconds after midnight, factor from then on)."""

    def draw(random: np.random.Generator, end: float) -> FloatArray:
        clock, load = _cumulative(rate, daily or [(0.0, 1.0)], end)
        expected = load[-1]
        if expected > MOST_ARRIVALS:
            raise ValueError(f"{expected:.3g} arrivals: expected at most {MOST_ARRIVALS}")
        size = int(expected + 6 * np.sqrt(expected) + 20)
        steps = np.cumsum(random.exponential(1.0, size))
        times: FloatArray = np.interp(steps[steps < expected], load, clock)
        return times

    return draw


def _cumulative(rate: float, daily: list[tuple[float, float]], end: float) -> tuple[FloatArray, FloatArray]:
    """Expected arrivals until each of some times, between which the rate is constant."""
    changes = sorted(daily)
    factor = changes[-1][1]  # of the day before
    times, load = [0.0], [0.0]
    for day in range(int(end // DAY) + 1):
        for at, next_factor in changes:
            time = min(day * DAY + at, end)
            if time > times[-1]:
                load.append(load[-1] + rate * factor * (time - times[-1]))
                times.append(time)
            factor = next_factor
    if end > times[-1]:
        load.append(load[-1] + rate * factor * (end - times[-1]))
        times.append(end)
    return np.array(times), np.array(load)


def every(interval: float) -> Process:
    """At fixed intervals, the first at 0."""

    def draw(random: np.random.Generator, end: float) -> FloatArray:
        if end / interval > MOST_ARRIVALS:
            raise ValueError(f"{end / interval:.3g} arrivals: expected at most {MOST_ARRIVALS}")
        return np.arange(0.0, end, interval)

    return draw


def burst(count: int, at: float) -> Process:
    """All at once."""
    return lambda random, end: np.full(count if at < end else 0, at)


def cron(text: str) -> Process:
    """Whenever a cron schedule says; virtual time begins at midnight, UTC."""
    schedule = parse_schedule(text)

    def draw(random: np.random.Generator, end: float) -> FloatArray:
        times: list[float] = []
        coming = schedule.next(START - 1)
        while coming is not None and coming < START + end:
            times.append(coming - START)
            coming = schedule.next(coming)
        return np.array(times, np.float64)

    return draw


def parse_process(value: object) -> Process:
    """A mapping such as `{poisson: 2/s}`, `{every: 30s}`, `{cron: "0 * * * *"}` or
    `{burst: {count: 5, at: 1h}}`. Raises ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError("expected a mapping with poisson, every, cron or burst")
    names = [name for name in value if name != "daily"]
    if len(names) != 1:
        raise ValueError(f"expected one of {', '.join(_PARSERS)}, found {', '.join(names) or 'none'}")
    name = names[0]
    if name not in _PARSERS:
        hint = did_you_mean(str(name), _PARSERS)
        raise ValueError(f'unknown arrival process "{name}": {hint or "expected " + ", ".join(_PARSERS)}')
    if "daily" in value and name != "poisson":
        raise ValueError("daily: only with poisson")
    return _PARSERS[name](value[name], value)


def _poisson(rate: object, value: Mapping[str, Any]) -> Process:
    return poisson(parse_rate(rate), _daily(value["daily"]) if "daily" in value else None)


def _daily(points: object) -> list[tuple[float, float]]:
    expected = "daily: expected a list of [time of day, factor], such as [[9h, 3.0], [18h, 1.0]]"
    if not isinstance(points, list) or not points:
        raise ValueError(expected)
    changes = []
    for pair in points:
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not isinstance(pair[1], (int, float))
            or pair[1] < 0
        ):
            raise ValueError(expected)
        at = parse_span(pair[0])
        if at >= DAY:
            raise ValueError(f"daily: {pair[0]} is not a time of day")
        changes.append((at, float(pair[1])))
    if not any(factor for _, factor in changes):
        raise ValueError("daily: all factors are 0")
    return changes


def _every(span: object, value: Mapping[str, Any]) -> Process:
    interval = parse_span(span)
    if interval <= 0:
        raise ValueError("every: expected more than 0")
    return every(interval)


def _burst(burst_spec: object, value: Mapping[str, Any]) -> Process:
    if not isinstance(burst_spec, Mapping) or not {"count"} <= set(burst_spec) <= {"count", "at"}:
        raise ValueError("burst: expected count and at")
    count = burst_spec["count"]
    if type(count) is not int or not 0 < count <= MOST_ARRIVALS:
        raise ValueError(f"burst: count: expected a number from 1 to {MOST_ARRIVALS}, found {count}")
    return burst(count, parse_span(burst_spec.get("at", 0)))


def _cron(schedule: object, value: Mapping[str, Any]) -> Process:
    try:
        return cron(str(schedule))
    except ValueError as error:
        raise ValueError(f"cron: {error}") from None


_PARSERS: dict[str, Callable[[object, Mapping[str, Any]], Process]] = {
    "poisson": _poisson,
    "every": _every,
    "cron": _cron,
    "burst": _burst,
}
