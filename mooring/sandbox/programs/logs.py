"""The log of a container: what its program would have printed by now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from mooring.api.times import format_time, parse_time
from mooring.sandbox.programs.files import Files, Mount
from mooring.sandbox.programs.program import Outcome, run_program
from mooring.sandbox.programs.rights import find_user
from mooring.sandbox.programs.runs import Runs
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec, LoggedPod, RunStatus, Started
from mooring.sandbox.programs.stdin import EMPTY, OPEN

NO_LOG: Final = "there are no logs: containers do not run in a sandbox cluster\n"


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


class ContainerLog(NamedTuple):
    """The log of one run of a container. Times are seconds since the epoch; `end` is None while it runs, and
    `output` if it is not known what it prints."""

    started_at: str
    output: tuple[tuple[float, str], ...] | None
    end: float | None

    def read(self, options: LogOptions, until: float) -> str:
        """Return what was printed by a time, in the format that the options ask for."""
        if self.output is None:
            return NO_LOG
        return _format(self._between(0.0, until), options)

    def read_more(self, options: LogOptions, after: float, until: float) -> str:
        """Return what was printed between two times."""
        more = options._replace(tail_lines=None, since=None)
        return "" if self.output is None else _format(self._between(after, until), more)

    def next_output(self, now: float) -> float | None:
        """Return when the container prints again; None if that is not known."""
        return next((at for at, _ in self.output or () if at > now), None)

    def _between(self, after: float, until: float) -> list[tuple[float, str]]:
        end = until if self.end is None else min(self.end, until)
        return [(at, text) for at, text in self.output or () if after < at <= end]


def find_container_log(pod: LoggedPod, options: LogOptions, runs: Runs) -> ContainerLog:
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
    return _container_log(pod, spec, run, runs)


def find_log_of_run(
    pod: LoggedPod, container: str, started_at: str, runs: Runs, before: ContainerLog | None
) -> ContainerLog | None:
    """Return the log of the run that started at a time; None if another has taken its place. `before` is its
    log if the pod has not changed since."""
    spec = choose_container(pod, container)
    status = _find_status(pod, spec.name)
    latest = (status.state.running, status.state.terminated, status.last_state.terminated)
    run = next((one for one in latest if one is not None and one.started_at == started_at), None)
    return None if run is None else _container_log(pod, spec, run, runs, before)


def _container_log(
    pod: LoggedPod, spec: ContainerSpec, run: Started, runs: Runs, before: ContainerLog | None = None
) -> ContainerLog:
    """Return what a node knows of a run, or else what the command alone says."""
    started = parse_time(run.started_at) if run.started_at else 0.0
    end = max(parse_time(run.finished_at) + 1, started) if run.finished_at else None  # in whole seconds
    recorded = runs.find(pod.metadata.uid, spec.name, run.started_at or "")
    outcome: Outcome | None
    if recorded is not None:
        started, outcome = recorded
    elif before is not None:
        return before
    else:
        mounts = (Mount(one.mount_path, None) for one in spec.volume_mounts)
        files = Files(mounts, find_user(spec, pod.spec.security_context))
        outcome = run_program(
            spec, Sources(pod.metadata), files, started, stdin=OPEN if spec.stdin else EMPTY
        )
    output = None if outcome is None else tuple((started + at, text) for at, text in outcome.output)
    return ContainerLog(run.started_at or "", output, end)


def choose_container(pod: LoggedPod, name: str) -> ContainerSpec:
    """Return the container by this name, or the only one."""
    containers = pod.spec.containers
    everything = (*pod.spec.init_containers, *containers, *pod.spec.ephemeral_containers)
    if not name:
        if len(containers) == 1:
            return containers[0]
        choice = " ".join(one.name for one in everything)
        raise LogError(f"a container name must be specified for pod {pod.name}, choose one of: [{choice}]")
    for one in everything:
        if one.name == name:
            return one
    raise LogError(f"container {name} is not valid for pod {pod.name}")


def _find_status(pod: LoggedPod, name: str) -> RunStatus:
    status = pod.status
    lists = (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses)
    return next((one for statuses in lists for one in statuses if one.name == name), RunStatus())


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
