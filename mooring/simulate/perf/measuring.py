"""What scheduler_perf measures while pods are scheduled, as data items in its own form."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import ceil, inf
from pathlib import Path

import msgspec

from mooring.api.objects import Pod
from mooring.metrics import SchedulerMetrics
from mooring.simulate.perf.suite import THROUGHPUT, LabelValues, MetricsCollectorConfig, MetricSelector

SAMPLE = 1.0  # seconds of a throughput sample
MEMORY_SAMPLE = 0.5
DEFAULT_LABELS: Mapping[str, tuple[str, ...]] = {
    "scheduler_scheduling_attempt_duration_seconds": ("result",),
    "scheduler_framework_extension_point_duration_seconds": ("extension_point",),
    "scheduler_plugin_execution_duration_seconds": ("plugin", "extension_point"),
    "scheduler_pod_scheduling_sli_duration_seconds": (),
    "scheduler_queueing_hint_execution_duration_seconds": ("plugin", "event"),
    "scheduler_event_handling_duration_seconds": ("event",),
}
"""Histograms that are reported where a case names none, and the labels that distinguish them."""
_SHARES = {"Perc50": 0.5, "Perc90": 0.9, "Perc95": 0.95, "Perc99": 0.99}

Labels = frozenset[tuple[str, str]]
Buckets = dict[Labels, dict[float, float]]  # cumulative counts by upper bound; -1: the sum


class DataItem(msgspec.Struct):
    data: dict[str, float]
    unit: str
    labels: dict[str, str]


class DataItems(msgspec.Struct, rename="camel"):
    """The file that scheduler_perf writes."""

    version: str
    data_items: list[DataItem]


class Progress(msgspec.Struct):
    """A sample: seconds since the first one, completed and all attempts, pods observed, pods/s."""

    seconds: float
    completed: int
    attempts: int
    observed: int
    rate: float


class Collector:
    """Measures from its making to `stop`. Only pods of the namespaces with the labels count."""

    def __init__(
        self,
        name: str,
        namespaces: Iterable[str],
        selector: Mapping[str, str],
        config: MetricsCollectorConfig | None,
        metrics: SchedulerMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._name, self._namespaces, self._selector = name, set(namespaces), selector
        self._config, self._metrics, self._clock = config, metrics, clock
        self._scheduled = 0
        self._throughputs: list[float] = []
        self.progress: list[Progress] = []
        self._memory: list[tuple[float, float]] = []
        self._before = read_histograms(metrics)
        self._began = clock()
        self._task = asyncio.create_task(self._sample(), name="throughput")

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or not new.spec.node_name or (old is not None and old.spec.node_name):
            return
        if new.namespace in self._namespaces and matches(new, self._selector):
            self._scheduled += 1

    async def _sample(self) -> None:
        """One-second samples. The first with pods is dropped; seconds without pods are joined to the next."""
        last, last_time, skipped, started, began = 0, 0.0, 0, False, self._clock()
        ticks = 0
        while True:
            self._memory.append((self._clock(), memory_mib()))
            ticks += 1
            await asyncio.sleep(max(0.0, began + ticks * MEMORY_SAMPLE - self._clock()))
            if ticks % round(SAMPLE / MEMORY_SAMPLE) or not self._scheduled:
                continue
            now, total = self._clock(), self._scheduled
            if not started:
                started, last, last_time = True, total, now
                self._first = now
                continue
            if total == last:
                skipped += 1
                continue
            rate = (total - last) / (now - last_time)
            self._throughputs += [rate] * (skipped + 1)
            counts = self._metrics.attempts.values
            attempts = {result: int(n) for (result, *_), n in counts.items()}
            self.progress.append(
                Progress(now - self._first, attempts.get("scheduled", 0), sum(attempts.values()), total, rate)
            )
            last, last_time, skipped = total, now, 0

    async def stop(self) -> list[DataItem]:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        duration = self._clock() - self._began
        items = [*self._throughput(duration), *self._histograms(), *self._memory_items()]
        return [*items, self._item("SchedulingDuration", {"Duration": duration}, "s")]

    def _item(self, metric: str, data: dict[str, float], unit: str, labels: Labels = frozenset()) -> DataItem:
        return DataItem(data, unit, {"Name": self._name, "Metric": metric, **dict(labels)})

    def _throughput(self, duration: float) -> list[DataItem]:
        rates = sorted(self._throughputs)
        if not rates:
            return []
        data = {"Average": sum(rates) / len(rates)} | _ranks(rates)
        return [self._item(THROUGHPUT, data, "pods/s")]

    def _histograms(self) -> list[DataItem]:
        after = read_histograms(self._metrics)
        items = []
        for name, groups in _wanted(self._config, after).items():
            for labels in groups:
                counts = _difference(after.get(name, {}), self._before.get(name, {}), labels)
                if counts.get(inf):
                    data = {bucket: 1000 * quantile(counts, share) for bucket, share in _SHARES.items()}
                    data["Average"] = 1000 * counts[-1] / counts[inf]
                    items.append(self._item(name, data, "ms", labels))
        return items

    def _memory_items(self) -> list[DataItem]:
        values = sorted(amount for _, amount in self._memory)
        if not values:
            return []
        data = _ranks(values) | {"Average": sum(values) / len(values), "Max": values[-1]}
        (first, before), (last, after) = self._memory[0], self._memory[-1]
        growth = (after - before) / (last - first) * 60 if last > first else 0.0
        return [
            self._item("heap_memory_usage", data, "MB"),
            self._item("memory_growth_rate", {"GrowthRate": growth}, "MB/min"),
        ]


def matches(pod: Pod, selector: Mapping[str, str]) -> bool:
    labels = pod.metadata.labels
    return all(labels.get(key) == value for key, value in selector.items())


def _ranks(values: Sequence[float]) -> dict[str, float]:
    """Percentiles by nearest rank, of sorted values."""
    return {bucket: values[ceil(len(values) * share) - 1] for bucket, share in _SHARES.items()}


def memory_mib() -> float:
    """Resident memory of this process, MiB."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:  # not Linux: the largest so far
        scale = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def read_histograms(metrics: SchedulerMetrics) -> dict[str, Buckets]:
    """The histograms by name and labels, as they are now."""
    histograms: dict[str, Buckets] = {}
    for family in metrics.collect():
        if family.type != "histogram":
            continue
        buckets = histograms.setdefault(family.name, {})
        for sample in family.samples:
            labels = frozenset((key, value) for key, value in sample.labels.items() if key != "le")
            if sample.name.endswith("_bucket"):
                buckets.setdefault(labels, {})[float(sample.labels["le"])] = sample.value
            elif sample.name.endswith("_sum"):
                buckets.setdefault(labels, {})[-1] = sample.value
    return histograms


def _wanted(
    config: MetricsCollectorConfig | None, histograms: Mapping[str, Buckets]
) -> dict[str, list[Labels]]:
    """Which label values are reported together."""
    if config is not None:
        return {name: _combinations(labels) for name, labels in config.metrics.items()}
    groups: dict[str, list[Labels]] = {}
    for name, keys in DEFAULT_LABELS.items():
        present = {frozenset(p for p in labels if p[0] in keys) for labels in histograms.get(name, {})}
        groups[name] = sorted(present, key=sorted)
    return groups


def _combinations(labels: Sequence[LabelValues] | None) -> list[Labels]:
    pairs = [[(each.label, value) for value in each.values] for each in labels or ()]
    return [frozenset(combination) for combination in product(*pairs)]


def _difference(after: Buckets, before: Buckets, selected: Labels) -> dict[float, float]:
    """What was added in between, over all label sets that have the wanted values."""
    total: dict[float, float] = {}
    for labels, counts in after.items():
        if selected <= labels:
            earlier = before.get(labels, {})
            for bound, count in counts.items():
                total[bound] = total.get(bound, 0) + count - earlier.get(bound, 0)
    return total


def quantile(counts: Mapping[float, float], share: float) -> float:
    """Interpolated within a bucket, as Prometheus does it."""
    bounds = sorted(bound for bound in counts if bound > 0)
    rank, lower, below = share * counts[inf], 0.0, 0.0
    for bound in bounds:
        if counts[bound] >= rank:
            if bound == inf:
                return lower
            inside = counts[bound] - below
            return lower + (bound - lower) * (rank - below) / inside if inside else bound
        lower, below = bound, counts[bound]
    return lower


def check_threshold(items: Iterable[DataItem], threshold: float, selector: MetricSelector) -> list[str]:
    """Enter the threshold into the items that it is for; what is wrong with them."""
    problems = []
    bucket = selector.data_bucket
    if not threshold:
        return []
    for item in items:
        labels = item.labels
        if labels["Metric"] != selector.name or not selector.labels.items() <= labels.items():
            continue
        item.data[f"{bucket}Threshold"] = threshold
        value = item.data.get(bucket)
        if value is None:
            problems.append(f"{labels['Name']}: no {bucket} of {selector.name}")
        elif value > threshold if selector.expect_lower else value < threshold:
            word = "lower" if selector.expect_lower else "higher"
            problems.append(
                f"{labels['Name']}: {selector.name} {bucket}: {value:.1f}, expected {word} than {threshold:g}"
            )
    return problems


def with_all_labels(items: Sequence[DataItem]) -> DataItems:
    """The items with equal sets of labels, as perf-dash wants them."""
    names = {name: "not applicable" for item in items for name in item.labels}
    return DataItems("v1", [DataItem(item.data, item.unit, names | item.labels) for item in items])
