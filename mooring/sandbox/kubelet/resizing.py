"""Pods that get other resources while they run.

First the node allocates what a pod asks for, if there is room; the others wait, in kubelet's order. Then the
containers are given it: in place, or by a restart if their policy says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from mooring.api.meta import Tree
from mooring.api.objects import Container, Pod
from mooring.api.resources import CPU, MEMORY, total_requests
from mooring.sandbox.kubelet.admission import DEFERRED, resized_needs
from mooring.sandbox.kubelet.allocation import Resize
from mooring.sandbox.kubelet.container_life import RUNNING, ContainerLife
from mooring.sandbox.kubelet.containers import PodLife
from mooring.sandbox.kubelet.fleet import Machine
from mooring.sandbox.kubelet.guests import Guest
from mooring.sandbox.kubelet.shares import amount, container_limits, pod_limits
from mooring.sandbox.programs.cgroups import Limits
from mooring.sandbox.programs.usage import used_memory

RESIZE_TIME: Final = 0.5  # seconds from the allocation until the containers have what is allocated
RETRY_TIME: Final = 10.0  # seconds until it is tried again to give them less memory than they use


class Resizes:
    """The resizes of all pods. `enqueue` is called with the key of a pod whose resize makes progress."""

    def __init__(self, enqueue: Callable[[str], None]) -> None:
        self._enqueue = enqueue
        self._waiting: dict[Machine, list[Guest]] = {}

    def consider(self, guest: Guest, life: PodLife, now: float) -> None:
        """Allocate what a pod asks for now, if its node has it."""
        self.forget(guest)
        if not _is_wanted(life):
            life.allocation.pending = None
        elif self._allocate(guest, life, now):
            self.retry(guest.machine, now)
        elif life.allocation.pending is not None and life.allocation.pending.reason == DEFERRED:
            self._waiting.setdefault(guest.machine, []).append(guest)
        life.changed = True

    def retry(self, machine: Machine, now: float) -> None:
        """Allocate what pods wait for, now that there may be room: those first that need no more than before,
        then by priority and class."""
        waiting = [guest for guest in self._waiting.get(machine, ()) if guest.life is not None]
        for guest in sorted(waiting, key=_rank):
            if guest.life is not None and self._allocate(guest, guest.life, now):
                self.forget(guest)
                self._enqueue(guest.life.pod.key)
                self.retry(machine, now)  # it may have made room
                return

    def forget(self, guest: Guest) -> None:
        """Stop waiting for room for a pod."""
        waiting = self._waiting.get(guest.machine, [])
        if guest in waiting:
            waiting.remove(guest)
            if not waiting:
                del self._waiting[guest.machine]

    def _allocate(self, guest: Guest, life: PodLife, now: float) -> bool:
        """Allocate what a pod asks for; return whether there is room."""
        needs, room, node = resized_needs(life.pod), guest.machine.room, guest.machine.node
        if node is None:
            return False
        room.take_back(guest.needs)
        before, refusal = life.allocation.pending, room.defer(node, needs)
        if refusal is None:
            guest.needs = needs
            life.allocation.allocate(life.pod)
            life.allocation.resize = Resize(now + RESIZE_TIME)
            life.changed = True
            life.note("Normal", "ResizeStarted", _summary("Pod resize started", life.pod))
        elif before is None or before.reason != refusal.reason:
            reason = refusal.reason
            life.note(
                "Warning", f"Resize{reason}", _summary(f"Pod resize {reason}", life.pod, refusal.message)
            )
        room.give(guest.needs)
        life.allocation.pending = refusal
        return refusal is None


def advance_resize(life: PodLife, now: float) -> float | None:
    """Apply the allocation to containers when it is due; return when to come back."""
    if life.allocation.resize is None or now < life.allocation.resize.due:
        return None if life.allocation.resize is None else life.allocation.resize.due
    if error := _memory_error(life):
        if life.allocation.resize.error != error:
            life.changed = True
            life.note("Warning", "ResizeError", _summary("Pod resize error", life.pod, error))
        life.allocation.resize = Resize(now + RETRY_TIME, error)
        return life.allocation.resize.due
    life.actuate([one for one in life.all if one.state == RUNNING and _needs_restart(life, one)], now)
    life.allocation.resize = None
    life.changed = True
    life.note("Normal", "ResizeCompleted", _summary("Pod resize completed", life.pod))
    return None


def _is_wanted(life: PodLife) -> bool:
    """Whether a pod asks for other resources than those that the node has allocated."""
    spec = life.pod.spec
    resources = {one.name: one.resources for one in (*spec.init_containers, *spec.containers)}
    return spec.resources != life.allocation.allocated or any(
        one.allocated != resources.get(one.name, one.allocated) for one in life.all
    )


def _rank(guest: Guest) -> tuple[bool, int, bool]:
    """Return the place of a pod among those that wait; of equals, the first to wait comes first."""
    assert guest.life is not None
    pod = guest.life.pod
    before, after = (
        total_requests(one, use_status=False) for one in (guest.life.allocation.allocated_pod(pod), pod)
    )
    increases = any(after.get(name, 0) > before.get(name, 0) for name in (CPU, MEMORY))
    return increases, -pod.priority, pod.status.qos_class != "Guaranteed"


def _memory_error(life: PodLife) -> str:
    """Return why containers cannot be given less memory, in kubelet's words, or ""."""
    usage = {one.name: used_memory(life.pod, one.name, one.resources) for one in life.all}
    total, errors, allocation = sum(usage.values()), [], life.allocation
    limit = _lowered(
        pod_limits(allocation.actuated_pod(life.pod)), pod_limits(allocation.allocated_pod(life.pod))
    )
    if limit and total >= limit:
        errors.append(_too_low("pod", limit, total))
    for one in life.all:
        limit = _lowered(_actuated(life, one), _allocated(life, one))
        if one.state == RUNNING and limit and usage[one.name] >= limit:
            errors.append(_too_low(f'container "{one.name}"', limit, total))
    if not errors:
        return ""
    text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    return f"cannot decrease memory limits: {text}"


def _lowered(before: Limits, after: Limits) -> int:
    """Return a memory limit if it is new or lower than before, or 0."""
    is_lower = not before.memory_limit or after.memory_limit < before.memory_limit
    return after.memory_limit if is_lower else 0


def _too_low(what: str, limit: int, usage: int) -> str:
    amounts = f"({limit // 10**9}) below current usage ({usage // 10**9})"
    return f"attempting to set {what} memory limit {amounts}"


def _needs_restart(life: PodLife, one: ContainerLife) -> bool:
    """Whether the policy of a container has it restarted for the change of its resources."""
    changed = set()
    before, after = _actuated(life, one), _allocated(life, one)
    if (before.cpu_request, before.cpu_limit) != (after.cpu_request, after.cpu_limit):
        changed.add(CPU)
    if before.memory_limit != after.memory_limit or (
        amount(one.resources.requests, MEMORY) != amount(one.allocated.requests, MEMORY)
    ):
        changed.add(MEMORY)
    policies = () if one.spec is None else one.spec.resize_policy
    return any(
        each.restart_policy == "RestartContainer" and each.resource_name in changed for each in policies
    )


def _actuated(life: PodLife, one: ContainerLife) -> Limits:
    return container_limits(one.resources, life.allocation.actuated)


def _allocated(life: PodLife, one: ContainerLife) -> Limits:
    return container_limits(one.allocated, life.allocation.allocated)


def _summary(title: str, pod: Pod, error: str = "") -> str:
    """Return the message of an event: what the containers of a pod ask for."""
    parts: Tree = {}
    for member, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        if containers:
            parts[member] = [_allocation(one) for one in containers]
    parts["generation"] = pod.metadata.generation
    if error:
        parts["error"] = error
    return f"{title}: {json.dumps(parts, separators=(',', ':'), ensure_ascii=False)}"


def _allocation(container: Container) -> Tree:
    own = container.resources
    amounts = {"limits": own.limits, "requests": own.requests}
    return {
        "name": container.name,
        "resources": {member: dict(sorted(each.items())) for member, each in amounts.items() if each},
    }
