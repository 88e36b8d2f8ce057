"""One container of a pod: what state it is in, and how its runs went."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mooring.api.objects import Container, ContainerStatus, ResourceRequirements
from mooring.api.times import parse_time
from mooring.sandbox.kubelet.connections import Connection
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.probing import Change, Health
from mooring.sandbox.programs.program import Outcome
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec
from mooring.sandbox.programs.stdin import EMPTY

WAITING, RUNNING, TERMINATED = "waiting", "running", "terminated"
FIRST_BACKOFF = 10.0  # seconds before a container is started the third time; doubles from then on
LAST_BACKOFF = 300.0
SHORTEST = 0.1  # seconds that a container runs, so that its pod is seen running
KILLED = 137
TERMINATED_CODE = 143
"""The exit code of a container that obeys SIGTERM."""


class Ended(NamedTuple):
    """How a container ended. Times are seconds since the epoch. Without a `reason` it follows from the exit
    code."""

    exit_code: int
    started: float
    finished: float
    message: str = ""
    reason: str = ""


class Note(NamedTuple):
    """An event about a container of a pod."""

    type: str
    reason: str
    message: str
    field_path: str


class ContainerLife:
    """One container. `due` is when a waiting one is looked at again; `end` how a terminated one ended, and
    `last` how it ended before."""

    __slots__ = (
        "allocated", "backoff", "connection", "due", "end", "field_path", "files", "health", "image",
        "is_ephemeral", "is_init", "is_sidecar", "last", "message", "name", "notices", "outcome",
        "reason", "resources", "restarts", "sources", "spec", "started", "state", "stdin",
    )  # fmt: skip

    def __init__(self, container: Container, spec: ContainerSpec | None, field: str = "containers") -> None:
        self.name = container.name
        self.field_path = f"spec.{field}{{{container.name}}}"
        self.image = container.image
        self.allocated = container.resources  # by the node
        self.resources = container.resources  # that it runs with: those that were allocated, but for a resize
        self.spec = spec
        self.is_ephemeral = field == "ephemeralContainers"
        self.is_init = field == "initContainers"
        self.is_sidecar = self.is_init and container.restart_policy == "Always"
        self.state = WAITING
        self.reason = self.message = ""
        self.due = 0.0
        self.started = 0.0
        self.health = HEALTHY
        self.outcome = FOREVER
        self.files = NO_FILES
        self.sources: Sources | None = None  # as they were at its start
        self.connection = NO_CONNECTION
        self.notices: list[tuple[float, Note]] = []  # events to come
        self.end: Ended | None = None
        self.last: Ended | None = None
        self.stdin = EMPTY
        self.restarts = 0
        self.backoff = 0.0  # how long it waits the next time

    @property
    def ran(self) -> bool:
        """Whether it was started at least once."""
        return self.state != WAITING or self.last is not None

    @property
    def done(self) -> bool:
        """Whether an init container has done its work."""
        return self.state == TERMINATED and self.end is not None and self.end.exit_code == 0

    def is_ready(self, now: float) -> bool:
        if self.is_init and not self.is_sidecar:
            return self.done
        return self.state == RUNNING and self.health.is_ready(now)

    def has_started(self, now: float) -> bool:
        """Whether it runs and its startup probe has succeeded."""
        started = self.health.started_at
        return self.state == RUNNING and started is not None and started <= now

    @property
    def ends_at(self) -> float | None:
        """When a running container ends by itself."""
        return None if self.outcome.run_time is None else self.started + self.outcome.run_time

    def ended_by_stop(self, now: float, exit_code: int) -> Ended:
        """Return how the container ends that is stopped, unless it ended by itself meanwhile."""
        end = self.ends_at
        if end is not None and end <= now:
            return Ended(self.outcome.exit_code, self.started, end, self.outcome.message)
        code = 0 if self.is_sidecar and exit_code == 0 else exit_code
        if self.outcome.stop is not None and exit_code == TERMINATED_CODE:
            code = self.outcome.stop.exit_code
        return Ended(code, self.started, now)

    def log(self, output: Iterable[tuple[float, str]], now: float) -> bool:
        """Add what a hook or a server has written to the output of the container; return whether there is
        any."""
        lines = [(now - self.started + at, text) for at, text in output]
        if lines:
            self.outcome = self.connection.log(lines)
        return bool(lines)

    def recall(self, status: ContainerStatus) -> None:
        """Restore the state from a status that was written before."""
        self.restarts = status.restart_count
        if status.resources is not None:
            self.resources = status.resources
            self.allocated = ResourceRequirements(status.allocated_resources, status.resources.limits)
        if self.restarts:
            self.backoff = min(FIRST_BACKOFF * 2.0 ** min(self.restarts - 1, 10), LAST_BACKOFF)
        running, ended, last = status.state.running, status.state.terminated, status.last_state.terminated
        if last is not None and last.finished_at:
            finished = parse_time(last.finished_at)
            self.last = Ended(last.exit_code, finished, finished)
            self.due = finished + self.backoff
        if running is not None and running.started_at:
            self.state, self.started = RUNNING, parse_time(running.started_at)
        elif ended is not None and ended.finished_at:
            finished = parse_time(ended.finished_at)
            self.state, self.end = TERMINATED, Ended(ended.exit_code, finished, finished)

    def note(self, type: str, reason: str, message: str) -> Note:
        return Note(type, reason, message, self.field_path)

    def next_time(self, now: float) -> float | None:
        """Return when there is something to do for the container."""
        if self.state == WAITING:
            return self.due if self.due > now else None
        if self.state == TERMINATED:
            return None
        times = [at for at, _ in self.notices]
        others = self.ends_at, self.health.next_change(now), self.connection.resumes_at
        times += [at for at in others if at is not None]
        return min(times, default=None)


FOREVER = Outcome(None)
NO_FILES = Files()
NO_CONNECTION = Connection()
"""Of a container that has not started."""
HEALTHY = Health(0.0, (Change(0.0, None),))
