"""make_cluster: a scheduler over objects in memory, on a virtual clock.

cluster = make_cluster([make_node("a"), make_node("b")], plugins=[MyPlugin])
cluster.apply(make_pod("web"))
cluster.schedule()
assert cluster.node_of("web") == "a"
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import finalize

import msgspec

from mooring.api.decode import load_manifests, strip_nulls, with_namespace
from mooring.api.defaults import identified
from mooring.api.kinds import NODES, PODS, WATCHED, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.api.selectors import matches
from mooring.config import KubeSchedulerConfiguration, LoadedConfig, from_object, loads
from mooring.config.enabling import PluginArgs, config_with
from mooring.core.decision import Decision
from mooring.core.effects import EmitEvent
from mooring.core.intake import kinds_of_plugins
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.extender.calling.make import make_extenders
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.testing.clock import VirtualClock
from mooring.testing.cluster import Cluster, Event, Manifest, about, object_name, read_manifest, split_name
from mooring.testing.nodes import make_node
from mooring.testing.selectors import label_selector

Config = str | Mapping[str, Any] | LoadedConfig | KubeSchedulerConfiguration


def make_cluster(
    nodes: int | Iterable[KubeObject] = (),
    *,
    plugins: Iterable[type[Plugin]] = (),
    args: Mapping[str, PluginArgs] | None = None,
    config: Config | None = None,
    feature_gates: Iterable[str] = (),
    seed: int = 0,
    clock: VirtualClock | None = None,
) -> SchedulerCluster:
    """Return a cluster of these nodes and other objects, or of so many nodes, and a scheduler.

    Without a `config`, the plugins run in addition to the default ones, with `args` by plugin name. A
    `config` is KubeSchedulerConfiguration as YAML text, as an object, or loaded; it enables the plugins, and
    its extenders are called, but not to bind. `feature_gates` are switched on in addition to those of the
    `config`. `seed` decides among equally good nodes.
    """
    plugins = list(plugins)
    if config is None:
        config = config_with(plugins, args)
    elif args is not None:
        raise TypeError(
            "make_cluster: config and args are mutually exclusive; set pluginConfig in the config"
        )
    settings = with_gates(load_config(config), feature_gates)
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
    cluster = SchedulerCluster(scheduler, clock)
    for extender in extenders:
        finalize(cluster, extender.close)
    cluster.apply(*([make_node(f"node-{i + 1}") for i in range(nodes)] if isinstance(nodes, int) else nodes))
    return cluster


def load_config(config: Config) -> LoadedConfig:
    """Return a configuration in any of its forms as loaded."""
    if isinstance(config, str):
        return loads(config)
    if isinstance(config, Mapping):
        return from_object(config)
    return config if isinstance(config, LoadedConfig) else LoadedConfig(config)


def with_gates(settings: LoadedConfig, feature_gates: Iterable[str]) -> LoadedConfig:
    """Return the configuration with these feature gates switched on."""
    gates = settings.config.feature_gates | dict.fromkeys(feature_gates, True)
    return replace(settings, config=msgspec.structs.replace(settings.config, feature_gates=gates))


class SchedulerCluster(Cluster):
    """A scheduler and the objects that it reads. There are no controllers and no kubelets."""

    def __init__(self, scheduler: Scheduler, clock: VirtualClock) -> None:
        self._scheduler = scheduler
        self.clock = clock
        self.decisions = []
        self._memory = MemoryCluster(scheduler)

    @property
    def scheduler(self) -> Scheduler:
        return self._scheduler

    # ---- objects

    def apply(self, *manifests: Manifest) -> list[str]:
        custom = kinds_of_plugins(self.scheduler)
        return [self._apply(obj) for manifest in manifests for obj in _objects(manifest, custom)]

    def _apply(self, obj: KubeObject) -> str:
        if isinstance(obj, Pod):
            exists = obj.uid in self._memory.pods
        elif isinstance(obj, Node):
            exists = self.scheduler.cluster.node(obj.name) is not None
        else:
            exists = self.scheduler.store.get(type(obj), obj.name, obj.namespace) is not None
        self._memory.apply(obj)
        return f"{type(obj).__name__.lower()}/{obj.name} {'configured' if exists else 'created'}"

    def delete(self, *objects: str | KubeObject, namespace: str = "default") -> None:
        for each in objects:
            self._memory.delete(self._named(each, namespace) if isinstance(each, str) else each)

    def get(self, what: str, namespace: str = "default") -> dict[str, Any]:
        tree: dict[str, Any] = msgspec.to_builtins(self._named(what, namespace))
        return tree

    def _named(self, what: str, namespace: str) -> KubeObject:
        kind, name = split_name(what)
        resource = _resource(kind, kinds_of_plugins(self.scheduler))
        if resource is PODS:
            return self.pod(f"{namespace}/{name}")
        if resource is NODES:
            node = self.scheduler.cluster.node(name)
            obj = None if node is None else node.node
        else:
            obj = self.scheduler.store.get(resource.model, name, namespace if resource.namespaced else "")
        if obj is None:
            raise LookupError(f"{what} does not exist")
        return obj

    def pods(self, selector: str = "", namespace: str = "") -> Sequence[Pod]:
        pods: Iterable[Pod] = self._memory.pods.values()
        if selector:
            chosen = label_selector(selector)
            pods = [pod for pod in pods if matches(chosen, pod.metadata.labels)]
        if namespace:
            pods = [pod for pod in pods if pod.namespace == namespace]
        return sorted(pods, key=lambda pod: pod.key)

    def events(self, what: str = "", namespace: str = "default") -> Sequence[Event]:
        return about([_event(effect) for effect in self._memory.events], what, namespace)

    # ---- time

    def now(self) -> float:
        return self.clock()

    def schedule(self) -> list[Decision]:
        first = len(self.decisions)
        self._memory.run(self.decisions.append)
        self.scheduler.queue.validate()
        return self.decisions[first:]

    def advance(self, seconds: float) -> list[Decision]:
        first = len(self.decisions)
        end = self.clock() + seconds
        self.schedule()
        while (wake := self.scheduler.next_wake()) is not None and wake <= end:
            before = (self.clock(), len(self.decisions))
            self.clock.set(max(wake, self.clock()))
            self._tick()
            if before == (self.clock(), len(self.decisions)) and self.scheduler.next_wake() == wake:
                raise AssertionError(f"the scheduler asked to run at {wake} and then did nothing")
        self.clock.set(end)
        self._tick()
        return self.decisions[first:]

    def _tick(self) -> None:
        self.scheduler.tick()
        self.schedule()


def _event(effect: EmitEvent) -> Event:
    regarding = effect.regarding
    kind = "pod" if isinstance(regarding, PodInfo) else regarding.kind.lower()
    name = object_name(kind, regarding.name, regarding.namespace)
    return Event(name, effect.type, effect.reason, effect.action, effect.note)


def _objects(manifest: Manifest, custom: Iterable[ApiResource[Any]]) -> Iterator[KubeObject]:
    if isinstance(manifest, KubeObject):
        yield manifest
        return
    if isinstance(manifest, Mapping):
        for resource in custom:  # kinds that plugins watch
            if (manifest.get("apiVersion"), manifest.get("kind")) == (resource.api_version, resource.kind):
                tree = with_namespace(dict(manifest)) if resource.namespaced else manifest
                decoded: KubeObject = msgspec.convert(strip_nulls(tree), resource.model)
                yield identified(decoded, namespaced=resource.namespaced)
                return
        text, source = msgspec.json.encode(manifest).decode(), "manifest"
    else:
        text, source = read_manifest(manifest)
    loaded = load_manifests(text, source)
    for problem in loaded.problems:
        raise ValueError(str(problem))
    for ignored in loaded.ignored:
        raise ValueError(
            f"{ignored}: the scheduler does not read this kind\n"
            "hint: the mooring_cluster fixture has controllers for workloads"
        )
    yield from loaded.objects


def _resource(kind: str, custom: Iterable[ApiResource[Any]]) -> ApiResource[Any]:
    """Return a kind by its name, "pod", "pods" or "Pod". Raises LookupError."""
    name = kind.lower()
    for resource in (*WATCHED, *custom):
        if name in (resource.plural, resource.model.__name__.lower()):
            return resource
    raise LookupError(f'kind "{kind}" is not read by the scheduler')
