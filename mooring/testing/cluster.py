"""make_cluster: a scheduler at work over a cluster in memory, on a virtual clock.

cluster = make_cluster(nodes=[make_node("a"), make_node("b")], plugins=[MyPlugin])
cluster.add(make_pod("web"))
cluster.run()
assert cluster.node_of("web") == "a"
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from weakref import finalize

from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.config import KubeSchedulerConfiguration, LoadedConfig, from_object, loads
from mooring.core.decision import Decision
from mooring.core.effects import EmitEvent
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.extender.calling.make import make_extenders
from mooring.framework.plugin import Plugin
from mooring.testing.clock import VirtualClock
from mooring.testing.configuration import PluginArgs, config_with

P = TypeVar("P", bound=Plugin)
Config = str | Mapping[str, Any] | LoadedConfig | KubeSchedulerConfiguration


def make_cluster(
    nodes: Iterable[KubeObject] = (),
    *,
    plugins: Iterable[type[Plugin]] = (),
    args: Mapping[str, PluginArgs] | None = None,
    config: Config | None = None,
    seed: int = 0,
    clock: VirtualClock | None = None,
) -> Cluster:
    """Return a cluster of these nodes (or any objects), and a scheduler with these plugins.

    Without a `config`, the plugins are enabled in addition to the default ones, with `args` by plugin name. A
    `config` is a KubeSchedulerConfiguration as YAML text, as an object, or loaded; the plugins are then
    registered, and run where it enables them; its extenders are called, except to bind. `seed` decides among
    nodes of equal score.
    """
    plugins = list(plugins)
    if config is None:
        config = config_with(plugins, args)
    elif args is not None:
        raise TypeError("make_cluster: give args in the config's pluginConfig, not beside it")
    settings = loaded(config)
    clock = VirtualClock() if clock is None else clock
    extenders = make_extenders(settings, binds=False)
    scheduler = Scheduler(
        settings,
        clock=clock,
        pick=random.Random(seed).randrange,
        plugins=plugins,
        extenders=extenders,
        record=True,
    )
    cluster = Cluster(scheduler, clock)
    for extender in extenders:
        finalize(cluster, extender.close)
    cluster.add(*nodes)
    return cluster


def loaded(config: Config) -> LoadedConfig:
    """A configuration from whatever form it was given in."""
    if isinstance(config, str):
        return loads(config)
    if isinstance(config, Mapping):
        return from_object(config)
    return config if isinstance(config, LoadedConfig) else LoadedConfig(config)


class Cluster:
    """A scheduler and the objects it sees. Time stands still until `advance`.

    Pods are named by the object or by "name" (in namespace default) or "namespace/name".
    """

    def __init__(self, scheduler: Scheduler, clock: VirtualClock) -> None:
        self.scheduler = scheduler
        self.clock = clock
        self.decisions: list[Decision] = []  # every attempt so far, in order
        self._memory = MemoryCluster(scheduler)

    @property
    def events(self) -> list[EmitEvent]:
        """The Kubernetes events emitted so far, in order."""
        return self._memory.events

    def add(self, *objects: KubeObject) -> None:
        """Add objects, or replace them with new versions."""
        for obj in objects:
            self._memory.apply(obj)

    def delete(self, *objects: KubeObject) -> None:
        for obj in objects:
            self._memory.delete(obj)

    def run(self) -> list[Decision]:
        """Schedule until nothing is left to try at this moment; the attempts that were made."""
        first = len(self.decisions)
        self._memory.run(self.decisions.append)
        self.scheduler.queue.validate()
        return self.decisions[first:]

    def advance(self, seconds: float) -> list[Decision]:
        """Let time pass, doing what falls due on the way, then and there; the attempts that were made."""
        first = len(self.decisions)
        end = self.clock() + seconds
        self.run()
        while (wake := self.scheduler.next_wake()) is not None and wake <= end:
            before = (self.clock(), len(self.decisions))
            self.clock.set(max(wake, self.clock()))
            self._tick()
            if before == (self.clock(), len(self.decisions)) and self.scheduler.next_wake() == wake:
                raise AssertionError(f"the scheduler wants to be woken at {wake}, and does nothing then")
        self.clock.set(end)
        self._tick()
        return self.decisions[first:]

    def _tick(self) -> None:
        self.scheduler.tick()
        self.run()

    def pods(self) -> list[Pod]:
        """The pods as an API server would now give them."""
        return list(self._memory.pods.values())

    def pod(self, pod: Pod | str) -> Pod:
        """A pod as it is now."""
        key = _key(pod)
        found = next((each for each in self.pods() if each.key == key), None)
        if found is None:
            raise LookupError(f"there is no pod {key}")
        return found

    def node_of(self, pod: Pod | str) -> str:
        """The node a pod is bound to, or ""."""
        return self.pod(pod).spec.node_name

    def decision(self, pod: Pod | str) -> Decision:
        """The last attempt at a pod."""
        key = _key(pod)
        found = next((each for each in reversed(self.decisions) if each.pod == key), None)
        if found is None:
            raise LookupError(f"no attempt was made at a pod {key}")
        return found

    def plugin(self, cls: type[P], scheduler_name: str = "default-scheduler") -> P:
        """The instance of a plugin that a profile runs."""
        found = self.scheduler.profiles[scheduler_name].plugins[cls.name]
        assert isinstance(found, cls), f"{cls.name} is {type(found)}, not {cls}"
        return found


def _key(pod: Pod | str) -> str:
    if isinstance(pod, Pod):
        return pod.key
    return pod if "/" in pod else f"default/{pod}"
