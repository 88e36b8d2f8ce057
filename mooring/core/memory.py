"""A cluster in memory: the scheduler's effects are carried out here, on objects in this process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar, cast

import msgspec

from mooring.api.meta import Condition, KubeObject
from mooring.api.objects import Node, Pod
from mooring.api.patches import merge_patch
from mooring.core.decision import Decision
from mooring.core.effects import Bind, Effect, EmitEvent, Evict, PatchPodStatus, Prepare, Write
from mooring.core.scheduler import Scheduler
from mooring.framework.pod import PodInfo
from mooring.runtime.written_objects import Written, kube_object

Obj = TypeVar("Obj", bound=KubeObject)
Result = TypeVar("Result")

AHEAD = 128
"""Pods that may be on their way to their nodes while others are scheduled. To choose often and then to bind
often is quicker than to do both in turn: a processor remembers what it has just done."""


class ConflictError(RuntimeError):
    """A patch was for another version of the object."""

    conflict = True


class NeedsEventLoopError(RuntimeError):
    """A plugin waited for something that only an event loop can bring."""


def run_now(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that waits for nothing outside this process."""
    try:
        work.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    work.close()
    raise NeedsEventLoopError("a binding plugin awaited I/O, which an in-memory cluster cannot perform")


class MemoryCluster:
    """Drives a scheduler over objects held in memory."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        scheduler.client = MemoryClient(self)
        self.pods: dict[str, Pod] = {}  # by uid, as an API server would hold them
        self.events: list[EmitEvent] = []
        self.evictions: list[Evict] = []

    def apply(self, obj: KubeObject) -> None:
        """Add or change an object."""
        if isinstance(obj, Pod):
            self.pods[obj.uid] = obj
        self.scheduler.apply(obj)

    def delete(self, obj: KubeObject) -> None:
        if isinstance(obj, Pod):
            self.pods.pop(obj.uid, None)
        self.scheduler.delete(obj)

    def bind(self, pod: PodInfo, node_name: str) -> None:
        current = self.pods.get(pod.uid)
        if current is None:
            raise LookupError(f'pods "{pod.name}" not found')
        spec = msgspec.structs.replace(current.spec, node_name=node_name)
        status = msgspec.structs.replace(current.status, nominated_node_name="")
        self.apply(msgspec.structs.replace(current, spec=spec, status=status))

    def run(self, on_decision: Callable[[Decision], None] | None = None, limit: int | None = None) -> int:
        """Schedule until nothing is left to try now (or `limit` attempts were made); how many were made."""
        scheduler, attempts = self.scheduler, 0
        while limit is None or attempts < limit:
            decision = scheduler.schedule_one()
            if decision is not None:
                attempts += 1
                if on_decision is not None:
                    on_decision(decision)
                if decision.result == "scheduled" and len(scheduler.effects) < AHEAD:
                    continue
            elif not scheduler.effects:
                break
            self.carry_out(scheduler.take_effects())
        self.carry_out(scheduler.take_effects())
        return attempts

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                self.scheduler.bindings.finished(effect.cycle, run_now(effect.cycle.run()))
            elif isinstance(effect, Prepare):
                self.scheduler.bindings.groups.prepared(effect.cycle, run_now(effect.cycle.prepare()))
            elif isinstance(effect, EmitEvent):
                self.events.append(effect)
            elif isinstance(effect, PatchPodStatus):
                self._patch(effect.pod, effect.condition, effect.nominated_node)
            elif isinstance(effect, Evict):
                victim = self.pods.get(effect.victim.uid)
                if victim is not None:
                    self.evictions.append(effect)
                    self.events += () if effect.event is None else (effect.event,)
                    self.delete(victim)
            elif isinstance(effect, Write) and self.scheduler.client is not None:
                run_now(effect.work(self.scheduler.client))
        if self.scheduler.effects:
            self.carry_out(self.scheduler.take_effects())

    def _patch(self, pod: PodInfo, condition: Condition | None, nominated_node: str | None) -> None:
        current = self.pods.get(pod.uid)
        if current is None:
            return
        status = current.status
        conditions = status.conditions
        if condition is not None:
            conditions = [c for c in conditions if c.type != condition.type] + [condition]
        nominated = status.nominated_node_name if nominated_node is None else nominated_node
        status = msgspec.structs.replace(status, conditions=conditions, nominated_node_name=nominated)
        self.apply(msgspec.structs.replace(current, status=status))


class MemoryClient:
    """The Client that plugins of a cluster in memory write through."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._created = 0

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        self._cluster.bind(pod, node_name)

    async def get(self, obj: Written) -> Any:
        return self._current(kube_object(obj))

    async def create(self, obj: Obj) -> Obj:
        metadata, self._created = obj.metadata, self._created + 1
        name = metadata.name or f"{metadata.generate_name}{self._created:05d}"
        uid = metadata.uid or f"{obj.kind or type(obj).__name__}-{self._created}"
        created = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(metadata, name=name, uid=uid))
        self._cluster.apply(created)
        return created

    async def patch(self, obj: Written, patch: dict[str, Any], subresource: str = "") -> Any:
        current: KubeObject = self._current(kube_object(obj))
        expected_version = patch.get("metadata", {}).get("resourceVersion", "")
        if expected_version and expected_version != current.metadata.resource_version:
            raise ConflictError(f'{type(current).__name__} "{current.key}": the object has been modified')
        part = {name: patch[name] for name in patch if (name == "status") == (subresource == "status")}
        merged = merge_patch(msgspec.to_builtins(current), part)
        patched = _next_version(msgspec.convert(merged, type(current)))
        self._cluster.apply(patched)
        return patched

    async def delete(self, obj: Written) -> None:
        self._cluster.delete(self._current(kube_object(obj)))

    async def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        return True

    def _current(self, obj: Obj) -> Obj:
        """An object as the cluster has it now."""
        scheduler = self._cluster.scheduler
        stored: KubeObject | None
        if isinstance(obj, Pod):
            stored = self._cluster.pods.get(obj.uid)
        elif isinstance(obj, Node):
            info = scheduler.cluster.node(obj.name)
            stored = None if info is None else info.node
        else:
            stored = scheduler.store.get(type(obj), obj.name, obj.namespace)
        if stored is None:
            raise LookupError(f'{type(obj).__name__} "{obj.key}" not found')
        return cast(Obj, stored)


def _next_version(obj: Obj) -> Obj:
    """The object with a higher resource version, where it has one."""
    version = obj.metadata.resource_version
    if not version.isdecimal():
        return obj
    metadata = msgspec.structs.replace(obj.metadata, resource_version=str(int(version) + 1))
    return msgspec.structs.replace(obj, metadata=metadata)
