"""The containers of a pod through its life: pulled, started in order, ended and started again.

No I/O and no clock: `PodLife.advance` does what is due by a time, and says when to call it again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial

import msgspec

from mooring.api.objects import Container, Pod
from mooring.api.times import go_duration
from mooring.sandbox.kubelet.allocation import Allocation
from mooring.sandbox.kubelet.connections import Connection
from mooring.sandbox.kubelet.container_life import (
    FIRST_BACKOFF,
    KILLED,
    LAST_BACKOFF,
    RUNNING,
    SHORTEST,
    TERMINATED,
    TERMINATED_CODE,
    WAITING,
    ContainerLife,
    Ended,
    Note,
)
from mooring.sandbox.kubelet.evaluation import Evaluation
from mooring.sandbox.kubelet.hooks import ask_post_start, run_post_start, run_pre_stop
from mooring.sandbox.kubelet.pulls import PullError, find_first_pull_error
from mooring.sandbox.kubelet.scripts import Script
from mooring.sandbox.kubelet.shares import container_limits, pod_limits, shares_of
from mooring.sandbox.kubelet.surroundings import Surroundings
from mooring.sandbox.kubelet.users import root_problem
from mooring.sandbox.programs import cgroups
from mooring.sandbox.programs.environment import missing_file_key
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.kernel import Shares
from mooring.sandbox.programs.runs import Runs
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec, PodRun
from mooring.sandbox.programs.stdin import EMPTY, OPEN
from mooring.sandbox.programs.volume import Volume
from mooring.sandbox.programs.volumes import FindDisk, SubPathError, no_disk
from mooring.sandbox.programs.wire import Client
from mooring.sandbox.programs.work import Work

PULL_TIME = 1.0  # seconds from the error of a pull to waiting for the next
RETRY = 5.0  # seconds until a missing ConfigMap or Secret is looked up again
REMOVAL_TIME = 1.0  # seconds that a kubelet takes to remove all containers of a pod
RESTARTING_ALL = "RestartingAllContainers"
REMOVED = "The container is removed because RestartAllContainers in place"


class PodLife:
    """The containers of one pod. `missing` has the ConfigMaps and Secrets that they lack, by container."""

    __slots__ = (
        "_missing_images", "_policy", "_seen", "allocation", "changed", "client", "containers", "ephemerals",
        "evaluation", "initialized", "inits", "missing", "notes", "over", "pod", "run", "started",
        "surroundings",
    )  # fmt: skip

    def __init__(
        self,
        pod: Pod,
        run: PodRun | None,
        script: Script,
        sources: Sources,
        runs: Runs,
        host: Volume,
        missing_images: Collection[str] = (),
        find_disk: FindDisk = no_disk,
    ) -> None:
        specs = (
            {}
            if run is None
            else {one.name: one for one in (*run.spec.init_containers, *run.spec.containers)}
        )
        self.pod = pod
        self.run = run
        self.client: Client | None = None  # until the pod has an address
        self._policy = pod.spec.restart_policy
        self.surroundings = Surroundings(run, sources, host, find_disk)
        self.evaluation = Evaluation(pod.uid, script, self.surroundings, runs)
        self.inits = [
            ContainerLife(each, specs.get(each.name), "initContainers") for each in pod.spec.init_containers
        ]
        self.containers = [ContainerLife(each, specs.get(each.name)) for each in pod.spec.containers]
        self.ephemerals: list[ContainerLife] = []
        self._missing_images = missing_images
        self.missing: dict[str, str] = {}
        self.notes: list[Note] = []
        self.changed = False
        self.allocation = Allocation(pod, [*self.inits, *self.containers])
        self.over = False
        self.started = False  # volumes and devices are there
        self.initialized = not self.inits  # all init containers are done, all sidecars have started
        self._seen: list[tuple[bool, bool]] = []  # which containers had started and were ready

    @property
    def all(self) -> Iterator[ContainerLife]:
        yield from self.inits
        yield from self.containers

    @property
    def phase(self) -> str:
        """The phase, as kubelet derives it from the containers."""
        if self.over:
            return (
                "Succeeded"
                if all(one.end and one.end.exit_code == 0 for one in self.containers)
                else "Failed"
            )
        initializing = (one.state == RUNNING or not one.ran for one in self.inits if not one.is_sidecar)
        if any(initializing) or not all(one.ran for one in self.containers):
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

    def looks_different(self, now: float) -> bool:
        """Whether a container has started, become ready or unready since the last call."""
        before, self._seen = self._seen, [(one.has_started(now), one.is_ready(now)) for one in self.all]
        return before != self._seen

    def advance(self, now: float) -> float | None:
        """Do what is due; return when the next thing is. If that is much work, the rest is due at once."""
        self.evaluation.work = 0
        self._step(now)
        if self.evaluation.must_yield and not self.over:
            return now
        everything = (*self.all, *self.ephemerals)
        times = [time for one in everything if (time := one.next_time(now)) is not None]
        return min(times) if times and not self.over else None

    def _step(self, now: float) -> None:
        if self.over or not self.evaluation.evaluate_stale(now):
            return
        for ephemeral in self.ephemerals:
            self._keep(ephemeral, now)
        for init in self.inits:
            if init.done:
                continue
            self._keep(init, now)
            if init.is_sidecar and (self.initialized or init.has_started(now)):
                continue
            if not init.done:
                if init.state == TERMINATED:
                    self._finish(now)
                return
        self.initialized = True
        for container in self.containers:
            self._keep(container, now)
        if all(one.state == TERMINATED for one in self.containers):
            self._finish(now)

    def begin_stop(self, now: float) -> float:
        """Run the preStop hooks of running containers; return the seconds that they take."""
        work = Work()
        running = [one for one in self.all if one.state == RUNNING]
        seconds = max((self._pre_stop(one, now, work) for one in running), default=0.0)
        for one in running:  # kubelet only asks whether they are ready from now on
            if one.spec is not None and one.spec.readiness_probe is not None:
                one.spec = msgspec.structs.replace(one.spec, liveness_probe=None)
                self.evaluation.evaluate(one, now)
        return seconds

    def next_readiness(self, now: float) -> float:
        """Return when a running container becomes ready or unready."""
        times = (one.health.next_change(now) for one in self.all if one.state == RUNNING)
        return min((at for at in times if at is not None), default=math.inf)

    def _pre_stop(self, one: ContainerLife, now: float, work: Work) -> float:
        outcome = run_pre_stop(one, now, work)
        if outcome is None:
            return 0.0
        if outcome.exit_code:
            self._note(one, "Warning", "FailedPreStopHook", "PreStopHook failed")
        self.log(one, outcome.output, now)
        return LAST_BACKOFF if outcome.run_time is None else outcome.run_time

    def connect(self, client: Client) -> None:
        """Connect the pod to the network, at its address."""
        self.client = client
        for one in (*self.all, *self.ephemerals):
            if one.state == RUNNING:
                one.connection = Connection(client)

    def log(self, one: ContainerLife, output: Iterable[tuple[float, str]], now: float) -> None:
        """Add what a hook or a server has written at so many seconds from now."""
        if one.log(output, now):
            self.evaluation.keep(one)

    def end_soon(self, one: ContainerLife, at: float, exit_code: int) -> None:
        """End a container at a time, because of a request to its server."""
        one.outcome = one.connection.exit(max(at - one.started, SHORTEST), exit_code)

    @property
    def stop_time(self) -> float:
        """The seconds that running containers take to handle the signal to stop; 0 if none does."""
        stops = (one.outcome.stop for one in self.all if one.state == RUNNING)
        return max((stop.seconds for stop in stops if stop is not None), default=0.0)

    def stop(self, now: float, exit_code: int) -> None:
        """End everything that runs, with the code of containers that do not handle the signal."""
        for one in (*self.all, *self.ephemerals):
            if one.state == RUNNING:
                self._end(one, one.ended_by_stop(now, exit_code))
        self.over = True

    def abandon(self, now: float) -> None:
        """Have nothing written after a time: the pod is gone."""
        for one in (*self.all, *self.ephemerals):
            if one.state == RUNNING:
                one.files.stop(now)
        if self.surroundings.shows_host(cgroups.ROOT):
            self.surroundings.remove_from_host(self._cgroup, now)
        self.surroundings.close()

    def _finish(self, now: float) -> None:
        for one in (*self.inits, *self.ephemerals):
            if one.state == RUNNING:
                self._end(one, Ended(0, one.started, now))
        self.over = self.changed = True

    # ---- one container

    def _keep(self, one: ContainerLife, now: float) -> None:
        """Start a container, end it, and start it again, as its time has come."""
        if self.evaluation.must_yield:
            return
        if one.state == WAITING and now >= one.due:
            self._begin(one, now)
        resumes_at = one.connection.resumes_at
        if one.state == RUNNING and resumes_at is not None and now >= resumes_at:
            self.evaluation.evaluate(one, now)
        while one.notices and now >= one.notices[0][0]:
            self.notes.append(one.notices.pop(0)[1])
        while one.state == RUNNING and (end := one.ends_at) is not None and now >= end:
            self._end(one, Ended(one.outcome.exit_code, one.started, now, one.outcome.message))
            if one.spec is not None and one.spec.restarts_pod(one.outcome.exit_code):
                self._restart_all(now)
            elif self._is_restarted(one):
                self._begin_again(one, now)

    def _restart_all(self, now: float) -> None:
        """Remove all containers, and begin with the init containers again."""
        for one in self.all:
            if one.state == RUNNING:
                self._note(one, "Normal", "Killing", "killing")
                one.files.stop(now)
            if one.state != WAITING:
                one.last = Ended(KILLED, 0.0, 0.0, REMOVED, RESTARTING_ALL)
                one.end = None
                self._wait(one, RESTARTING_ALL, REMOVED, now)
            one.due, one.backoff = now + REMOVAL_TIME, 0.0
        self.initialized = not self.inits

    def _is_restarted(self, one: ContainerLife) -> bool:
        assert one.end is not None
        if one.is_sidecar or one.is_ephemeral:
            return one.is_sidecar
        if one.is_init and one.end.exit_code == 0:
            return False
        spec = one.spec or ContainerSpec()
        return spec.is_restarted(one.end.exit_code, self._policy)

    def _begin(self, one: ContainerLife, now: float) -> None:
        if error := self._pull_error(one):
            self._fail_pull(one, error, now)
        elif problem := self._configuration_problem(one, now):
            self._note(one, "Warning", "Failed", f"Error: {problem}")
            self._wait(one, "CreateContainerConfigError", problem, now + RETRY)
        else:
            self._start(one, now)

    def _configuration_problem(self, one: ContainerLife, now: float) -> str:
        """Return why a container cannot be created, in kubelet's words, or ""."""
        problem = self.missing.get(one.name) or root_problem(self.run, one.spec)
        if problem or one.spec is None or not one.spec.file_keys:
            return problem
        return missing_file_key(one.spec, self.surroundings.look_around(one, now))

    def _begin_again(self, one: ContainerLife, now: float) -> None:
        assert one.end is not None
        one.last, one.end = one.end, None
        if one.backoff == 0.0 or one.last.finished - one.last.started > 2 * LAST_BACKOFF:
            one.backoff = FIRST_BACKOFF
            self._start(one, now)
            return
        pod = pod_text(self.pod)
        self._note(one, "Warning", "BackOff", f"Back-off restarting failed container {one.name} in pod {pod}")
        message = f"back-off {go_duration(one.backoff)} restarting failed container={one.name} pod={pod}"
        self._wait(one, "CrashLoopBackOff", message, now + one.backoff)
        one.backoff = min(one.backoff * 2, LAST_BACKOFF)

    def _start(self, one: ContainerLife, now: float) -> None:
        one.sources, one.connection = self.surroundings.look_around(one, now), Connection(self.client)
        one.files.root.close()
        try:
            one.files = self._mount(one, now)
        except SubPathError as error:
            self._note(one, "Warning", "Failed", f"Error: {error}")
            self._wait(one, "CreateContainerConfigError", str(error), now + RETRY)
            return
        one.stdin = OPEN if one.spec is not None and one.spec.stdin else EMPTY
        one.resources = one.allocated
        one.restarts += one.last is not None
        one.state, one.reason, one.message, one.started = RUNNING, "", "", now
        self._show_cgroup(now)
        work = Work()
        problem = run_post_start(one, now, work)
        self.evaluation.work += work.done
        self.evaluation.evaluate(one, now)
        if problem := problem or ask_post_start(one):
            self._note(one, "Warning", "FailedPostStartHook", problem)
            self.end_soon(one, now, KILLED)
        if self.surroundings.written_by(one.files):
            readers = (each for each in self.all if each.state == RUNNING and each.files.last_read)
            self.evaluation.mark(each for each in readers if each is not one)
            self.evaluation.evaluate_stale(now)
        self.changed = True
        image = f'Container image "{one.image}" already present on machine and can be accessed by the pod'
        self._note(one, "Normal", "Pulled", image)
        self._note(one, "Normal", "Created", "Container created")
        self._note(one, "Normal", "Started", "Container started")

    def _mount(self, one: ContainerLife, now: float) -> Files:
        """Return the file system of a new run. Raises SubPathError."""
        return self.surroundings.mount(one, partial(self._shares, one), now)

    def _shares(self, one: ContainerLife) -> Shares:
        """Return what a container is given now."""
        limits = container_limits(one.resources, self.allocation.actuated)
        pod, capacity = self.allocation.actuated_pod(self.pod), self.surroundings.sources.capacity
        return shares_of(pod, one.name, limits, capacity)

    def note(self, type: str, reason: str, message: str) -> None:
        """Record an event about the pod."""
        self.notes.append(Note(type, reason, message, ""))

    def _note(self, one: ContainerLife, type: str, reason: str, message: str) -> None:
        self.notes.append(one.note(type, reason, message))

    def _end(self, one: ContainerLife, end: Ended) -> None:
        one.state, one.end = TERMINATED, end
        one.files.stop(end.finished)
        self.changed = True

    def _wait(self, one: ContainerLife, reason: str, message: str, due: float) -> None:
        if (one.reason, one.message) != (reason, message):
            self.changed = True
        one.state, one.reason, one.message, one.due = WAITING, reason, message, due

    def _pull_error(self, one: ContainerLife) -> PullError | None:
        """Return why an image is not there: of a volume that a container mounts, or its own."""
        volumes = () if self.run is None else self.run.spec.volumes
        return find_first_pull_error(one.image, one.spec, volumes, self._missing_images)

    def _fail_pull(self, one: ContainerLife, error: PullError, now: float) -> None:
        """Fail to provide an image; after a pull there is a wait that doubles from time to time."""
        if not error.is_pull:
            self._note(one, "Warning", error.event, error.message)
            self._note(one, "Warning", "Failed", f"Error: {error.reason}")
            self._wait(one, error.reason, error.message, now + RETRY)
            return
        if one.reason != error.reason:
            self._note(one, "Normal", "Pulling", f'Pulling image "{error.image}"')
            self._note(one, "Warning", error.event, f'Failed to pull image "{error.image}": {error.message}')
            self._note(one, "Warning", "Failed", f"Error: {error.reason}")
            self._wait(one, error.reason, error.message, now + PULL_TIME)
            return
        one.backoff = min(one.backoff * 2, LAST_BACKOFF) or FIRST_BACKOFF
        message = f'Back-off pulling image "{error.image}"'
        self._note(one, "Normal", "BackOff", message)
        self._note(one, "Warning", "Failed", "Error: ImagePullBackOff")
        message = f"{message}: {error.reason}: {error.message}"
        self._wait(one, "ImagePullBackOff", message, now + one.backoff)

    # ---- changes from outside

    def follows_sources(self, now: float) -> bool:
        """Whether a running container is yet to read files that come from ConfigMaps, Secrets or the pod."""
        return self.surroundings.may_change(self.all, now)

    def update(self, sources: Sources, now: float) -> None:
        """Follow a change of what files come from; running containers keep their variables."""
        if self.surroundings.update(sources, now):
            self.evaluation.mark(self.all)

    def find_running(self, name: str) -> ContainerLife | None:
        """Return the container by this name, if it runs."""
        everything = (*self.all, *self.ephemerals)
        return next((one for one in everything if one.name == name and one.state == RUNNING), None)

    def end(self, one: ContainerLife, exit_code: int, now: float) -> None:
        """End a container with the shell in it."""
        one.outcome = one.outcome._replace(run_time=max(now - one.started, SHORTEST), exit_code=exit_code)

    def notice_writes(self, files: Files) -> bool:
        """Evaluate containers again that may see what a command has written; return whether there are any."""
        if not any(volume.written_by(files.writer) for volume in files.volumes):
            return False
        running = [one for one in (*self.all, *self.ephemerals) if one.state == RUNNING]
        self.evaluation.mark(running)
        return bool(running)

    def change(self, pod: Pod, script: Script) -> None:
        """Follow a change of the pod: another image, or other annotations."""
        self.pod = pod
        if script != self.evaluation.script:
            self.evaluation.script = script
            self.evaluation.mark(self.containers)
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
                self.ephemerals.append(ContainerLife(container, spec, "ephemeralContainers"))
                self.changed = True

    def _replace_image(self, one: ContainerLife, image: str) -> None:
        """A new image is started at once; a running container is ended for it."""
        one.image, one.reason, one.due, one.backoff = image, "", 0.0, 0.0
        if one.spec is not None:
            one.spec = msgspec.structs.replace(one.spec, image=image)
        if one.state == RUNNING:
            self.restart(one, one.started)
        self.changed = True

    def restart(self, one: ContainerLife, now: float) -> None:
        """End a running container, to be started again at once."""
        one.due = one.backoff = 0.0
        one.last, one.state = Ended(TERMINATED_CODE, one.started, now), WAITING

    def actuate(self, restarted: Collection[ContainerLife], now: float) -> None:
        """Run with what is allocated; some containers are restarted for it."""
        self.allocation.actuate()
        for one in self.all:
            if one in restarted:
                self._note(one, "Normal", "Killing", f"Container {one.name} resize requires restart")
                self.restart(one, now)
            elif self.surroundings.refresh_kernel(one.name, now):
                self.evaluation.mark((one,))
        self._show_cgroup(now)

    def _show_cgroup(self, now: float) -> None:
        """Write the limits of the pod to its node, for containers that mount them."""
        if self.surroundings.shows_host(cgroups.ROOT):
            limits = pod_limits(self.allocation.actuated_pod(self.pod))
            self.surroundings.write_to_host(self._cgroup, limits.files(), now)

    @property
    def _cgroup(self) -> str:
        return cgroups.pod_path(self.pod.uid, self.pod.status.qos_class)

    def recall(self, now: float) -> None:
        """Restore the state of the containers from the pod's status, after a restart of this process."""
        status = self.pod.status
        before = {one.name: one for one in (*status.init_container_statuses, *status.container_statuses)}
        for one in self.all:
            if one.name not in before:
                continue
            one.recall(before[one.name])
            if one.state == RUNNING:
                one.sources, one.connection = self.surroundings.sources, Connection(self.client)
                with suppress(SubPathError):
                    one.files = self._mount(one, one.started)
                self.evaluation.mark((one,))
        self.started = any(one.ran for one in self.all)
        self.initialized = any(one.ran for one in self.containers)


def pod_text(pod: Pod) -> str:
    """As kubelet names pods."""
    return f"{pod.name}_{pod.namespace}({pod.uid})"
