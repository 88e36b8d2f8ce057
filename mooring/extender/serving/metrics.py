"""Metrics of an extender: requests, their duration and their failures, by verb."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, ProcessCollector

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds. A scheduler waits five by default."""


class ExtenderMetrics:
    """The metrics in a registry of their own, with those of the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "mooring_extender_requests_total",
            "Requests by verb, path and HTTP status; verb and path are empty for unknown paths.",
            ("verb", "path", "code"),
            registry=self.registry,
        )
        self._errors = Counter(
            "mooring_extender_errors_total",
            "Requests answered with an Error.",
            ("verb", "path"),
            registry=self.registry,
        )
        self._durations = Histogram(
            "mooring_extender_request_duration_seconds",
            "Time from the last byte of a request to its answer.",
            ("verb", "path"),
            buckets=BUCKETS,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def answered(self, verb: str, path: str, code: int, error: bool, seconds: float) -> None:
        self._requests.labels(verb, path, str(code)).inc()
        self._durations.labels(verb, path).observe(seconds)
        if error:
            self._errors.labels(verb, path).inc()

    def rejected(self, verb: str, path: str, code: int) -> None:
        """Count a request that no verb answered."""
        self._requests.labels(verb, path, str(code)).inc()
