"""Health checks, in the words that kube-scheduler answers with."""

from __future__ import annotations

import logging
from urllib.parse import parse_qs

import pytest

from mooring.metrics import encode
from mooring.serving.health import Check, HealthRecord, health_routes
from mooring.serving.messages import Answer, Request
from tests.serving.kit import run


class Health:
    """/readyz with three checks; `problems` says what is wrong."""

    def __init__(self, *names: str) -> None:
        self.problems: dict[str, str] = {}
        self.record = HealthRecord()
        checks = [Check(name, lambda name=name: self.problems.get(name, "")) for name in names]  # type: ignore[misc]
        self.routes = health_routes("readyz", checks, self.record)

    def ask(self, path: str) -> Answer:
        path, _, query = path.partition("?")
        handler = self.routes[path]

        async def asking() -> Answer:
            return await handler(Request("GET", path, parse_qs(query, keep_blank_values=True)))

        return run(asking())


@pytest.fixture
def health() -> Health:
    return Health("leaderElection", "shutdown", "sched-handler-sync")


def test_well(health: Health) -> None:
    answer = health.ask("/readyz")
    assert (answer.status, answer.body) == (200, b"ok")
    assert answer.content_type == "text/plain; charset=utf-8"


def test_in_so_many_words(health: Health) -> None:
    assert health.ask("/readyz?verbose").body == (
        b"[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n"
    )


def test_a_failure_is_told_in_full_but_for_the_reason(
    health: Health, caplog: pytest.LogCaptureFixture
) -> None:
    health.problems["sched-handler-sync"] = "handlers are not fully synchronized"
    with caplog.at_level(logging.INFO - 2, "mooring.serving"):
        answer = health.ask("/readyz")
    assert answer.status == 500
    assert answer.body == (
        b"[+]leaderElection ok\n[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\n"
        b"readyz check failed\n"
    )
    assert "sched-handler-sync: handlers are not fully synchronized" in caplog.text


def test_what_is_excluded_may_fail(health: Health) -> None:
    health.problems["shutdown"] = "process is shutting down"
    assert health.ask("/readyz?exclude=shutdown").status == 200
    assert health.ask("/readyz?verbose&exclude=shutdown&exclude=b&exclude=a").body == (
        b"[+]leaderElection ok\n[+]shutdown excluded: ok\n[+]sched-handler-sync ok\n"
        b'warn: some health checks cannot be excluded: no matches for "a","b"\nreadyz check passed\n'
    )


def test_one_check_alone_says_why(health: Health) -> None:
    assert health.ask("/readyz/shutdown").body == b"ok"
    health.problems["shutdown"] = "process is shutting down"
    answer = health.ask("/readyz/shutdown")
    assert (answer.status, answer.body) == (500, b"internal server error: process is shutting down\n")
    assert health.ask("/readyz/leaderElection").status == 200
    assert set(health.routes) == {
        "/readyz",
        "/readyz/leaderElection",
        "/readyz/shutdown",
        "/readyz/sched-handler-sync",
    }


def test_without_checks_there_is_ping() -> None:
    health = Health()
    assert health.ask("/readyz?verbose").body == b"[+]ping ok\nreadyz check passed\n"
    assert health.ask("/readyz/ping").body == b"ok"


def test_checks_are_counted_by_result(health: Health) -> None:
    health.ask("/readyz")
    health.problems["shutdown"] = "process is shutting down"
    health.ask("/readyz?exclude=leaderElection")
    text = encode(health.record.collect(), "")[0].decode()
    lines = [line.replace(".0", "") for line in text.splitlines() if not line.startswith("#")]
    assert lines == [
        'kubernetes_healthcheck{name="leaderElection",type="readyz"} 1',
        'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 1',
        'kubernetes_healthcheck{name="shutdown",type="readyz"} 0',
        'kubernetes_healthchecks_total{name="leaderElection",status="success",type="readyz"} 1',
        'kubernetes_healthchecks_total{name="sched-handler-sync",status="success",type="readyz"} 2',
        'kubernetes_healthchecks_total{name="shutdown",status="error",type="readyz"} 1',
        'kubernetes_healthchecks_total{name="shutdown",status="success",type="readyz"} 1',
    ]
