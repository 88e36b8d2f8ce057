"""Effects of probes: readiness, events, and restarts of containers."""

from __future__ import annotations

from functools import partial
from operator import itemgetter

from mooring.sandbox.kubelet.container_life import HEALTHY, KILLED, SHORTEST, ContainerLife
from mooring.sandbox.network.messages import NetworkError
from mooring.sandbox.programs.probing import Death, Health, Result, http_request, judge
from mooring.sandbox.programs.program import Outcome
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import Probe
from mooring.sandbox.programs.work import Work


def probe(
    one: ContainerLife, outcome: Outcome, sources: Sources, now: float, work: Work, *, is_known: bool
) -> Outcome:
    """Evaluate the probes of a run; return how it goes with them."""
    one.health, one.notices = HEALTHY, []
    if one.spec is None or not one.spec.is_probed:
        return outcome
    health = judge(
        one.spec,
        sources,
        one.files,
        one.started,
        work,
        is_known=is_known,
        client=one.connection.client,
        ask=partial(_ask, one, now),
    )
    one.health = health
    _warn(one, health)
    death, run_time = health.death, outcome.run_time
    if death is not None and (run_time is None or run_time > death.at - one.started):
        outcome = outcome._replace(
            run_time=max(death.at - one.started, SHORTEST), exit_code=KILLED, message=""
        )
        _announce(one, death, one.started + (outcome.run_time or 0.0))
    one.notices = [notice for notice in one.notices if notice[0] >= now]
    one.notices.sort(key=itemgetter(0))
    return outcome


def _ask(one: ContainerLife, now: float, probe: Probe) -> list[Result] | None:
    """Send the request of a probe; return what it has found since the start, None if nothing answers."""
    client, http = one.connection.client, probe.http_get
    request = (
        None if client is None or http is None or one.spec is None else http_request(http, one.spec, client)
    )
    if client is None or request is None:
        return None
    try:
        status = client.ask(*request).status
    except NetworkError:
        return None
    failure = None if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"
    history = one.connection.probed.setdefault(f"{request[1]} {request[2].target}", [])
    if not history or history[-1].failure != failure:
        history.append(Result(now if history else one.started, failure))
    return list(history)


def _warn(one: ContainerLife, health: Health) -> None:
    """Note what is found while the container runs on."""
    if health.first_unready is not None:
        text = f"Readiness probe failed: {health.first_unready.failure}"
        one.notices.append((health.first_unready.at, one.note("Warning", "Unhealthy", text)))
    if health.redirect is not None:
        body = f'<a href="{health.redirect.failure}">Found</a>.\n\n'
        text = f"Liveness probe warning: Probe terminated redirects, Response body: {body}"
        one.notices.append((health.redirect.at, one.note("Warning", "ProbeWarning", text)))


def _announce(one: ContainerLife, death: Death, end: float) -> None:
    """Note the failures that a container is killed for, and its end."""
    text = f"Container {one.name} failed {death.probe.lower()} probe, will be restarted"
    unhealthy = one.note("Warning", "Unhealthy", f"{death.probe} probe failed: {death.failure}")
    one.notices += [(at, unhealthy) for at in death.times[:-1]]
    one.notices += [(end, unhealthy), (end, one.note("Normal", "Killing", text))]
