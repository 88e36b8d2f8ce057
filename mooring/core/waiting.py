"""Pods that permit plugins hold back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mooring.api.times import go_duration
from mooring.core.binding import BindingCycle
from mooring.core.event_map import events_of
from mooring.framework.events import ClusterEvent
from mooring.framework.plugin import Plugin, overrides
from mooring.framework.pod import PodInfo
from mooring.framework.status import SUCCESS, Code, Status
from mooring.runtime.containment import CONTAINED
from mooring.runtime.runners import raised


class HeldPod:
    """A pod in Permit: free once every plugin that holds it allows it, refused by the first that says so
    or whose time runs out."""

    def __init__(
        self,
        cycle: BindingCycle,
        waits: Mapping[str, tuple[float, Status]],
        now: float,
        decided: Callable[[HeldPod, Status], None],
    ) -> None:
        self.cycle = cycle
        self.since = now
        self._deadlines = {plugin: now + timeout for plugin, (timeout, _) in waits.items()}
        self._timeouts = {plugin: timeout for plugin, (timeout, _) in waits.items()}
        self.reasons = {plugin: status.message for plugin, (_, status) in waits.items()}
        self._decided = decided

    @property
    def pod(self) -> PodInfo:
        return self.cycle.pod

    @property
    def node_name(self) -> str:
        return self.cycle.node_name

    @property
    def pending_plugins(self) -> Sequence[str]:
        return list(self._deadlines)

    @property
    def deadline(self) -> float:
        return min(self._deadlines.values())

    def allow(self, plugin: str) -> None:
        if self._deadlines.pop(plugin, None) is not None and not self._deadlines:
            self._decided(self, SUCCESS)

    def reject(self, plugin: str, message: str) -> None:
        if self._deadlines:
            self._deadlines.clear()
            self._decided(self, Status(Code.UNSCHEDULABLE, message, plugin=plugin))

    def fail(self, message: str) -> None:
        """End the waiting with an error instead of a refusal."""
        if self._deadlines:
            self._deadlines.clear()
            self._decided(self, Status(Code.ERROR, f"waiting on permit for pod: {message}"))

    def observe(self, plugin: Plugin, old: object, new: object) -> None:
        """Ask a plugin that holds the pod about an event; if it fails, the waiting ends with an error."""
        try:
            plugin.while_waiting(self, old, new)
        except CONTAINED as exc:
            self.fail(f'running Permit plugin "{plugin.name}": {raised(plugin.name, "while_waiting", exc)}')

    def cancel(self) -> None:
        """End the waiting without a decision."""
        self._deadlines.clear()

    def expire(self, now: float) -> bool:
        """Refuse the pod if a plugin's time has run out."""
        if not self._deadlines:  # decided meanwhile, by what another pod's end led to
            return False
        plugin = min(self._deadlines, key=self._deadlines.__getitem__)
        if self._deadlines[plugin] > now:
            return False
        waited = go_duration(self._timeouts[plugin])
        self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")
        return True


class WaitingPods:
    """All pods in Permit, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, HeldPod] = {}
        self._registered: dict[int, list[ClusterEvent]] = {}  # events of plugins, by the plugin's id

    def __iter__(self) -> Iterator[HeldPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> HeldPod | None:
        return self._pods.get(uid)

    def add(self, pod: HeldPod) -> None:
        self._pods[pod.pod.uid] = pod

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def observe(self, event: ClusterEvent, old: object, new: object) -> None:
        """Pass an event to the plugins that hold pods and have registered for it."""
        for held in self:
            for name in held.pending_plugins:
                plugin = held.cycle.profile.plugins[name]
                if overrides(type(plugin), "while_waiting") and self._is_registered(plugin, event):
                    held.observe(plugin, old, new)

    def _is_registered(self, plugin: Plugin, event: ClusterEvent) -> bool:
        registered = self._registered.get(id(plugin))
        if registered is None:
            registered = self._registered[id(plugin)] = [hint.event for hint in events_of(plugin)]
        return any(each.matches(event) for each in registered)

    def next_deadline(self) -> float | None:
        return min((pod.deadline for pod in self._pods.values()), default=None)

    def expire(self, now: float) -> None:
        for pod in self:
            pod.expire(now)
