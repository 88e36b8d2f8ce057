"""A second scheduler over the objects of the first one, to try things on.

It is kept between evaluations, and only what changed is applied: objects are never changed in place, so
comparing identities finds the difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.config import LoadedConfig
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog
from mooring.runtime.registry import Registry

Objects = dict[type[KubeObject], dict[str, KubeObject]]
"""By kind, and by UID for pods, else by "namespace/name"."""


class Twin(MemoryCluster):
    """A cluster in memory that can take over other objects. Raises ConfigError and PluginError."""

    def __init__(self, config: LoadedConfig, registry: Registry) -> None:
        self.config, self.registry = config, registry
        self._now = 0.0
        self._random = Random()
        self._loaded: Objects = {}
        self._altered: dict[type[KubeObject], set[str]] = {}  # by attempts, since `load`
        super().__init__(
            Scheduler(
                config,
                clock=lambda: self._now,
                pick=lambda count: self._random.randrange(count),
                registry=registry,
                log=DecisionLog(pods=1),  # so that decisions say why
            )
        )

    def apply(self, obj: KubeObject) -> None:
        self._altered.setdefault(type(obj), set()).add(_key(obj))
        super().apply(obj)

    def delete(self, obj: KubeObject) -> None:
        self._altered.setdefault(type(obj), set()).add(_key(obj))
        super().delete(obj)

    def load(self, objects: Iterable[KubeObject], now: float) -> None:
        """Have these objects and no others. Pods without a node are new to the queue."""
        self._now = now
        self._random.seed(0)
        wanted: Objects = {}
        for obj in objects:
            wanted.setdefault(type(obj), {})[_key(obj)] = obj
        kinds = dict.fromkeys((*wanted, *self._loaded, *self._altered))
        altered = {kind: self._differing(kind, wanted.get(kind, {})) for kind in kinds}
        for key in sorted(altered.get(Pod, ())):  # also those that stay: the queue forgets their attempts
            if (pod := self.pods.get(key)) is not None:
                super().delete(pod)
        for kind, keys in altered.items():
            if kind is not Pod:
                self._load_kind(kind, keys, wanted.get(kind, {}))
        pods = altered.get(Pod, set())
        for key, obj in wanted.get(Pod, {}).items():
            if key in pods:
                super().apply(obj)
        self._loaded, self._altered = wanted, {}
        self.events.clear()

    def _differing(self, kind: type[KubeObject], wanted: dict[str, KubeObject]) -> set[str]:
        """Return the keys of objects that are not as wanted, and of pods to be tried again."""
        loaded = self._loaded.get(kind, {})
        differing = {key for key, obj in wanted.items() if loaded.get(key) is not obj or _is_pending(obj)}
        return differing | (loaded.keys() - wanted.keys()) | self._altered.get(kind, set())

    def _load_kind(self, kind: type[KubeObject], keys: set[str], wanted: dict[str, KubeObject]) -> None:
        for key in sorted(keys - wanted.keys()):
            if (old := self._loaded.get(kind, {}).get(key) or self._stored(kind, key)) is not None:
                super().delete(old)
        for key, obj in wanted.items():
            if key in keys:
                super().apply(obj)

    def _stored(self, kind: type[KubeObject], key: str) -> KubeObject | None:
        """Return an object that attempts created."""
        return next((o for o in self.scheduler.store.all() if type(o) is kind and o.key == key), None)


def _key(obj: KubeObject) -> str:
    return obj.uid if isinstance(obj, Pod) else obj.key


def _is_pending(obj: KubeObject) -> bool:
    return isinstance(obj, Pod) and not obj.spec.node_name
