"""Gauges that are read from the scheduler at each scrape: queue lengths, cache sizes, work in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.config import FeatureGates
from mooring.core.scheduler import Scheduler
from mooring.metrics import catalogue
from mooring.metrics.catalogue import Definition
from mooring.metrics.families import Values, counter
from mooring.metrics.scheduler_metrics import SchedulerMetrics


class SchedulerCollector(Collector):
    """All of a scheduler's metrics, for a prometheus-client registry."""

    def __init__(self, metrics: SchedulerMetrics, scheduler: Scheduler) -> None:
        self._metrics = metrics
        self._scheduler = scheduler
        self._seen_events: set[str] = set()

    def collect(self) -> Iterator[Metric]:
        metrics, scheduler = self._metrics, self._scheduler
        yield from metrics.collect()
        evaluations = metrics.evaluations.counts(scheduler.profiles.values())
        yield counter(catalogue.PLUGIN_EVALUATION, evaluations)
        queue, cluster = scheduler.queue, scheduler.cluster
        yield _gauge(catalogue.PENDING_PODS, _labelled(queue.counts()))
        yield _gauge(catalogue.INFLIGHT_EVENTS, _labelled(self._in_flight()))
        yield _gauge(catalogue.UNSCHEDULABLE_PODS, queue.refusal_counts().items())
        assumed = cluster.assumed_count()
        sizes = {"nodes": len(cluster.table), "pods": len(cluster), "assumed_pods": assumed}
        yield _gauge(catalogue.CACHE_SIZE, _labelled(sizes))
        working = {"binding": assumed}
        if scheduler.extenders:
            working["prioritizing_extender"] = scheduler.extenders.prioritizing
        yield _gauge(catalogue.GOROUTINES, _labelled(working))
        yield _feature_gates(scheduler.feature_gates)
        for definition in catalogue.NEVER_OBSERVED:
            yield _histogram(definition) if definition.buckets else counter(definition, ())

    def _in_flight(self) -> dict[str, int]:
        """By event; one that was there before and no longer is counts 0, rather than vanish."""
        counts = self._scheduler.queue.in_flight_counts()
        self._seen_events.update(counts)
        return {event: counts.get(event, 0) for event in self._seen_events}


def _feature_gates(gates: FeatureGates) -> Metric:
    help_text = "[BETA] This metric records the data about the stage and enablement of a k8s feature."
    family = GaugeMetricFamily("kubernetes_feature_enabled", help_text, labels=("name", "stage"))
    for gate, enabled in gates:
        family.add_metric((gate.name, "" if gate.stage == "GA" else gate.stage), float(enabled))
    return family


def _labelled(values: Mapping[str, float]) -> Values:
    return (((label,), value) for label, value in values.items())


def _gauge(definition: Definition, values: Values) -> Metric:
    family = GaugeMetricFamily(definition.full_name, definition.documentation, labels=definition.labels)
    for labels, value in sorted(values):
        family.add_metric(labels, value)
    return family


def _histogram(definition: Definition) -> Metric:
    return HistogramMetricFamily(definition.full_name, definition.documentation, labels=definition.labels)
