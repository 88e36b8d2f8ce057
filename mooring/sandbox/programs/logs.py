"""The log of a container: what its program would have printed by now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from mooring.api.times import format_time, parse_time
from mooring.sandbox.programs.program import run_program
from mooring.sandbox.programs.specs import ContainerSpec, LoggedPod, RunStatus

NO_LOG: Final = "there are no logs: containers do not run in an embedded cluster\n"


class LogOptions(NamedTuple):
    """Options of a request for a log. `since` is seconds since the epoch."""

    container: str = ""
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: float | None = None


class LogError(Exception):
    """There is no such log."""


def read_container_log(pod: LoggedPod, options: LogOptions, now: float) -> str:
    """Return the log of a container. Raises LogError, in the words of kubelet and API server."""
    spec = choose_container(pod, options.container)
    status = _find_status(pod, spec.name)
    state = status.last_state if options.previous else status.state
    run = state.running or state.terminated
    if run is None and options.previous:
        raise LogError(f'previous terminated container "{spec.name}" in pod "{pod.name}" not found')
    if run is None and status.last_state.terminated is not None:
        run = status.last_state.terminated
    if run is None:
        reason = state.waiting.reason if state.waiting is not None else "ContainerCreating"
        raise LogError(f'container "{spec.name}" in pod "{pod.name}" is waiting to start: {reason}')
    outcome = run_program(spec, pod.metadata, {})
    if outcome is None:
        return NO_LOG
    started = parse_time(run.started_at) if run.started_at else now
    until = parse_time(run.finished_at) + 1 if run.finished_at else now  # the status has whole seconds
    printed = [(started + at, text) for at, text in outcome.output if started + at <= max(until, started)]
    return _format(printed, options)


def choose_container(pod: LoggedPod, name: str) -> ContainerSpec:
    """Return the container by this name, or the only one."""
    inits, containers = pod.spec.init_containers, pod.spec.containers
    if not name:
        if len(containers) == 1 and not inits:
            return containers[0]
        choice = f"choose one of: [{' '.join(one.name for one in containers)}]"
        if inits:
            choice += f" or one of the init containers: [{' '.join(one.name for one in inits)}]"
        raise LogError(f"a container name must be specified for pod {pod.name}, {choice}")
    for one in (*containers, *inits):
        if one.name == name:
            return one
    raise LogError(f"container {name} is not valid for pod {pod.name}")


def _find_status(pod: LoggedPod, name: str) -> RunStatus:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return next((one for one in statuses if one.name == name), RunStatus())


def _format(printed: Iterable[tuple[float, str]], options: LogOptions) -> str:
    lines: list[str] = []
    for at, text in printed:
        if options.since is not None and at < options.since:
            continue
        stamp = f"{format_time(at, micro=True)} " if options.timestamps else ""
        lines.extend(stamp + line for line in text.splitlines(keepends=True))
    if options.tail_lines is not None:
        lines = lines[len(lines) - min(options.tail_lines, len(lines)) :]
    text = "".join(lines)
    return (
        text if options.limit_bytes is None else text.encode()[: options.limit_bytes].decode(errors="ignore")
    )
