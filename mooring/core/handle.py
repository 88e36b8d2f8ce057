"""The Handle that plugins of one profile hold."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from mooring.core.effects import EmitEvent, Write
from mooring.core.groups.members import GroupMembers
from mooring.core.waiting import HeldPod
from mooring.framework.cycle_state import CycleState
from mooring.framework.handle import Client
from mooring.framework.pod import PodInfo
from mooring.plugins.dynamic_resources.device_view import DeviceView
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.engine_state import engine_state
from mooring.runtime.extender import Extender
from mooring.runtime.filtering import Answer
from mooring.runtime.observer import Observer
from mooring.state.cluster import ClusterState
from mooring.state.store import ObjectStore

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler
    from mooring.runtime.profile import Profile

Item = TypeVar("Item")
Result = TypeVar("Result")


class ProfileHandle:
    """A window on the scheduler, for plugins (see framework Handle)."""

    def __init__(self, scheduler: Scheduler, scheduler_name: str) -> None:
        self._scheduler = scheduler
        self.profile_name = scheduler_name
        self.profile: Profile  # set once the profile's plugins are made
        self.logger = logging.getLogger(f"mooring.plugins.{scheduler_name}")

    @property
    def snapshot(self) -> ClusterState:
        return self._scheduler.cluster

    @property
    def listers(self) -> ObjectStore:
        return self._scheduler.store

    @cached_property
    def devices(self) -> DeviceView:
        return DeviceView(self)

    @property
    def client(self) -> Client | None:
        return self._scheduler.client

    @property
    def extenders(self) -> Iterable[Extender]:
        return self._scheduler.extenders

    def now(self) -> float:
        return self._scheduler.clock()

    @property
    def observer(self) -> Observer | None:
        return self._scheduler.observer

    def feature_enabled(self, name: str) -> bool:
        return self._scheduler.feature_gates.is_enabled(name)

    def shared(self, kind: type[Result], make: Callable[[], Result]) -> Result:
        instances = self._scheduler.shared
        if kind not in instances:
            instances[kind] = make()
        instance: Result = instances[kind]
        return instance

    def write(self, work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        self._scheduler.effects.append(Write(work))

    def waiting_pods(self) -> Iterable[HeldPod]:
        return self._scheduler.waiting

    def waiting_pod(self, uid: str) -> HeldPod | None:
        return self._scheduler.waiting.get(uid)

    def reject_waiting_pod(self, uid: str) -> bool:
        held = self._scheduler.waiting.get(uid)
        if held is not None:
            held.reject("", "removed")
        return held is not None

    def nominated_pods(self, node_name: str) -> Sequence[PodInfo]:
        return self._scheduler.queue.nominator.nominated_for(node_name)

    def nominated_node(self, uid: str) -> str:
        return self._scheduler.queue.nominator.node_of(uid)

    @property
    def groups(self) -> GroupMembers:
        return self._scheduler.members

    def is_preempting(self, uid: str) -> bool:
        return uid in self._scheduler.evictions.preempting

    def any_preempting(self) -> bool:
        return bool(self._scheduler.evictions.preempting)

    def run_filters(
        self, state: CycleState, pod: PodInfo, nodes: EngineNodes, *, about_pods: bool = False
    ) -> Answer:
        filters = self.profile.filters_about_pods if about_pods else self.profile.filters
        return Answer(filters, engine_state(state), pod, nodes, contained=True)

    def filters_are_local(self, state: CycleState) -> bool:
        return self.profile.filters_are_local(engine_state(state))

    def random_below(self, n: int) -> int:
        return self._scheduler.pick(n)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        self._scheduler.queue.activate(pods)

    def emit_event(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        self._scheduler.effects.append(EmitEvent(pod, event_type, reason, action, note))

    def parallelize(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        return self._scheduler.parallelize(work, items)
