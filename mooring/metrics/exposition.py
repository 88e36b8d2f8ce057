"""Metrics as text, in the form that the reader asks for."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from mooring.core.scheduler import Scheduler
from mooring.metrics.collector import SchedulerCollector
from mooring.metrics.scheduler_metrics import SchedulerMetrics


def make_registry(metrics: SchedulerMetrics, scheduler: Scheduler) -> CollectorRegistry:
    """A registry with the scheduler's metrics and the process's; others may register theirs, too."""
    registry = CollectorRegistry()
    registry.register(SchedulerCollector(metrics, scheduler))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class _Snapshot(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def encode(families: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """Collected metrics as a body and its content type, by an Accept header."""
    encoder, content_type = choose_encoder(accept)
    return encoder(_Snapshot(families)), content_type
