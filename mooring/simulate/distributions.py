"""Distributions of run times and delays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from mooring.config.findings import did_you_mean
from mooring.simulate.arrivals import FloatArray
from mooring.simulate.units import parse_span

Draw = Callable[[np.random.Generator, int], FloatArray]
"""Seconds: as many as asked for."""

_Z95 = 1.6448536269514722  # of the normal distribution
MOST_VALUES = 10_000_000


def fixed(seconds: float) -> Draw:
    return lambda random, count: np.full(count, seconds)


def exponential(mean: float) -> Draw:
    return lambda random, count: random.exponential(mean, count)


def uniform(low: float, high: float) -> Draw:
    return lambda random, count: random.uniform(low, high, count)


def lognormal(median: float, p95: float) -> Draw:
    mu, sigma = log(median), (log(p95) - log(median)) / _Z95
    return lambda random, count: np.asarray(np.exp(mu + sigma * random.standard_normal(count)))


def weibull(scale: float, shape: float) -> Draw:
    return lambda random, count: scale * random.weibull(shape, count)


def empirical(values: FloatArray) -> Draw:
    """One of these values, each as often as it occurs."""
    return lambda random, count: values[random.integers(0, len(values), count)]


def parse_distribution(value: object, folder: Path) -> Draw:
    """A span, or a mapping with the name of a distribution and its parameters. Raises ValueError."""
    if not isinstance(value, Mapping):
        return fixed(parse_span(value))
    if len(value) != 1:
        raise ValueError(f"expected one distribution, found {', '.join(map(str, value)) or 'none'}")
    ((name, parameters),) = value.items()
    parse = _PARSERS.get(name)
    if parse is None:
        names = ", ".join(_PARSERS)
        hint = did_you_mean(str(name), _PARSERS)
        raise ValueError(f'unknown distribution "{name}": {hint or f"expected one of {names}"}')
    return parse(parameters, folder)


def _fixed(value: object, folder: Path) -> Draw:
    return fixed(parse_span(value))


def _exponential(value: object, folder: Path) -> Draw:
    mean = parse_span(value) if not isinstance(value, Mapping) else _spans("exponential", value, "mean")[0]
    return exponential(_positive("exponential", "mean", mean))


def _uniform(value: object, folder: Path) -> Draw:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("uniform: expected two durations: [shortest, longest]")
    low, high = map(parse_span, value)
    if low > high:
        raise ValueError("uniform: the shortest is longer than the longest")
    return uniform(low, high)


def _lognormal(value: object, folder: Path) -> Draw:
    median, p95 = _spans("lognormal", value, "median", "p95")
    if not 0 < median <= p95:
        raise ValueError(
            "lognormal: expected 0 < median <= p95\n"
            "  hint: half of the pods run longer than median, one in twenty longer than p95"
        )
    return lognormal(median, p95)


def _weibull(value: object, folder: Path) -> Draw:
    if not isinstance(value, Mapping) or set(value) != {"scale", "shape"}:
        raise ValueError("weibull: expected scale and shape")
    shape = value["shape"]
    if not isinstance(shape, (int, float)) or isinstance(shape, bool) or not 0.05 <= shape <= 100:
        raise ValueError(f"weibull: shape: expected a number from 0.05 to 100, found {shape}")
    return weibull(_positive("weibull", "scale", parse_span(value["scale"])), float(shape))


def _empirical(value: object, folder: Path) -> Draw:
    path = folder / str(value)
    try:
        values = np.array([float(line) for line in path.read_text().split()], np.float64)
    except OSError as error:
        raise ValueError(f"empirical: {path}: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"empirical: {path}: expected one number of seconds per line") from None
    if not 0 < len(values) <= MOST_VALUES or not bool(np.all(np.isfinite(values) & (values >= 0))):
        raise ValueError(f"empirical: {path}: expected numbers that are not negative, one per line")
    return empirical(values)


_PARSERS: dict[str, Callable[[Any, Path], Draw]] = {
    "fixed": _fixed,
    "exponential": _exponential,
    "uniform": _uniform,
    "lognormal": _lognormal,
    "weibull": _weibull,
    "empirical": _empirical,
}


def _spans(name: str, value: object, *fields: str) -> list[float]:
    if not isinstance(value, Mapping) or set(value) != set(fields):
        raise ValueError(f"{name}: expected {' and '.join(fields)}")
    return [parse_span(value[field]) for field in fields]


def _positive(name: str, field: str, value: float) -> float:
    if value <= 0:
        raise ValueError(f"{name}: {field}: expected more than 0")
    return value


__all__ = [
    "Draw", "empirical", "exponential", "fixed", "lognormal", "parse_distribution", "uniform", "weibull",
]  # fmt: skip
