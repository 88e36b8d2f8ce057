"""The containers of a pod through its life: pulled, started in order, ended and started again.

No I/O and no clock: `PodLife.advance` does what is due by a time, and says when to call it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from operator import itemgetter

import msgspec

from mooring.api.objects import Container, Pod, ResourceRequirements
from mooring.api.times import go_duration, parse_time
from mooring.sandbox.kubelet.container_life import (
    FOREVER,
    HEALTHY,
    NO_FILES,
    RUNNING,
    TERMINATED,
    WAITING,
    ContainerLife,
    Ended,
    Note,
)
from mooring.sandbox.kubelet.scripts import Script
from mooring.sandbox.kubelet.users import root_problem
from mooring.sandbox.programs.environment import missing_file_key, read_environment
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.files import Files, Mount, Volume
from mooring.sandbox.programs.probing import judge
from mooring.sandbox.programs.program import Outcome, is_missing, run_hook, run_program
from mooring.sandbox.programs.runs import Runs
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec, PodRun
from mooring.sandbox.programs.volumes import SubPathError, Volumes
from mooring.sandbox.programs.work import MOST_WORK, Work

FIRST_BACKOFF = 10.0  # seconds before a container is started the third time; doubles from then on
LAST_BACKOFF = 300.0
SHORTEST = 0.1  # seconds that a container runs, so that its pod is seen running
PULL_TIME = 1.0  # seconds from the error of a pull to waiting for the next
RETRY = 5.0  # seconds until a missing ConfigMap or Secret is looked up again
KILLED = 137
REMOVAL_TIME = 1.0  # seconds that a kubelet takes to remove all containers of a pod
RESTARTING_ALL = "RestartingAllContainers"
REMOVED = "The container is removed because RestartAllContainers in place"

_AT_ONCE = Outcome(0.0)


class PodLife:
    """The containers of one pod. `missing` has the ConfigMaps and Secrets that they lack, by container;
    `sources` is what they take variables and files from, `host` the disk of their node."""

    __slots__ = (
        "_host", "_missing_images", "_policy", "_runs", "_seen", "_stale", "_volumes", "changed",
        "containers", "ephemerals", "initialized", "inits", "missing", "notes", "over", "pending_resize",
        "pod", "run",
        "script", "sources", "started", "work",
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
    ) -> None:
        specs = (
            {}
            if run is None
            else {one.name: one for one in (*run.spec.init_containers, *run.spec.containers)}
        )
        self.pod = pod
        self.run = run
        self._policy = pod.spec.restart_policy
        self.sources = sources
        self._runs = runs
        self._host = host
        self._volumes: Volumes | None = None  # until a container starts
        self.script = script
        self.inits = [
            ContainerLife(each, specs.get(each.name), "initContainers") for each in pod.spec.init_containers
        ]
        self.containers = [ContainerLife(each, specs.get(each.name)) for each in pod.spec.containers]
        self.ephemerals: list[ContainerLife] = []
        self._missing_images = missing_images
        self.missing: dict[str, str] = {}
        self.notes: list[Note] = []
        self.changed = False
        self.pending_resize: tuple[str, str] | None = None  # why the pod is not resized: reason and message
        self.over = False
        self.started = False  # volumes and devices are there
        self.initialized = not self.inits  # all init containers are done, all sidecars have started
        self._seen: list[tuple[bool, bool]] = []  # which containers had started and were ready
        self._stale: dict[ContainerLife, None] = {}  # those that are yet to be evaluated again
        self.work = 0  # of this turn

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
        self.work = 0
        self._step(now)
        if self.must_yield and not self.over:
            return now
        everything = (*self.all, *self.ephemerals)
        times = [time for one in everything if (time := one.next_time(now)) is not None]
        return min(times) if times and not self.over else None

    @property
    def must_yield(self) -> bool:
        """Whether programs have done so much work that others on the event loop are to have their turn."""
        return self.work > MOST_WORK

    def _step(self, now: float) -> None:
        if self.over or not self._evaluate_stale(now):
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
        return max((self._pre_stop(one, now, work) for one in self.all if one.state == RUNNING), default=0.0)

    def _pre_stop(self, one: ContainerLife, now: float, work: Work) -> float:
        spec = one.spec
        hook = None if spec is None or spec.lifecycle is None else spec.lifecycle.pre_stop
        if hook is not None and hook.sleep is not None:
            return float(hook.sleep.seconds)
        outcome = None if spec is None else run_hook(spec, hook, one.sources, one.files, now, work)
        if outcome is None:
            return 0.0
        self._log(one, outcome, now)
        return LAST_BACKOFF if outcome.run_time is None else outcome.run_time

    def _log(self, one: ContainerLife, hook: Outcome, now: float) -> None:
        """Add what a hook has written to the output of its container."""
        lines = tuple((now - one.started + at, text) for at, text in hook.output)
        if lines:
            one.outcome = one.outcome._replace(output=(*one.outcome.output, *lines))
            self._runs.keep(self.pod.uid, one.name, one.started, one.outcome)

    @property
    def stop_time(self) -> float:
        """The seconds that running containers take to handle the signal to stop; 0 if none does."""
        stops = (one.outcome.stop for one in self.all if one.state == RUNNING)
        return max((stop.seconds for stop in stops if stop is not None), default=0.0)

    def stop(self, now: float, exit_code: int) -> None:
        """End everything that runs, with the code of containers that do not handle the signal."""
        for one in (*self.all, *self.ephemerals):
            if one.state == RUNNING:
                self._end(one, _stopped(one, now, exit_code))
        self.over = True

    def abandon(self, now: float) -> None:
        """Have nothing written after a time: the pod is gone."""
        for one in (*self.all, *self.ephemerals):
            if one.state == RUNNING:
                one.files.stop(now)

    def _finish(self, now: float) -> None:
        for one in (*self.inits, *self.ephemerals):
            if one.state == RUNNING:
                self._end(one, Ended(0, one.started, now))
        self.over = self.changed = True

    # ---- one container

    def _keep(self, one: ContainerLife, now: float) -> None:
        """Start a container, end it, and start it again, as its time has come."""
        if self.must_yield:
            return
        if one.state == WAITING and now >= one.due:
            self._begin(one, now)
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
        if one.is_sidecar or one in self.ephemerals:
            return one.is_sidecar
        if one.is_init and one.end.exit_code == 0:
            return False
        spec = one.spec or ContainerSpec()
        return spec.is_restarted(one.end.exit_code, self._policy)

    def _begin(self, one: ContainerLife, now: float) -> None:
        if is_missing(one.image, self._missing_images):
            self._fail_pull(one, now)
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
        return missing_file_key(one.spec, self._look_around(one, now))

    def _look_around(self, one: ContainerLife, now: float) -> Sources:
        """Return what a container that starts now takes variables from."""
        if one.spec is None or self.run is None or not one.spec.file_keys:
            return self.sources
        volumes, files = self._set_up_volumes(self.run, now), {}
        for ref in one.spec.file_keys:
            with suppress(UnknownProgramError):
                files[ref.volume_name, ref.path] = volumes.read(ref.volume_name, ref.path, now)
        return self.sources._replace(env_files=files)

    def _set_up_volumes(self, run: PodRun, now: float) -> Volumes:
        if self._volumes is None:
            self._volumes = Volumes(run.spec, self.sources, self._host, now)
        return self._volumes

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
        one.sources = self._look_around(one, now)
        try:
            one.files = self._mount(one, now)
        except SubPathError as error:
            self._note(one, "Warning", "Failed", f"Error: {error}")
            self._wait(one, "CreateContainerConfigError", str(error), now + RETRY)
            return
        one.restarts += one.last is not None
        one.state, one.reason, one.message, one.started = RUNNING, "", "", now
        failed = self._post_start(one, now)
        self._evaluate(one, now)
        if failed:
            one.outcome = one.outcome._replace(run_time=SHORTEST, exit_code=KILLED)
        if self._volumes is not None and self._volumes.written_by(one.files):
            readers = (each for each in self.all if each.state == RUNNING and each.files.last_read)
            self._stale |= dict.fromkeys(each for each in readers if each is not one)
            self._evaluate_stale(now)
        self.changed = True
        image = f'Container image "{one.image}" already present on machine and can be accessed by the pod'
        self._note(one, "Normal", "Pulled", image)
        self._note(one, "Normal", "Created", "Container created")
        self._note(one, "Normal", "Started", "Container started")

    def _post_start(self, one: ContainerLife, now: float) -> bool:
        """Run the postStart hook of a container that starts; return whether it fails."""
        if one.spec is None or one.spec.lifecycle is None:
            return False
        work = Work()
        outcome = run_hook(one.spec, one.spec.lifecycle.post_start, one.sources, one.files, now, work)
        self.work += work.done
        if outcome is None or outcome.exit_code == 0:
            return False
        self._note(one, "Warning", "FailedPostStartHook", "PostStartHook failed")
        return True

    def _mount(self, one: ContainerLife, now: float) -> Files:
        """Return the file system of a new run. Raises SubPathError."""
        if self.run is None or one.spec is None:
            return NO_FILES
        volumes = self._set_up_volumes(self.run, now)
        try:
            return volumes.mount(one.spec, read_environment(one.spec, one.sources or self.sources), now)
        except UnknownProgramError:
            return Files(Mount(mount.mount_path, None) for mount in one.spec.volume_mounts)

    def _note(self, one: ContainerLife, type: str, reason: str, message: str) -> None:
        self.notes.append(one.note(type, reason, message))

    def _evaluate(self, one: ContainerLife, now: float) -> None:
        """Find out how a run goes: when it ends, and what its probes find."""
        outcome, is_known = self._outcome(one)
        one.health, one.notices = HEALTHY, []
        if one.spec is not None and one.spec.is_probed:
            work, sources = Work(), one.sources or self.sources
            health = judge(one.spec, sources, one.files, one.started, work, is_known=is_known)
            one.health = health
            self.work += work.done
            death = health.death
            if health.first_unready is not None:
                text = f"Readiness probe failed: {health.first_unready.failure}"
                one.notices = [(health.first_unready.at, one.note("Warning", "Unhealthy", text))]
            if health.redirect is not None:
                body = f'<a href="{health.redirect.failure}">Found</a>.\n\n'
                text = f"Liveness probe warning: Probe terminated redirects, Response body: {body}"
                one.notices.append((health.redirect.at, one.note("Warning", "ProbeWarning", text)))
            run_time = outcome.run_time
            if death is not None and (run_time is None or run_time > death.at - one.started):
                outcome = outcome._replace(
                    run_time=max(death.at - one.started, SHORTEST), exit_code=KILLED, message=""
                )
                end = one.started + (outcome.run_time or 0.0)
                text = f"Container {one.name} failed {death.probe.lower()} probe, will be restarted"
                unhealthy = one.note("Warning", "Unhealthy", f"{death.probe} probe failed: {death.failure}")
                one.notices += [(at, unhealthy) for at in death.times[:-1]]
                one.notices += [(end, unhealthy), (end, one.note("Normal", "Killing", text))]
            one.notices = [notice for notice in one.notices if notice[0] >= now]
            one.notices.sort(key=itemgetter(0))
        one.outcome = outcome

    def _evaluate_stale(self, now: float) -> bool:
        """Run containers again that may see other files now; return whether none are left for the next
        turn."""
        while self._stale and not self.must_yield:
            one = next(iter(self._stale))
            del self._stale[one]
            if one.state == RUNNING:
                self._evaluate(one, now)
        return not self._stale

    def _outcome(self, one: ContainerLife) -> tuple[Outcome, bool]:
        """Return how a run goes, and whether its program is known."""
        if one in self.ephemerals and one.spec is not None:
            usual = FOREVER if one.spec.stdin else _AT_ONCE  # a shell ends without input
        elif one.is_init:
            usual = FOREVER if one.is_sidecar else _AT_ONCE
        else:
            usual = Outcome(self.script.run_time, self.script.exit_code)
            if self.script.annotated:
                return usual, False
        if one.spec is None:
            return usual, False
        one.files.forget()
        work = Work()
        outcome = run_program(one.spec, one.sources or self.sources, one.files, one.started, work)
        self.work += work.done
        if outcome is None:
            return usual, False
        self._runs.keep(self.pod.uid, one.name, one.started, outcome)
        if one.is_init or one in self.ephemerals or outcome.run_time is None:
            return outcome, True
        return outcome._replace(run_time=max(outcome.run_time, SHORTEST)), True

    def _end(self, one: ContainerLife, end: Ended) -> None:
        one.state, one.end = TERMINATED, end
        one.files.stop(end.finished)
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
            self._note(one, "Normal", "Pulling", f'Pulling image "{image}"')
            self._note(one, "Warning", "Failed", f'Failed to pull image "{image}": {error}')
            self._note(one, "Warning", "Failed", "Error: ErrImagePull")
            self._wait(one, "ErrImagePull", error, now + PULL_TIME)
            return
        one.backoff = min(one.backoff * 2, LAST_BACKOFF) or FIRST_BACKOFF
        self._note(one, "Normal", "BackOff", f'Back-off pulling image "{image}"')
        self._note(one, "Warning", "Failed", "Error: ImagePullBackOff")
        self._wait(one, "ImagePullBackOff", f'Back-off pulling image "{image}"', now + one.backoff)

    # ---- changes from outside

    def follows_sources(self, now: float) -> bool:
        """Whether a running container is yet to read files that come from ConfigMaps, Secrets or the pod."""
        return (
            self._volumes is not None
            and self._volumes.follows_sources
            and any(one.state == RUNNING and one.files.last_read > now for one in self.all)
        )

    def update(self, sources: Sources, now: float) -> None:
        """Follow a change of what files come from; running containers keep their variables."""
        self.sources = sources
        if self._volumes is not None and self._volumes.update(sources, now):
            self._stale |= dict.fromkeys(self.all)

    def find_running(self, name: str) -> ContainerLife | None:
        """Return the container by this name, if it runs."""
        everything = (*self.all, *self.ephemerals)
        return next((one for one in everything if one.name == name and one.state == RUNNING), None)

    def notice_writes(self, files: Files) -> bool:
        """Evaluate containers again that may see what a command has written; return whether there are any."""
        if not any(volume.written_by(files) for volume in files.volumes):
            return False
        self._stale |= dict.fromkeys(one for one in (*self.all, *self.ephemerals) if one.state == RUNNING)
        return bool(self._stale)

    def change(self, pod: Pod, script: Script) -> None:
        """Follow a change of the pod: another image, or other annotations."""
        self.pod = pod
        if script != self.script:
            self.script = script
            self._stale |= dict.fromkeys(self.containers)
        images = {each.name: each.image for each in (*pod.spec.init_containers, *pod.spec.containers)}
        for one in self.all:
            image = images.get(one.name, one.image)
            if image != one.image:
                self._replace_image(one, image)

    @property
    def is_resized(self) -> bool:
        """Whether the pod asks for other resources than those that the node has allocated."""
        resources = self._requested_resources()
        return any(one.resources != resources.get(one.name, one.resources) for one in self.all)

    def resize(self, now: float) -> None:
        """Allocate what the pod asks for; containers are restarted if their policy says so."""
        resources = self._requested_resources()
        for one in self.all:
            old, new = one.resources, resources.get(one.name, one.resources)
            if old == new:
                continue
            one.resources = new
            policies = () if one.spec is None else one.spec.resize_policy
            if one.state == RUNNING and any(
                policy.restart_policy == "RestartContainer"
                and (old.requests.get(policy.resource_name), old.limits.get(policy.resource_name))
                != (new.requests.get(policy.resource_name), new.limits.get(policy.resource_name))
                for policy in policies
            ):
                self._restart(one, now)
        self.changed = True

    def _requested_resources(self) -> dict[str, ResourceRequirements]:
        spec = self.pod.spec
        return {each.name: each.resources for each in (*spec.init_containers, *spec.containers)}

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
        one.image, one.due, one.backoff = image, 0.0, 0.0
        if one.spec is not None:
            one.spec = msgspec.structs.replace(one.spec, image=image)
        if one.state == RUNNING:
            self._restart(one, one.started)
        self.changed = True

    def _restart(self, one: ContainerLife, now: float) -> None:
        """End a running container, to be started again at once."""
        one.due = one.backoff = 0.0
        one.last, one.state = Ended(TERMINATED_CODE, one.started, now), WAITING

    def recall(self, now: float) -> None:
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
                one.sources = self.sources
                with suppress(SubPathError):
                    one.files = self._mount(one, one.started)
                self._stale[one] = None
            elif ended is not None and ended.finished_at:
                finished = parse_time(ended.finished_at)
                one.state, one.end = TERMINATED, Ended(ended.exit_code, finished, finished)
        self.started = any(one.ran for one in self.all)
        self.initialized = any(one.ran for one in self.containers)


def _stopped(one: ContainerLife, now: float, exit_code: int) -> Ended:
    """Return how a container ends that is stopped, unless it ended by itself meanwhile."""
    end = one.ends_at
    if end is not None and end <= now:
        return Ended(one.outcome.exit_code, one.started, end, one.outcome.message)
    code = 0 if one.is_sidecar and exit_code == 0 else exit_code
    if one.outcome.stop is not None and exit_code == TERMINATED_CODE:
        code = one.outcome.stop.exit_code
    return Ended(code, one.started, now)


TERMINATED_CODE = 143
"""The exit code of a container that obeys SIGTERM."""


def pod_text(pod: Pod) -> str:
    """As kubelet names pods."""
    return f"{pod.name}_{pod.namespace}({pod.uid})"
