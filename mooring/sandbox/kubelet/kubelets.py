"""What kubelets do for the pods that are bound to their nodes: accept them, run them, and let them go."""

from __future__ import annotations

from typing import Any

from mooring.api.kinds import PODS
from mooring.api.objects import ContainerStatus, Pod
from mooring.api.times import format_time, go_duration, parse_time
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.client.limiter import TokenBucket
from mooring.sandbox.controllers.placement import index_by_node, pods_on
from mooring.sandbox.kubelet import statuses
from mooring.sandbox.kubelet.addresses import POD_NETWORK, Addresses
from mooring.sandbox.kubelet.admission import Needs, needs_of
from mooring.sandbox.kubelet.fleet import Fleet, Machine
from mooring.sandbox.kubelet.mounted_claims import Claims
from mooring.sandbox.kubelet.prepared_claims import DeviceClaims
from mooring.sandbox.kubelet.scripts import Script, read_script
from mooring.sandbox.kubelet.statuses import TERMINATED, Ended

FIRST_BACKOFF = 10.0  # seconds before a container is started the third time; doubles from then on
LAST_BACKOFF = 300.0
EVENTS_PER_SECOND, EVENTS_AT_ONCE = 50.0, 100
"""Kubelet's --event-qps and --event-burst, here for all nodes together: a few pods get all their events, and
thousands are not slowed down by events."""


class Guest:
    """A pod that a node has accepted, and what the node knows of it. Times are seconds since the epoch."""

    __slots__ = (
        "accepted", "backoff", "finished", "ip", "machine", "needs", "restarts", "script", "started", "stops",
    )  # fmt: skip

    def __init__(self, machine: Machine, needs: Needs, script: Script, accepted: float) -> None:
        self.machine = machine
        self.needs = needs
        self.script = script
        self.accepted = accepted
        self.started: float | None = None
        self.finished: float | None = None  # while its containers wait to be started again
        self.restarts = 0
        self.backoff = 0.0  # how long they wait the next time
        self.stops: float | None = None
        self.ip = ""


class Kubelets(Controller):
    """All kubelets at once: looks after pods, one at a time, whatever node they are on."""

    name = "kubelet"

    def __init__(self, context: Context, fleet: Fleet) -> None:
        super().__init__(context)
        self._fleet = fleet
        self._guests: dict[str, Guest] = {}  # by uid
        self._addresses = Addresses(POD_NETWORK)
        self._budget = TokenBucket(EVENTS_PER_SECOND, EVENTS_AT_ONCE, context.clock)
        self._claims = Claims(context.cache, self.enqueue)
        self._devices = DeviceClaims(context.cache, self.enqueue)
        self._pods = context.cache.follow(PODS)
        index_by_node(self._pods)
        self._pods.subscribe(self._changed)
        fleet.listen(self._machine_changed)

    # ---- what changes

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.finished or new.uid != old.uid):
            self._release(old.uid)
        if new is None or not new.spec.node_name:
            return
        if old is None or not old.spec.node_name or old.uid != new.uid:
            if new.status.start_time is not None and not new.finished:
                self._resume(new)
        elif not _concerns(old, new):
            return
        self.enqueue(new.key)

    def _machine_changed(self, name: str) -> None:
        machine = self._fleet.find(name)
        if machine is not None and machine.takes_pods:
            for pod in pods_on(self._pods, name):
                self.enqueue(pod.key)

    def _resume(self, pod: Pod) -> None:
        """A pod that was accepted before this process began."""
        script, _ = read_script(pod)
        accepted = parse_time(pod.status.start_time or "")
        guest = Guest(self._fleet.machine(pod.spec.node_name), needs_of(pod), script, accepted)
        for status in pod.status.container_statuses:
            _recall(guest, status)
        if pod.status.pod_ip and not pod.spec.host_network:
            guest.ip = pod.status.pod_ip
            self._addresses.keep(guest.ip)
        self._guests[pod.uid] = guest
        guest.machine.room.give(guest.needs)

    def _release(self, uid: str) -> None:
        guest = self._guests.pop(uid, None)
        if guest is not None:
            guest.machine.room.take_back(guest.needs)
            self._addresses.give_back(guest.ip)

    # ---- one pod

    async def sync(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or not pod.spec.node_name:
            return
        machine = self._fleet.machine(pod.spec.node_name)
        if not machine.takes_pods:
            return  # until it does
        guest = self._guests.get(pod.uid)
        if pod.metadata.deletion_timestamp is not None:
            await self._stop(pod, guest)
        elif pod.finished:
            return
        elif guest is None:
            await self._accept(machine, pod)
        else:
            guest.script, _ = read_script(pod)
            await self._go_on(pod, guest)

    async def _accept(self, machine: Machine, pod: Pod) -> None:
        needs = needs_of(pod)
        assert machine.node is not None
        refusal = machine.room.refuse(machine.node, pod, needs)
        if refusal is not None:
            reason, message = refusal
            self.event(self._pods, pod, "Warning", reason, message)
            await self._write(pod, statuses.rejected(pod, reason, message, self.context.now()))
            return
        script, problems = read_script(pod)
        for problem in problems:
            self.event(self._pods, pod, "Warning", "InvalidAnnotation", problem)
        guest = self._guests[pod.uid] = Guest(machine, needs, script, self.context.clock())
        machine.room.give(needs)
        await self._go_on(pod, guest)

    async def _go_on(self, pod: Pod, guest: Guest) -> None:
        """Do what is due, and come back when the next thing is."""
        now = self.context.clock()
        deadline = pod.spec.active_deadline_seconds
        if deadline is not None and now >= guest.accepted + deadline:
            await self._exceed_deadline(pod, guest, now)
            return
        if guest.started is None:
            due = await self._begin(pod, guest, now)
        elif guest.finished is not None:
            due = await self._begin_again(pod, guest, now, guest.started, guest.finished)
        else:
            due = await self._run(pod, guest, now, guest.started)
        if deadline is not None:
            due = min(due or guest.accepted + deadline, guest.accepted + deadline)
        if due is not None and pod.uid in self._guests:
            self.enqueue(pod.key, max(due - now, 0.0))

    async def _begin(self, pod: Pod, guest: Guest, now: float) -> float | None:
        """Start a pod as soon as its time has come, and its volumes and devices are there."""
        due = guest.accepted + guest.script.start_delay
        missing = self._claims.missing(pod) if pod.spec.volumes else ""
        if missing:
            self.event(self._pods, pod, "Warning", "FailedMount", missing)
        elif pod.spec.resource_claims or pod.status.extended_resource_claim_status is not None:
            missing = self._devices.missing(pod)
            if missing:
                self.event(self._pods, pod, "Warning", "FailedPrepareDynamicResources", missing)
        if not missing and now >= due:
            return await self._start(pod, guest, now)
        if pod.status.start_time is None:
            address = guest.machine.address
            await self._write(pod, statuses.creating(pod, address, format_time(now)))
        return None if missing else due

    async def _start(
        self, pod: Pod, guest: Guest, now: float, last: Ended | None = None, backoff: float = 0.0
    ) -> float | None:
        """Have the containers running; when they end. `last` is how they ended before, if they did."""
        address, restarts = guest.machine.address, guest.restarts + (last is not None)
        if not guest.ip and not pod.spec.host_network:
            guest.ip = self._addresses.take()
        ip = guest.ip or address
        await self._write(pod, statuses.running(pod, address, ip, format_time(now), restarts, last))
        guest.started, guest.finished, guest.restarts, guest.backoff = now, None, restarts, backoff
        self._record_started(pod)
        return None if guest.script.run_time is None else now + guest.script.run_time

    async def _run(self, pod: Pod, guest: Guest, now: float, started: float) -> float | None:
        """Let the containers run until their time is over."""
        run_time = guest.script.run_time
        if run_time is not None and now >= started + run_time:
            return await self._end(pod, guest, now, started)
        if pod.spec.readiness_gates:
            status = statuses.gated(pod, format_time(now))
            if status:
                await self._write(pod, status)
        return None if run_time is None else started + run_time

    async def _end(self, pod: Pod, guest: Guest, now: float, started: float) -> float | None:
        """The containers ended by themselves: for good, or to be started again."""
        code, policy = guest.script.exit_code, pod.spec.restart_policy
        end = Ended(code, format_time(started), format_time(now))
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            await self._write(pod, statuses.ended(pod, format_time(now), guest.restarts, end))
            return None
        if guest.backoff == 0.0 or now - started > 2 * LAST_BACKOFF:
            return await self._start(pod, guest, now, end, FIRST_BACKOFF)
        backoff = go_duration(guest.backoff)
        status = statuses.crash_looping(pod, format_time(now), guest.restarts, end, backoff)
        await self._write(pod, status)
        guest.finished = now
        for container in pod.spec.containers:
            note = f"Back-off restarting failed container {container.name} in pod {statuses.pod_text(pod)}"
            self.event(self._pods, pod, "Warning", "BackOff", note)
        return now + guest.backoff

    async def _begin_again(
        self, pod: Pod, guest: Guest, now: float, started: float, finished: float
    ) -> float | None:
        if now < finished + guest.backoff:
            return finished + guest.backoff
        end = Ended(guest.script.exit_code, format_time(started), format_time(finished))
        return await self._start(pod, guest, now, end, min(guest.backoff * 2, LAST_BACKOFF))

    async def _exceed_deadline(self, pod: Pod, guest: Guest, now: float) -> None:
        reason = "DeadlineExceeded"
        message = "Pod was active on the node longer than the specified deadline"
        self.event(self._pods, pod, "Normal", reason, message)
        end = _killed(guest, now)
        status = statuses.ended(pod, format_time(now), guest.restarts, end, reason, message)
        await self._write(pod, status)

    # ---- the end

    async def _stop(self, pod: Pod, guest: Guest | None) -> None:
        """A pod that is deleted ends as it pleases, but within its grace period."""
        if guest is not None:
            now = self.context.clock()
            due = self._stopped_at(pod, guest, now)
            if now < due:
                self.enqueue(pod.key, due - now)
                return
            if pod.metadata.finalizers and not pod.finished:  # it stays for others to see how it ended
                end = _killed(guest, now)
                await self._write(pod, statuses.ended(pod, format_time(now), guest.restarts, end))
        try:
            await self.cluster.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_period_seconds=0)
        except ApiError as refusal:
            if not (refusal.not_found or refusal.conflict):
                raise
        if not pod.metadata.finalizers:
            self._pods.delete(pod)

    def _stopped_at(self, pod: Pod, guest: Guest, now: float) -> float:
        """Return when the containers of a deleted pod have stopped; the first call stops them."""
        if guest.stops is None:
            guest.stops = now + guest.script.stop_time
            if self._budget.try_take(len(pod.spec.containers)):
                for container in pod.spec.containers:
                    self.event(self._pods, pod, "Normal", "Killing", f"Stopping container {container.name}")
        if pod.metadata.deletion_grace_period_seconds is None:  # we know of the deletion before its details
            return guest.stops
        return min(guest.stops, max(parse_time(pod.metadata.deletion_timestamp or ""), now))

    # ---- writing

    async def _write(self, pod: Pod, status: dict[str, Any]) -> None:
        """Write a status that follows from this very version of a pod. Raises where there is a newer one: the
        pod is then looked at again."""
        seen = {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version}
        patch = {"metadata": seen, "status": status}
        try:
            written = await self.cluster.patch(PODS, pod.name, patch, pod.namespace, subresource="status")
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            self._pods.delete(pod)
        else:
            self._pods.wrote(written)

    def _record_started(self, pod: Pod) -> None:
        for container in pod.spec.containers:
            if not self._budget.try_take(3):
                return
            image = f'Container image "{container.image}" already present on machine'
            self.event(self._pods, pod, "Normal", "Pulled", f"{image} and can be accessed by the pod")
            self.event(self._pods, pod, "Normal", "Created", "Container created")
            self.event(self._pods, pod, "Normal", "Started", "Container started")


def _concerns(old: Pod, new: Pod) -> bool:
    """Whether a change of a bound pod is one that its kubelet did not make itself."""
    return (
        old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.deletion_grace_period_seconds != new.metadata.deletion_grace_period_seconds
        or old.metadata.annotations != new.metadata.annotations
        or old.spec.active_deadline_seconds != new.spec.active_deadline_seconds
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or bool(new.spec.readiness_gates)
    )


def _killed(guest: Guest, now: float) -> Ended | None:
    """Return how containers end that are being stopped, once they have."""
    if guest.started is None:
        return None
    return Ended(TERMINATED, format_time(guest.started), format_time(now))


def _recall(guest: Guest, status: ContainerStatus) -> None:
    """Restore the state of a container from its status, after a restart of this process."""
    guest.restarts = max(guest.restarts, status.restart_count)
    if guest.restarts:
        guest.backoff = min(FIRST_BACKOFF * 2.0 ** min(guest.restarts - 1, 10), LAST_BACKOFF)
    running, last = status.state.running, status.last_state.terminated
    if running is not None and running.started_at:
        guest.started = parse_time(running.started_at)
    elif last is not None and last.finished_at:
        guest.finished = parse_time(last.finished_at)
        guest.started = guest.finished
