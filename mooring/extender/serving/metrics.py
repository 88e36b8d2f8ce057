"""What an extender counts: requests, how long they took, and how many failed, by verb."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, ProcessCollector

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds. A scheduler waits five unless told otherwise."""


class ExtenderMetrics:
    """In a registry of their own, with those of the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "mooring_extender_requests_total",
            "Requests by verb, path and HTTP status; of paths that lead nowhere the verb and path are empty.",
            ("verb", "path", "code"),
            registry=self.registry,
        )
        self._errors = Counter(
            "mooring_extender_errors_total",
            "Requests that were understood and could not be decided: the scheduler was told an Error.",
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

    def refused(self, verb: str, path: str, code: int) -> None:
        """A request of which nothing was decided."""
        self._requests.labels(verb, path, str(code)).inc()
