"""/metrics: kube-apiserver's counts and durations of requests, and its priority levels."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from mooring.sandbox.apiserver.authorization.flows import Flows
from mooring.sandbox.apiserver.http.paths import Target

_VERBS = {"create": "POST", "update": "PUT"}
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component", "dry_run")
_BOUNDS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
)  # fmt: skip
_NAMES = [*map(str, _BOUNDS), "+Inf"]

Labels = tuple[str, ...]


class RequestMetrics(Collector):
    """Counts requests for objects by what they are about."""

    def __init__(self, flows: Flows) -> None:
        self._flows = flows
        self._requests: Counter[Labels] = Counter()
        self._buckets: dict[Labels, list[int]] = {}
        self._seconds: defaultdict[Labels, float] = defaultdict(float)

    def observe(self, verb: str, target: Target, dry_run: str, code: int, seconds: float) -> None:
        """Count a request that has been answered. The duration of a watch says nothing about the server."""
        resource, subresource = target.resource, target.subresource
        scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
        part = "" if subresource is None else subresource.name
        shown = _VERBS.get(verb, verb.upper())
        about = resource.group, resource.version, resource.plural, part, scope
        labels: Labels = (shown, *about, "apiserver", dry_run)
        self._requests[*labels, str(code)] += 1
        if verb != "watch":
            buckets = self._buckets.setdefault(labels, [0] * len(_NAMES))
            buckets[bisect_left(_BOUNDS, seconds)] += 1
            self._seconds[labels] += seconds

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "apiserver_request",
            "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, "
            "resource, scope, component, and HTTP response code.",
            labels=(*_LABELS, "code"),
        )
        for labels, count in sorted(self._requests.items()):
            requests.add_metric(labels, count)
        yield requests
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, "
            "resource, subresource, scope and component.",
            labels=_LABELS,
        )
        for labels, buckets in sorted(self._buckets.items()):
            named = [*zip(_NAMES, accumulate(buckets), strict=True)]
            durations.add_metric(labels, named, self._seconds[labels])
        yield durations
        seats = GaugeMetricFamily(
            "apiserver_flowcontrol_nominal_limit_seats",
            "[BETA] Nominal number of execution seats configured for each priority level",
            labels=("priority_level",),
        )
        for name, count in sorted(self._flows.seats().items()):
            seats.add_metric((name,), count)
        yield seats


def encode(metrics: Collector, accept: str) -> tuple[bytes, str]:
    """Return metrics as a body and its content type, by an Accept header."""
    encoder, content_type = choose_encoder(accept)
    return encoder(metrics), content_type
