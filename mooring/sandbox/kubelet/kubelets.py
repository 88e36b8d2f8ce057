"""Kubelets: accept the pods that are bound to their nodes, run them, and stop them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from functools import partial
from typing import Any

from mooring.api.kinds import PODS
from mooring.api.meta import ObjectMeta
from mooring.api.objects import Pod
from mooring.api.times import format_time, parse_time
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.client.limiter import TokenBucket
from mooring.sandbox.controllers.placement import index_by_node, pods_on
from mooring.sandbox.kubelet import statuses
from mooring.sandbox.kubelet.addresses import POD_NETWORK, Addresses
from mooring.sandbox.kubelet.admission import needs_of
from mooring.sandbox.kubelet.configuration import missing_keys, missing_volume
from mooring.sandbox.kubelet.container_life import KILLED, TERMINATED_CODE
from mooring.sandbox.kubelet.containers import RETRY, PodLife
from mooring.sandbox.kubelet.disks import Disks
from mooring.sandbox.kubelet.eviction import EVICTED, StorageLimits
from mooring.sandbox.kubelet.fleet import Fleet, Machine
from mooring.sandbox.kubelet.guest_containers import GuestContainers
from mooring.sandbox.kubelet.guests import Guest, Stopping
from mooring.sandbox.kubelet.host_paths import unsuitable_path
from mooring.sandbox.kubelet.hosts import PodHosts
from mooring.sandbox.kubelet.listeners import Listeners
from mooring.sandbox.kubelet.mounted_claims import Claims
from mooring.sandbox.kubelet.os_admission import refuse_system
from mooring.sandbox.kubelet.pod_sources import PodSources
from mooring.sandbox.kubelet.pod_tokens import IssueToken
from mooring.sandbox.kubelet.prepared_claims import DeviceClaims
from mooring.sandbox.kubelet.programs import Programs
from mooring.sandbox.kubelet.resizing import Resizes, advance_resize
from mooring.sandbox.kubelet.scripts import read_script
from mooring.sandbox.network.network import Network
from mooring.sandbox.network.policies import Policies
from mooring.sandbox.network.services import Services, Source
from mooring.sandbox.programs.loads import Loads
from mooring.sandbox.programs.runs import Runs
from mooring.sandbox.programs.servers import PodServers
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.wire import Client

EVENTS_PER_SECOND, EVENTS_AT_ONCE = 50.0, 100
"""Kubelet's --event-qps and --event-burst, here for all nodes together: a few pods get all their events, and
thousands are not slowed down by events."""


class Kubelets(Controller):
    """All kubelets in one controller: syncs one pod at a time, whatever its node."""

    name = "kubelet"

    def __init__(
        self,
        context: Context,
        fleet: Fleet,
        runs: Runs,
        loads: Loads,
        missing_images: Collection[str] = (),
        stop_time: float = 0.0,
        servers: PodServers | None = None,
        issue_token: IssueToken | None = None,
    ) -> None:
        super().__init__(context)
        self._listeners = Listeners(servers)
        self._stop_time = stop_time
        self._missing_images = missing_images
        self._fleet = fleet
        self._guests: dict[str, Guest] = {}  # by uid
        self.containers = GuestContainers(self._guests, context.clock, self.enqueue)
        """For commands of clients."""
        self._hosts = PodHosts(fleet, context.clock, self.containers.notice_writes, self.enqueue, loads)
        self.network = Network(Services(context.cache, context.clock), self._hosts, Policies(context.cache))
        self._runs = runs
        self._loads = loads
        self._addresses = Addresses(POD_NETWORK)
        self._resizes = Resizes(self.enqueue)
        self._budget = TokenBucket(EVENTS_PER_SECOND, EVENTS_AT_ONCE, context.clock)
        self._claims = Claims(context.cache, self.enqueue)
        self._disks = Disks(context.cache)
        self._devices = DeviceClaims(context.cache, self.enqueue)
        self._programs = Programs(context.cluster)
        self._sources = PodSources(context, issue_token)
        self._pods = context.cache.follow(PODS)
        index_by_node(self._pods)
        self._pods.subscribe(self._changed)
        fleet.listen(self._machine_changed)

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self._listeners.stop()

    # ---- what changes

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.finished or new.uid != old.uid):
            self._release(old.uid)
        if old is not None and (new is None or new.uid != old.uid):
            containers = (*old.spec.init_containers, *old.spec.containers)
            self._runs.forget(old.uid, [one.name for one in containers])
            self._loads.forget(old.uid, [one.name for one in containers])
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
        """Take over a pod that was accepted before this process began."""
        script, _ = read_script(pod)
        accepted = parse_time(pod.status.start_time or "")
        guest = Guest(self._fleet.machine(pod.spec.node_name), needs_of(pod), script, accepted)
        if pod.status.pod_ip and not pod.spec.host_network:
            guest.ip = pod.status.pod_ip
            self._addresses.keep(guest.ip)
        self._guests[pod.uid] = guest
        guest.machine.room.give(guest.needs)

    def _release(self, uid: str) -> None:
        guest = self._guests.pop(uid, None)
        if guest is not None:
            self._listeners.close(uid)
            guest.machine.room.take_back(guest.needs)
            if guest.life is not None:
                self._hosts.remove(guest.life, guest.ip)
                guest.life.abandon(self.context.clock())
            self._addresses.give_back(guest.ip)
            self._resizes.forget(guest)
            self._resizes.retry(guest.machine, self.context.clock())

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
            await self._go_on(pod, guest)

    async def _accept(self, machine: Machine, pod: Pod) -> None:
        needs = needs_of(pod)
        run = await self._programs.read(pod)
        if machine.node is None:
            return  # until it is there again
        refusal = None if run is None else refuse_system(run)
        refusal = refusal or machine.room.refuse(machine.node, pod, needs)
        if refusal is not None:
            reason, message = refusal
            self._event(pod, "Warning", reason, message)
            await self._write(pod, statuses.rejected(pod, reason, message, self.context.now()))
            return
        script, problems = read_script(pod)
        for problem in problems:
            self._event(pod, "Warning", "InvalidAnnotation", problem)
        guest = self._guests[pod.uid] = Guest(machine, needs, script, self.context.clock())
        guest.run = run
        machine.room.give(needs)
        await self._go_on(pod, guest)

    async def _go_on(self, pod: Pod, guest: Guest) -> None:
        """Do what is due, and come back when the next thing is."""
        now = self.context.clock()
        deadline = pod.spec.active_deadline_seconds
        if deadline is not None and now >= guest.accepted + deadline:
            await self._exceed_deadline(pod, guest, now)
            return
        life = guest.life
        if life is None:
            life = guest.life = await self._make_life(pod, guest)
        elif pod is not life.pod:
            await self._follow(pod, guest, life)
        elif life.allocation.pending is not None:
            self._resizes.retry(guest.machine, now)
        if life.started:
            due = await self._run(pod, guest, life, now)
        else:
            due = await self._begin(pod, guest, life, now)
        if deadline is not None:
            due = min(due or guest.accepted + deadline, guest.accepted + deadline)
        if due is not None and pod.uid in self._guests:
            self.enqueue(pod.key, max(due - now, 0.0))

    async def _make_life(self, pod: Pod, guest: Guest) -> PodLife:
        """Read the programs of a pod and the sources of its variables and files."""
        run = guest.run or await self._programs.read(pod)
        sources = Sources(pod.metadata)
        if run is not None and pod.status.start_time is not None:
            sources = await self._sources.read(pod, guest, run)
        files = guest.machine.files
        life = PodLife(
            pod,
            run,
            guest.script,
            sources,
            self._runs,
            files,
            self._missing_images,
            partial(self._disks.find, pod, guest.machine),
        )
        if pod.status.start_time is not None:
            life.recall(self.context.clock())
            self._resizes.consider(guest, life, self.context.clock())
        return life

    async def _follow(self, pod: Pod, guest: Guest, life: PodLife) -> None:
        """Follow a newer version of a pod."""
        if pod.metadata.annotations != life.pod.metadata.annotations:
            guest.script, _ = read_script(pod)
        if pod.metadata.generation != life.pod.metadata.generation and life.started:
            life.changed = True  # to be seen in observedGeneration
            run = await self._programs.fetch(pod)
            if run is not None:
                life.attach(run)
        metadata = life.pod.metadata
        life.change(pod, guest.script)
        if metadata.generation != pod.metadata.generation:
            self._resizes.consider(guest, life, self.context.clock())
        if life.started and life.run is not None and _describes_itself(metadata, pod.metadata):
            life.update(await self._sources.read(pod, guest, life.run), self.context.clock())

    async def _begin(self, pod: Pod, guest: Guest, life: PodLife, now: float) -> float | None:
        """Start a pod as soon as its time has come, and its volumes and devices are there."""
        due = guest.accepted + guest.script.start_delay
        missing, retry = "", None
        if not guest.ip and not pod.spec.host_network:
            guest.ip = self._addresses.take()
        if life.run is not None and now >= due:
            life.surroundings.sources = await self._sources.read(pod, guest, life.run)
        if pod.spec.volumes:
            missing = self._claims.missing(pod)
            if not missing and now >= due:
                missing = self._disks.missing_path(pod, guest.machine, now)
                retry = now + RETRY if missing else None
            if not missing and life.run is not None and now >= due:
                missing = missing_volume(life.run, life.surroundings.sources)
                missing = missing or unsuitable_path(life.run, guest.machine.files, now)
                retry = now + RETRY if missing else None
        if missing:
            self._event(pod, "Warning", "FailedMount", missing)
        elif pod.spec.resource_claims or pod.status.extended_resource_claim_status is not None:
            missing = self._devices.missing(pod)
            if missing:
                self._event(pod, "Warning", "FailedPrepareDynamicResources", missing)
        if not missing and now >= due:
            life.started = True
            return await self._run(pod, guest, life, now)
        if pod.status.start_time is None:
            await self._write(pod, statuses.living(pod, life, guest.machine.address, "", now))
        return retry if missing else due

    async def _run(self, pod: Pod, guest: Guest, life: PodLife, now: float) -> float | None:
        """Advance the containers, and write what has changed."""
        if life.run is not None and life.waits_for_configuration:
            life.surroundings.sources = await self._sources.read(pod, guest, life.run)
            life.missing = missing_keys(life.run, life.surroundings.sources)
        follows = life.run is not None and life.follows_sources(now)
        if follows and life.run is not None:
            life.update(await self._sources.read(pod, guest, life.run), now)
        resize_due = advance_resize(life, now)
        if life.client is None:
            self._connect(guest, life)
        due = life.advance(now)
        self._listeners.follow(pod.uid, guest.ip or guest.machine.address, life)
        if life.evaluation.must_yield:
            await asyncio.sleep(0)
        guest.storage = guest.storage or StorageLimits(pod, life)
        if not life.over:
            guest.eviction, check_due = guest.storage.check(life, now)
            due = due if check_due is None else min(due or check_due, check_due)
        if guest.eviction:
            await self._evict(pod, guest, life, now)
            return None
        if follows or life.follows_sources(now):
            due = min(due or now + RETRY, now + RETRY)
        if resize_due is not None:
            due = min(due or resize_due, resize_due)
        if life.looks_different(now):
            life.changed = True
        if life.over:
            await self._write(pod, statuses.ended(pod, life, now))
        elif life.changed:
            address = guest.machine.address
            await self._write(pod, statuses.living(pod, life, address, guest.ip or address, now))
            life.changed = False
        elif pod.spec.readiness_gates and life.is_ready(now):
            status = statuses.gated(pod, format_time(now))
            if status:
                await self._write(pod, status)
        self._record(pod, life)
        return due

    def _connect(self, guest: Guest, life: PodLife) -> None:
        """Connect a pod to the network."""
        source = Source(guest.ip or guest.machine.address, life.pod.spec.node_name)
        life.connect(Client(self.network, source))
        self._hosts.place(life, guest.machine, guest.ip)

    async def _evict(self, pod: Pod, guest: Guest, life: PodLife, now: float) -> None:
        """End a pod that uses more than it may; its containers have no time to stop by themselves."""
        life.stop(now, KILLED)
        await self._write(pod, statuses.ended(pod, life, now, EVICTED, guest.eviction))
        self._event(pod, "Warning", EVICTED, guest.eviction)
        self._record_killing(pod)

    async def _exceed_deadline(self, pod: Pod, guest: Guest, now: float) -> None:
        reason = "DeadlineExceeded"
        message = "Pod was active on the node longer than the specified deadline"
        self._event(pod, "Normal", reason, message)
        life = guest.life or await self._make_life(pod, guest)
        life.stop(now, TERMINATED_CODE)
        await self._write(pod, statuses.ended(pod, life, now, reason, message))

    # ---- the end

    async def _stop(self, pod: Pod, guest: Guest | None) -> None:
        """Stop a pod that is deleted, within its grace period."""
        if guest is not None:
            now = self.context.clock()
            stopping = guest.stopping or self._begin_stop(pod, guest, now)
            deadline = _deadline(pod)
            due = stopping.ends_at(deadline)
            if now < due:
                change = await self._follow_readiness(pod, guest, now)
                self.enqueue(pod.key, min(due, change) - now)
                return
            if not pod.finished:  # watchers see how it ended before it is gone
                life = guest.life or await self._make_life(pod, guest)
                life.stop(now, TERMINATED_CODE if now >= stopping.stops_at(deadline) else KILLED)
                await self._write(pod, statuses.ended(pod, life, now))
        try:
            await self.cluster.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_period_seconds=0)
        except ApiError as refusal:
            if not (refusal.not_found or refusal.conflict):
                raise
        if not pod.metadata.finalizers:
            self._pods.delete(pod)

    async def _follow_readiness(self, pod: Pod, guest: Guest, now: float) -> float:
        """Write whether a pod that is being stopped is still ready; return when that changes."""
        life = guest.life
        if life is None or not life.started:
            return math.inf
        if life.looks_different(now):
            life.changed = True
        if life.changed:
            address = guest.machine.address
            await self._write(pod, statuses.living(pod, life, address, guest.ip or address, now))
            life.changed = False
        return life.next_readiness(now)

    def _begin_stop(self, pod: Pod, guest: Guest, now: float) -> Stopping:
        hooks, handlers = 0.0, 0.0
        if guest.life is not None:
            guest.life.change(pod, guest.script)
            hooks, handlers = guest.life.begin_stop(now), guest.life.stop_time
            self._record(pod, guest.life)
        seconds = guest.script.stop_time or handlers or self._stop_time
        guest.stopping = Stopping(now, now + hooks, seconds)
        self._record_killing(pod)
        return guest.stopping

    def _record_killing(self, pod: Pod) -> None:
        """Record that the containers of a pod are stopped, within the budget for events."""
        if self._budget.try_take(len(pod.spec.containers)):
            for container in pod.spec.containers:
                path = f"spec.containers{{{container.name}}}"
                self._event(pod, "Normal", "Killing", f"Stopping container {container.name}", path)

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

    def _event(self, pod: Pod, type: str, reason: str, message: str, field_path: str = "") -> None:
        node = pod.spec.node_name
        self.event(self._pods, pod, type, reason, message, host=node, field_path=field_path)

    def _record(self, pod: Pod, life: PodLife) -> None:
        """Record what happened to the containers, within the budget for events."""
        notes, life.notes = life.notes, []
        for note in notes:
            if not self._budget.try_take(1):
                return
            self._event(pod, note.type, note.reason, note.message, note.field_path)


def _deadline(pod: Pod) -> float:
    """Return when the grace period of a deleted pod is over."""
    if pod.metadata.deletion_grace_period_seconds is None:  # the deletion is seen before its details
        return math.inf
    return parse_time(pod.metadata.deletion_timestamp or "")


def _describes_itself(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Whether what has changed may be seen in files of the downward API."""
    return old.labels != new.labels or old.annotations != new.annotations


def _concerns(old: Pod, new: Pod) -> bool:
    """Whether a change of a bound pod is one that its kubelet did not make itself."""
    return (
        old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.deletion_grace_period_seconds != new.metadata.deletion_grace_period_seconds
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.labels != new.metadata.labels
        or old.spec.active_deadline_seconds != new.spec.active_deadline_seconds
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.metadata.generation != new.metadata.generation
        or bool(new.spec.readiness_gates)
    )
