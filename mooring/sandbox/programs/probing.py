"""Probes of containers: whether they succeed follows from what the container has written by then."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from mooring.sandbox.network.messages import Query
from mooring.sandbox.programs import agnhost
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.program import run_program
from mooring.sandbox.programs.resolving import is_address
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec, HttpGetAction, Probe
from mooring.sandbox.programs.wire import Client, Wire
from mooring.sandbox.programs.work import Work

MOST_MOMENTS: Final = 64  # changes of files after which a probe is evaluated again
MOST_REPORTS: Final = 25  # failures in a row of which there are events, as with a kubelet's recorder


class Result(NamedTuple):
    """What a probe finds from a time on. `failure` is what it prints, None if it succeeds."""

    at: float
    failure: str | None


AskByHttp = Callable[[Probe], list[Result] | None]
"""Returns what a probe by HTTP has found so far; None if nothing answers."""


class Change(NamedTuple):
    """A time at which enough probes in a row have succeeded or failed."""

    at: float
    failure: str | None


class Death(NamedTuple):
    """A container is killed because a probe has failed at these times, of which the last is its end."""

    times: tuple[float, ...]
    probe: str
    failure: str

    @property
    def at(self) -> float:
        return self.times[-1]


class Health(NamedTuple):
    """What the probes of a container find. `started_at` is when the startup probe has succeeded."""

    started_at: float | None
    readiness: tuple[Change, ...]
    death: Death | None = None
    first_unready: Change | None = None
    redirect: Change | None = None
    """When the liveness probe is redirected to another host, and to which URL."""

    def is_ready(self, now: float) -> bool:
        passed = [one for one in self.readiness if one.at <= now]
        return bool(passed) and passed[-1].failure is None

    def next_change(self, now: float) -> float | None:
        """Return when the container has started, becomes ready or unready."""
        times = [one.at for one in self.readiness if one.at > now]
        if self.started_at is not None and self.started_at > now:
            times.append(self.started_at)
        return min(times, default=None)


def judge(
    spec: ContainerSpec,
    sources: Sources,
    files: Files,
    started: float,
    work: Work,
    *,
    is_known: bool = False,
    client: Client | None = None,
    ask: AskByHttp | None = None,
) -> Health:
    """Return what the probes of a container find that starts at a time. If its program is known, so are the
    ports at which it does not listen. Commands of probes reach the network by `client`, and those by HTTP
    are sent by `ask`."""

    def run(probe: Probe) -> list[Result]:
        return probe_results(
            probe, spec, sources, files, started, work, is_known=is_known, client=client, ask=ask
        )

    def changes(probe: Probe, results: list[Result], begin: float, *, succeeds: bool) -> list[Change]:
        first = max(started + probe.initial_delay_seconds, begin)
        return [*probe_changes(probe, results, first, succeeds=succeeds)]

    begin = started
    if spec.startup_probe is not None:
        results = run(spec.startup_probe)
        passed = next(iter(changes(spec.startup_probe, results, started, succeeds=False)), None)
        failed = next(iter(changes(spec.startup_probe, results, started, succeeds=True)), None)
        if failed is not None and (passed is None or failed.at < passed.at):
            return Health(None, (), _death(spec.startup_probe, failed, "Startup"))
        if passed is None:
            return Health(None, ())
        begin = passed.at
    death, unready, warning = None, None, None
    if url := foreign_redirect(spec, spec.liveness_probe):
        assert spec.liveness_probe is not None
        warning = Change(max(started + spec.liveness_probe.initial_delay_seconds, begin), url)
    if spec.liveness_probe is not None:
        results = run(spec.liveness_probe)
        failed = next(iter(changes(spec.liveness_probe, results, begin, succeeds=True)), None)
        death = None if failed is None else _death(spec.liveness_probe, failed, "Liveness")
    readiness: tuple[Change, ...] = (Change(begin, None),)
    if spec.readiness_probe is not None:
        results = run(spec.readiness_probe)
        readiness = (*changes(spec.readiness_probe, results, begin, succeeds=False),)
        if results[0].failure is not None:
            at = max(started + spec.readiness_probe.initial_delay_seconds, begin)
            unready = Change(at, results[0].failure)
    return Health(begin, readiness, death, unready, warning)


def _death(probe: Probe, failed: Change, name: str) -> Death:
    count = min(max(probe.failure_threshold, 1), MOST_REPORTS)
    period = max(probe.period_seconds, 1)
    return Death(tuple(failed.at - period * i for i in reversed(range(count))), name, failed.failure or "")


def probe_results(
    probe: Probe,
    spec: ContainerSpec,
    sources: Sources,
    files: Files,
    started: float,
    work: Work,
    *,
    is_known: bool,
    client: Client | None = None,
    ask: AskByHttp | None = None,
) -> list[Result]:
    """Return what a probe finds, from the start of a container on. It succeeds if that is not known."""
    if probe.exec is not None and probe.exec.command:
        changes = sorted({at for volume in files.volumes for at in volume.changes(started)})
        command = msgspec.structs.replace(
            spec, command=probe.exec.command, args=[], termination_message_path=""
        )
        results: list[Result] = []
        for at in (started, *changes[: MOST_MOMENTS - 1]):
            failure = _failure(command, probe, sources, files, at, work, client)
            if work.left < 0 and results:
                break  # what it found last stays
            results.append(Result(at, failure))
        return results
    if is_known and (probe.http_get or probe.tcp_socket or probe.grpc):
        path = "" if probe.http_get is None else local_redirect(probe.http_get.path)
        if agnhost.command_of(spec) == "liveness":
            end = started + agnhost.LIVENESS_SECONDS
            unhealthy = Result(end, "HTTP probe failed with statuscode: 500")
            return [Result(started, None), *([unhealthy] if path == "/healthz" else [])]
        if ask is not None and (answered := ask(probe)):
            return answered
        if not _listens(spec, probe):
            return [Result(started, _refusal(probe, sources))]
    return [Result(started, None)]


def _listens(spec: ContainerSpec, probe: Probe) -> bool:
    """Whether a known program listens at the port of a probe."""
    words, command = [*spec.command, *spec.args], agnhost.command_of(spec)
    if command not in agnhost.SERVERS and command not in agnhost.WEBHOOKS:
        return not words and not command  # what an image does by itself may be a server
    action = probe.http_get or probe.tcp_socket or probe.grpc
    only = agnhost.port_of(command, words[words.index(command) + 1 :])
    return action is None or isinstance(action.port, str) or only in (None, action.port)


def _refusal(probe: Probe, sources: Sources) -> str:
    """Return what a kubelet reports of a connection that is refused."""
    action = probe.http_get or probe.tcp_socket or probe.grpc
    port = 0 if action is None else action.port
    address = f"{sources.fields.get('status.podIP', '')}:{port}"
    refused = f"dial tcp {address}: connect: connection refused"
    if probe.http_get is not None:
        scheme, path = probe.http_get.scheme.lower() or "http", probe.http_get.path
        return f'Get "{scheme}://{address}/{path.removeprefix("/")}": {refused}'
    if probe.grpc is not None:
        seconds = f"{probe.timeout_seconds}s"
        return f'timeout: failed to connect service "{address}" within {seconds}: context deadline exceeded'
    return refused


def http_request(action: HttpGetAction, spec: ContainerSpec, client: Client) -> tuple[str, int, Query] | None:
    """Return where a kubelet sends the request of a probe or a hook, and the request; None without a port
    or an IP address."""
    named = (one.container_port for one in spec.ports if one.name == action.port)
    port = next(named, 0) if isinstance(action.port, str) else action.port
    address = action.host or client.source.address
    if not port or not is_address(address):
        return None
    headers = {"host": f"{address}:{port}", "user-agent": "kube-probe/1.36"}
    headers |= {one.name.lower(): one.value for one in action.http_headers}
    query = Query("GET", f"/{action.path.removeprefix('/')}", headers, scheme=action.scheme.lower() or "http")
    return address, port, query


def local_redirect(path: str) -> str:
    """Return the path that a request for agnhost's `/redirect` ends at; other paths are returned as they
    are."""
    target = _redirect_target(path)
    return path if target is None or "://" in target else target


def foreign_redirect(spec: ContainerSpec, probe: Probe | None) -> str:
    """Return the URL of another host that a probe is redirected to, or ""; kubelets do not follow it."""
    if probe is None or probe.http_get is None or agnhost.command_of(spec) not in agnhost.SERVERS:
        return ""
    target = _redirect_target(probe.http_get.path) or ""
    return target if "://" in target else ""


def _redirect_target(path: str) -> str | None:
    url = urlsplit(path)
    return next(iter(parse_qs(url.query).get("loc", ())), None) if url.path == "/redirect" else None


def _failure(
    command: ContainerSpec,
    probe: Probe,
    sources: Sources,
    files: Files,
    at: float,
    work: Work,
    client: Client | None,
) -> str | None:
    fork = files.fork()
    fork.last_read = 0.0
    outcome = run_program(command, sources, fork, at, work, wire=None if client is None else Wire(client))
    if fork.last_read:
        files.last_read = math.inf  # as long as the container runs
    fork.forget()
    if outcome is None:
        return None
    if outcome.run_time is None or outcome.run_time > probe.timeout_seconds:
        return f'command timed out: "{" ".join(command.command)}" timed out after {probe.timeout_seconds}s'
    return "".join(text for _, text in outcome.output) if outcome.exit_code else None


def probe_changes(probe: Probe, results: list[Result], first: float, *, succeeds: bool) -> Iterable[Change]:
    """Yield when enough probes in a row have succeeded that failed before, and the other way round. `first`
    is the time of the first probe, `succeeds` the state before it."""
    period = max(probe.period_seconds, 1)
    streak, before = 0, not succeeds
    for number, result in enumerate(results):
        succeeded = result.failure is None
        streak = streak if succeeded == before else 0
        before = succeeded
        end = results[number + 1].at if number + 1 < len(results) else math.inf
        needed = max(probe.success_threshold if succeeded else probe.failure_threshold, 1)
        count = max(0, math.ceil((result.at - first) / period))
        if streak >= needed:
            continue
        at = first + (count + needed - streak - 1) * period  # of the probe that completes the streak
        if at < end:
            streak = needed
            if succeeded != succeeds:
                succeeds = succeeded
                yield Change(at, result.failure)
        else:
            streak += max(0, math.ceil((end - first) / period) - count)
