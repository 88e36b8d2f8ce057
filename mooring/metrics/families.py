"""Counters and histograms that cost little where they are written.

prometheus-client's own take a lock and look for the bucket one by one: more than a microsecond for each
observation, and an attempt makes about twenty. These belong to one event loop, keep observations in a list
until there are enough of them to be sorted into buckets together, and become prometheus-client's families
at each scrape.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from mooring.metrics.catalogue import Definition

PENDING = 512  # observations that are kept before they are sorted in

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Histogram:
    """The observations under one set of label values, counted by bucket."""

    __slots__ = ("_bounds", "_counts", "_sum", "pending")

    def __init__(self, bounds: Floats) -> None:
        self._bounds = bounds
        self._counts: Ints = np.zeros(len(bounds) + 1, np.int64)  # the last is of those beyond all bounds
        self._sum = 0.0
        self.pending: list[float] = []

    def observe(self, value: float) -> None:
        self.pending.append(value)
        if len(self.pending) >= PENDING:
            self.sort_in()

    def observe_all(self, values: Floats | Ints) -> None:
        """Many observations at once."""
        buckets = self._bounds.searchsorted(values)
        self.add(np.bincount(buckets, minlength=len(self._counts)), values.sum())

    def add(self, counts: Ints, total: float) -> None:
        """Add observations that are already sorted into buckets."""
        self._counts += counts
        self._sum += float(total)

    def sort_in(self) -> None:
        """Count what is pending."""
        values = np.array(self.pending)
        self.pending.clear()
        self.observe_all(values)

    def read(self) -> tuple[list[int], float]:
        """The number of observations in each bucket, and their sum."""
        if self.pending:
            self.sort_in()
        counts: list[int] = self._counts.tolist()
        return counts, self._sum


def _go_float(value: float) -> str:
    """A number as Go writes it, so that queries for kube-scheduler's `le` labels find these, too."""
    return repr(value).removesuffix(".0")


class Histograms:
    """A histogram with labels: one child for each set of their values, made when first asked for."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._bounds = np.array(definition.buckets)
        self._names = [*map(_go_float, definition.buckets), "+Inf"]
        self._children: dict[tuple[str, ...], Histogram] = {}

    def of(self, *labels: str) -> Histogram:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = Histogram(self._bounds)
        return child

    def observe_columns(self, children: Sequence[Histogram], values: Floats) -> None:
        """One column of observations for each child: all are sorted together."""
        width = len(self._names)
        buckets = self._bounds.searchsorted(values) + width * np.arange(len(children))
        counts = np.bincount(buckets.ravel(), minlength=width * len(children)).reshape(-1, width)
        for child, mine, total in zip(children, counts, values.sum(axis=0).tolist(), strict=True):
            child.add(mine, total)

    def collect(self) -> Metric:
        definition = self.definition
        family = HistogramMetricFamily(
            definition.full_name, definition.documentation, labels=definition.labels
        )
        for labels, child in sorted(self._children.items()):
            counts, total = child.read()
            family.add_metric(labels, list(zip(self._names, accumulate(counts), strict=True)), total)
        return family


class Counters:
    """A counter with labels."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.values: defaultdict[tuple[str, ...], int] = defaultdict(int)

    def add(self, count: int, *labels: str) -> None:
        self.values[labels] += count

    def collect(self) -> Metric:
        return counter(self.definition, self.values.items())


Values = Iterable[tuple[tuple[str, ...], float]]


def counter(definition: Definition, values: Values) -> Metric:
    family = CounterMetricFamily(definition.full_name, definition.documentation, labels=definition.labels)
    for labels, value in sorted(values):
        family.add_metric(labels, value)
    return family
