"""/healthz, /livez and /readyz: checks by name, in the words of Kubernetes' own."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.serving.messages import NO_SNIFFING, Answer, Handler, Request

log = logging.getLogger("mooring.serving")


class Check(NamedTuple):
    """`problem` returns what is wrong in a few words, or an empty string."""

    name: str
    problem: Callable[[], str]


PING = Check("ping", lambda: "")


class HealthRecord(Collector):
    """Results of the checks so far: Kubernetes' /metrics/slis."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._last: dict[tuple[str, str], bool] = {}

    def add(self, check: str, path: str, passed: bool) -> None:
        self._counts[check, path, "success" if passed else "error"] += 1
        self._last[check, path] = passed

    def collect(self) -> Iterator[Metric]:
        last = GaugeMetricFamily(
            "kubernetes_healthcheck",
            "[STABLE] Result of the last run of each check.",
            labels=("name", "type"),
        )
        for key, passed in sorted(self._last.items()):
            last.add_metric(key, passed)
        yield last
        total = CounterMetricFamily(
            "kubernetes_healthchecks",
            "[STABLE] Number of runs of each check, by result.",
            labels=("name", "type", "status"),
        )
        for labels, count in sorted(self._counts.items()):
            total.add_metric(labels, count)
        yield total


def health_routes(name: str, checks: Sequence[Check], record: HealthRecord) -> dict[str, Handler]:
    """Return handlers for the path of that name, and for one below it per check."""
    checks = checks or (PING,)

    async def handle_all(request: Request) -> Answer:
        return _together(name, checks, record, request)

    routes: dict[str, Handler] = {f"/{name}": handle_all}
    for check in checks:
        routes[f"/{name}/{check.name}"] = _alone(check)
    return routes


def _alone(check: Check) -> Handler:
    async def handle(request: Request) -> Answer:
        problem = check.problem()
        return _error(f"internal server error: {problem}") if problem else Answer(body=b"ok")

    return handle


def _together(name: str, checks: Sequence[Check], record: HealthRecord, request: Request) -> Answer:
    """Served without authorization, so it does not say why a check fails: the log does, and the paths
    below."""
    excluded = set(request.query.get("exclude", ()))
    lines: list[str] = []
    failed: list[str] = []
    for check in checks:
        if check.name in excluded:
            excluded.remove(check.name)
            lines.append(f"[+]{check.name} excluded: ok\n")
            continue
        problem = check.problem()
        record.add(check.name, name, not problem)
        if problem:
            lines.append(f"[-]{check.name} failed: reason withheld\n")
            failed.append(f"{check.name}: {problem}")
        else:
            lines.append(f"[+]{check.name} ok\n")
    if excluded:
        unknown = ",".join(f'"{each}"' for each in sorted(excluded))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}\n")
    if failed:
        log.log(logging.INFO - 2, "%s check failed: %s", name, "; ".join(failed))
        return _error("".join(lines) + f"{name} check failed")
    text = "".join(lines) + f"{name} check passed\n" if "verbose" in request.query else "ok"
    return Answer(body=text.encode(), headers=(NO_SNIFFING,))


def _error(text: str) -> Answer:
    return Answer(500, f"{text}\n".encode(), headers=(NO_SNIFFING,))
