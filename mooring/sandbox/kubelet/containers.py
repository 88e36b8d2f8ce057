"""The containers of a pod through its life: pulled, started in order, ended and started again.

No I/O and no clock: `PodLife.advance` does what is due by a time, and says when to call it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from mooring.api.objects import Container, Pod
from mooring.api.times import go_duration, parse_time
from mooring.sandbox.kubelet.scripts import Script
from mooring.sandbox.programs.program import Outcome, is_missing, run_program
from mooring.sandbox.programs.specs import ContainerSpec, Handler, PodRun, Probe

FIRST_BACKOFF = 10.0  # seconds before a container is started the third time; doubles from then on
LAST_BACKOFF = 300.0
SHORTEST = 0.1  # seconds that a container runs, so that its pod is seen running
PULL_TIME = 1.0  # seconds from the error of a pull to waiting for the next
RETRY = 5.0  # seconds until a missing ConfigMap or Secret is looked up again
KILLED = 137

WAITING, RUNNING, TERMINATED = "waiting", "running", "terminated"


class Ended(NamedTuple):
    """How a container ended. Times are seconds since the epoch."""

    exit_code: int
    started: float
    finished: float
    message: str = ""


class Note(NamedTuple):
    """An event about a pod."""

    type: str
    reason: str
    message: str


class ContainerLife:
    """One container. `due` is when a waiting one is looked at again; `end` how a terminated one ended, and
    `last` how it ended before."""

    __slots__ = (
        "backoff", "due", "end", "image", "is_init", "is_sidecar", "last", "message", "name", "outcome",
        "ready_at", "reason", "restarts", "spec", "started", "state",
    )  # fmt: skip

    def __init__(self, container: Container, spec: ContainerSpec | None, is_init: bool) -> None:
        self.name = container.name
        self.image = container.image
        self.spec = spec
        self.is_init = is_init
        self.is_sidecar = is_init and container.restart_policy == "Always"
        self.state = WAITING
        self.reason = self.message = ""
        self.due = 0.0
        self.started = 0.0
        self.ready_at: float | None = None
        self.outcome = _FOREVER
        self.end: Ended | None = None
        self.last: Ended | None = None
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
        return self.state == RUNNING and self.ready_at is not None and now >= self.ready_at

    @property
    def ends_at(self) -> float | None:
        """When a running container ends by itself."""
        return None if self.outcome.run_time is None else self.started + self.outcome.run_time

    def next_time(self, now: float) -> float | None:
        """Return when there is something to do for the container."""
        if self.state == WAITING:
            return self.due if self.due > now else None
        if self.state == TERMINATED:
            return None
        if self.ready_at is not None and self.ready_at > now:
            return self.ready_at if self.ends_at is None else min(self.ready_at, self.ends_at)
        return self.ends_at


_CREATED = Note("Normal", "Created", "Container created")
_STARTED = Note("Normal", "Started", "Container started")
_FOREVER = Outcome(None)
_AT_ONCE = Outcome(0.0)


class PodLife:
    """The containers of one pod. `missing` has the ConfigMaps and Secrets that they lack, by container."""

    __slots__ = (
        "_files", "_missing_images", "_policy", "changed", "containers", "ephemerals", "inits", "missing",
        "notes", "over", "pod", "run", "script", "started", "unready",
    )  # fmt: skip

    def __init__(
        self, pod: Pod, run: PodRun | None, script: Script, missing_images: Collection[str] = ()
    ) -> None:
        specs = (
            {}
            if run is None
            else {one.name: one for one in (*run.spec.init_containers, *run.spec.containers)}
        )
        self.pod = pod
        self.run = run
        self._policy = pod.spec.restart_policy
        self._files: dict[str, str] = {}
        self.script = script
        self.inits = [ContainerLife(each, specs.get(each.name), True) for each in pod.spec.init_containers]
        self.containers = [ContainerLife(each, specs.get(each.name), False) for each in pod.spec.containers]
        self.ephemerals: list[ContainerLife] = []
        self._missing_images = missing_images
        self.missing: dict[str, str] = {}
        self.notes: list[Note] = []
        self.changed = False
        self.over = False
        self.started = False  # volumes and devices are there
        self.unready = False  # as written last

    @property
    def all(self) -> Iterator[ContainerLife]:
        yield from self.inits
        yield from self.containers

    @property
    def initialized(self) -> bool:
        return all(one.done or (one.is_sidecar and one.ran) for one in self.inits)

    @property
    def phase(self) -> str:
        """The phase, as kubelet derives it from the containers."""
        if self.over:
            return (
                "Succeeded"
                if all(one.end and one.end.exit_code == 0 for one in self.containers)
                else "Failed"
            )
        if not self.initialized or not all(one.ran for one in self.containers):
            return "Pending"
        return "Running"

    @property
    def waits_for_configuration(self) -> bool:
        """Whether a container is yet to be started that takes variables from ConfigMaps or Secrets."""
        return any(
            one.state == WAITING and one.spec is not None and one.spec.is_configured for one in self.all
        )

    def is_ready(self, now: float) -> bool:
        """Whether all containers are ready."""
        return all(one.is_ready(now) for one in self.containers)

    def becomes_ready(self, now: float) -> bool:
        """Whether a container is ready that was not at the last call."""
        before, self.unready = self.unready, not self.is_ready(now)
        return before and not self.unready

    def advance(self, now: float) -> float | None:
        """Do what is due; return when the next thing is."""
        self._step(now)
        everything = (*self.all, *self.ephemerals)
        times = [time for one in everything if (time := one.next_time(now)) is not None]
        return min(times) if times and not self.over else None

    def _step(self, now: float) -> None:
        if self.over:
            return
        for ephemeral in self.ephemerals:
            self._keep(ephemeral, now)
        for init in self.inits:
            if init.done:
                continue
            self._keep(init, now)
            if init.is_sidecar and init.state == RUNNING:
                continue
            if not init.done:
                if init.state == TERMINATED:
                    self._finish(now)
                return
        for container in self.containers:
            self._keep(container, now)
        if all(one.state == TERMINATED for one in self.containers):
            self._finish(now)

    @property
    def stop_delay(self) -> float:
        """The seconds that the preStop hooks of running containers take."""
        hooks = (
            one.spec.lifecycle.pre_stop
            for one in self.all
            if one.state == RUNNING and one.spec is not None and one.spec.lifecycle is not None
        )
        return max((_hook_time(hook, self.pod) for hook in hooks if hook is not None), default=0.0)

    def stop(self, now: float, exit_code: int) -> None:
        """End everything that runs."""
        for one in (*self.all, *self.ephemerals):
            if one.state == RUNNING:
                self._end(one, Ended(0 if one.is_sidecar and exit_code == 0 else exit_code, one.started, now))
        self.over = True

    def _finish(self, now: float) -> None:
        for one in (*self.inits, *self.ephemerals):
            if one.state == RUNNING:
                self._end(one, Ended(0, one.started, now))
        self.over = self.changed = True

    # ---- one container

    def _keep(self, one: ContainerLife, now: float) -> None:
        """Start a container, end it, and start it again, as its time has come."""
        if one.state == WAITING and now >= one.due:
            self._begin(one, now)
        while one.state == RUNNING and (end := one.ends_at) is not None and now >= end:
            self._end(one, Ended(one.outcome.exit_code, one.started, now, one.outcome.message))
            if self._is_restarted(one):
                self._begin_again(one, now)

    def _is_restarted(self, one: ContainerLife) -> bool:
        assert one.end is not None
        if one.is_sidecar or one in self.ephemerals:
            return one.is_sidecar
        if self._policy == "Always" and not one.is_init:
            return True
        return self._policy != "Never" and one.end.exit_code != 0

    def _begin(self, one: ContainerLife, now: float) -> None:
        if is_missing(one.image, self._missing_images):
            self._fail_pull(one, now)
        elif missing := self.missing.get(one.name):
            self.notes.append(Note("Warning", "Failed", f"Error: {missing}"))
            self._wait(one, "CreateContainerConfigError", missing, now + RETRY)
        else:
            self._start(one, now)

    def _begin_again(self, one: ContainerLife, now: float) -> None:
        assert one.end is not None
        one.last, one.end = one.end, None
        if one.backoff == 0.0 or one.last.finished - one.last.started > 2 * LAST_BACKOFF:
            one.backoff = FIRST_BACKOFF
            self._start(one, now)
            return
        pod = pod_text(self.pod)
        self.notes.append(
            Note("Warning", "BackOff", f"Back-off restarting failed container {one.name} in pod {pod}")
        )
        message = f"back-off {go_duration(one.backoff)} restarting failed container={one.name} pod={pod}"
        self._wait(one, "CrashLoopBackOff", message, now + one.backoff)
        one.backoff = min(one.backoff * 2, LAST_BACKOFF)

    def _start(self, one: ContainerLife, now: float) -> None:
        one.restarts += one.last is not None
        one.state, one.reason, one.message, one.started = RUNNING, "", "", now
        one.outcome = self._probed(one, self._outcome(one))
        one.ready_at = self._ready_at(one)
        self.changed = True
        image = f'Container image "{one.image}" already present on machine and can be accessed by the pod'
        self.notes.append(Note("Normal", "Pulled", image))
        self.notes.append(_CREATED)
        self.notes.append(_STARTED)

    def _outcome(self, one: ContainerLife) -> Outcome:
        if one.is_init:
            outcome = (
                None
                if one.spec is None
                else run_program(one.spec, self.pod.metadata, self._files, one.started)
            )
            return outcome or (_FOREVER if one.is_sidecar else _AT_ONCE)
        if one in self.ephemerals and one.spec is not None:
            outcome = run_program(one.spec, self.pod.metadata, self._files, one.started)
            return outcome or (_FOREVER if one.spec.stdin else _AT_ONCE)  # a shell ends without input
        if one.spec is not None and not self.script.annotated:
            outcome = run_program(one.spec, self.pod.metadata, self._files, one.started)
            if outcome is not None:
                run_time = outcome.run_time
                return outcome._replace(run_time=None if run_time is None else max(run_time, SHORTEST))
        return Outcome(self.script.run_time, self.script.exit_code)

    def _probed(self, one: ContainerLife, outcome: Outcome) -> Outcome:
        """Return how a container ends whose liveness probe is known to fail: killed, or earlier by itself."""
        probe = None if one.spec is None else one.spec.liveness_probe
        if probe is None or not _fails(probe, self.pod):
            return outcome
        killed = float(
            probe.initial_delay_seconds + probe.period_seconds * max(probe.failure_threshold - 1, 0)
        )
        if outcome.run_time is not None and outcome.run_time <= killed:
            return outcome
        return outcome._replace(run_time=max(killed, SHORTEST), exit_code=KILLED)

    def _ready_at(self, one: ContainerLife) -> float | None:
        """Return when a container is ready: at the first probe, unless its command is known to fail."""
        probe = None if one.spec is None else one.spec.readiness_probe
        if probe is None:
            return one.started
        return None if _fails(probe, self.pod) else one.started + probe.initial_delay_seconds

    def _end(self, one: ContainerLife, end: Ended) -> None:
        one.state, one.end = TERMINATED, end
        self.changed = True

    def _wait(self, one: ContainerLife, reason: str, message: str, due: float) -> None:
        if (one.reason, one.message) != (reason, message):
            self.changed = True
        one.state, one.reason, one.message, one.due = WAITING, reason, message, due

    def _fail_pull(self, one: ContainerLife, now: float) -> None:
        """Fail to pull an image: an error, then a wait that doubles from time to time."""
        image = one.image
        if one.reason != "ErrImagePull":
            error = (
                f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": not found'
            )
            self.notes.append(Note("Normal", "Pulling", f'Pulling image "{image}"'))
            self.notes.append(Note("Warning", "Failed", f'Failed to pull image "{image}": {error}'))
            self.notes.append(Note("Warning", "Failed", "Error: ErrImagePull"))
            self._wait(one, "ErrImagePull", error, now + PULL_TIME)
            return
        one.backoff = min(one.backoff * 2, LAST_BACKOFF) or FIRST_BACKOFF
        self.notes.append(Note("Normal", "BackOff", f'Back-off pulling image "{image}"'))
        self.notes.append(Note("Warning", "Failed", "Error: ImagePullBackOff"))
        self._wait(one, "ImagePullBackOff", f'Back-off pulling image "{image}"', now + one.backoff)

    # ---- changes from outside

    def change(self, pod: Pod, script: Script) -> None:
        """Follow a change of the pod: another image, or other annotations."""
        self.pod = pod
        if script != self.script:
            self.script = script
            for one in self.containers:
                if one.state == RUNNING:
                    one.outcome = self._outcome(one)
        images = {each.name: each.image for each in (*pod.spec.init_containers, *pod.spec.containers)}
        for one in self.all:
            image = images.get(one.name, one.image)
            if image != one.image:
                self._replace_image(one, image)

    def attach(self, run: PodRun) -> None:
        """Run the ephemeral containers that have been added to the pod."""
        names = {one.name for one in self.ephemerals}
        for spec in run.spec.ephemeral_containers:
            if spec.name not in names:
                container = Container(name=spec.name, image=spec.image)
                self.ephemerals.append(ContainerLife(container, spec, False))
                self.changed = True

    def _replace_image(self, one: ContainerLife, image: str) -> None:
        """A new image is started at once; a running container is ended for it."""
        one.image, one.due = image, 0.0
        if one.state == RUNNING:
            one.last, one.state = Ended(TERMINATED_CODE, one.started, one.started), WAITING
        if one.last is None:
            one.backoff = 0.0
        self.changed = True

    def recall(self) -> None:
        """Restore the state of the containers from the pod's status, after a restart of this process."""
        status = self.pod.status
        before = {one.name: one for one in (*status.init_container_statuses, *status.container_statuses)}
        for one in self.all:
            known = before.get(one.name)
            if known is None:
                continue
            one.restarts = known.restart_count
            if one.restarts:
                one.backoff = min(FIRST_BACKOFF * 2.0 ** min(one.restarts - 1, 10), LAST_BACKOFF)
            running, ended, last = known.state.running, known.state.terminated, known.last_state.terminated
            if last is not None and last.finished_at:
                finished = parse_time(last.finished_at)
                one.last = Ended(last.exit_code, finished, finished)
                one.due = finished + one.backoff
            if running is not None and running.started_at:
                one.state, one.started = RUNNING, parse_time(running.started_at)
                one.outcome = self._outcome(one)
                one.ready_at = self._ready_at(one)
            elif ended is not None and ended.finished_at:
                finished = parse_time(ended.finished_at)
                one.state, one.end = TERMINATED, Ended(ended.exit_code, finished, finished)
        self.started = any(one.ran for one in self.all)


TERMINATED_CODE = 143
"""The exit code of a container that obeys SIGTERM."""


def _fails(probe: Probe, pod: Pod) -> bool:
    if probe.exec is None or not probe.exec.command:
        return False
    outcome = run_program(ContainerSpec(command=probe.exec.command), pod.metadata, {})
    return outcome is not None and outcome.exit_code != 0


def _hook_time(hook: Handler, pod: Pod) -> float:
    if hook.sleep is not None:
        return float(hook.sleep.seconds)
    if hook.exec is None:
        return 0.0
    outcome = run_program(ContainerSpec(command=hook.exec.command), pod.metadata, {})
    return 0.0 if outcome is None else LAST_BACKOFF if outcome.run_time is None else outcome.run_time


def pod_text(pod: Pod) -> str:
    """As kubelet names pods."""
    return f"{pod.name}_{pod.namespace}({pod.uid})"
