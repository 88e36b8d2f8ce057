"""What there is to be asked: every path, and who answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from mooring.config import KubeSchedulerConfiguration, to_object
from mooring.core.scheduler import Scheduler
from mooring.explain.explain import decisions, recent
from mooring.explain.groups import explain_named_group
from mooring.explain.log import DecisionLog
from mooring.metrics import encode
from mooring.process.aside import Ask, at_once
from mooring.process.pod_resources import pod_resources
from mooring.process.version import version_info
from mooring.serving.health import Check, HealthRecord, health_routes
from mooring.serving.messages import Answer, Handler, Request, as_json, failure

DECISIONS = "/debug/decisions"
POD_GROUPS = "podgroups/"  # after the namespace; no pod has a name with a slash
LONGEST_NUMBER = 9  # digits


def scheduler_routes(
    scheduler: Scheduler,
    config: KubeSchedulerConfiguration,
    registry: CollectorRegistry,
    log: DecisionLog | None,
    *,
    leads: Callable[[], bool],
    ask: Ask = at_once,
    healthy: Sequence[Check] = (),
    ready: Sequence[Check] = (),
) -> dict[str, Handler]:
    """Everything that kube-scheduler serves, and the decisions. `ask` puts a question to the scheduler when
    nothing changes in it."""
    record = HealthRecord()
    return {
        **health_routes("healthz", healthy, record),
        **health_routes("livez", (), record),
        **health_routes("readyz", ready, record),
        "/metrics": _metrics(registry.collect, ask),
        "/metrics/slis": _metrics(record.collect, at_once),
        "/metrics/resources": pod_resources(scheduler, leads, ask),
        "/configz": _constant({"componentconfig": to_object(config)}),
        "/version": _constant(version_info()),
        **decision_routes(scheduler, log, ask),
    }


def decision_routes(scheduler: Scheduler, log: DecisionLog | None, ask: Ask) -> dict[str, Handler]:
    """Recent decisions, and the explanation of single pods."""
    return {DECISIONS: _recent(scheduler, log, ask), f"{DECISIONS}/": _decisions(scheduler, log, ask)}


def _constant(value: Any) -> Handler:
    async def handle(request: Request) -> Answer:
        return as_json(value)

    return handle


def _metrics(collect: Callable[[], Iterable[Metric]], ask: Ask) -> Handler:
    async def handle(request: Request) -> Answer:
        families = await ask(lambda: list(collect()))
        body, content_type = await asyncio.to_thread(encode, families, request.header(b"accept"))
        return Answer(body=body, content_type=content_type)

    return handle


def _recent(scheduler: Scheduler, log: DecisionLog | None, ask: Ask) -> Handler:
    async def handle(request: Request) -> Answer:
        limit = request.query.get("limit", ["100"])[0]
        if not limit.isdecimal() or len(limit) > LONGEST_NUMBER:
            return failure(400, "BadRequest", f'limit: found "{limit[:100]}", expected a number')
        return as_json(await ask(lambda: recent(scheduler, log, int(limit))))

    return handle


def _decisions(scheduler: Scheduler, log: DecisionLog | None, ask: Ask) -> Handler:
    async def handle(request: Request) -> Answer:
        namespace, _, pod = request.path.removeprefix(f"{DECISIONS}/").partition("/")
        if pod.startswith(POD_GROUPS):
            return await _group(scheduler, namespace, pod.removeprefix(POD_GROUPS), ask)
        record = await ask(lambda: decisions(scheduler, log, namespace, pod))
        if record is None:
            return failure(404, "NotFound", f'pods "{namespace}/{pod}" is not known to this scheduler')
        return as_json(record)

    return handle


async def _group(scheduler: Scheduler, namespace: str, name: str, ask: Ask) -> Answer:
    record = await ask(lambda: explain_named_group(scheduler, namespace, name))
    if record is None:
        return failure(404, "NotFound", f'podgroups "{namespace}/{name}" is not known to this scheduler')
    return as_json(record)
