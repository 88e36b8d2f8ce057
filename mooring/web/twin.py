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

Key = tuple[type[KubeObject], str]


class Twin(MemoryCluster):
    """A cluster in memory that can take over other objects. Raises ConfigError and PluginError."""

    def __init__(self, config: LoadedConfig, registry: Registry) -> None:
        self.config, self.registry = config, registry
        self._now = 0.0
        self._random = Random()
        self._loaded: dict[Key, KubeObject] = {}
        self._altered: set[Key] = set()  # by attempts, since `load`
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
        self._altered.add(_key(obj))
        super().apply(obj)

    def delete(self, obj: KubeObject) -> None:
        self._altered.add(_key(obj))
        super().delete(obj)

    def load(self, objects: Iterable[KubeObject], now: float) -> None:
        """Have these objects and no others. Pods without a node are new to the queue."""
        self._now = now
        self._random.seed(0)
        wanted = {_key(obj): obj for obj in objects}
        loaded, altered = self._loaded, self._altered
        for key in [key for key in loaded if key not in wanted or loaded[key] is not wanted[key]]:
            altered.add(key)
        altered.update(key for key, obj in wanted.items() if key not in loaded or _is_pending(obj))
        pods = {key for key in altered if key[0] is Pod}
        for key in pods:  # also those that stay, so that the queue forgets their attempts
            if (pod := self.pods.get(key[1])) is not None:
                super().delete(pod)
        for key in altered - pods:
            obj = wanted.get(key)
            if obj is not None:
                super().apply(obj)
            elif (old := loaded.get(key) or self._stored(key)) is not None:
                super().delete(old)
        for key, obj in wanted.items():
            if key in pods:
                super().apply(obj)
        self._loaded, self._altered = wanted, set()
        self.events.clear()

    def _stored(self, key: Key) -> KubeObject | None:
        """Return an object that attempts created."""
        return next((obj for obj in self.scheduler.store.all() if _key(obj) == key), None)


def _key(obj: KubeObject) -> Key:
    return (Pod, obj.uid) if isinstance(obj, Pod) else (type(obj), obj.key)


def _is_pending(obj: KubeObject) -> bool:
    return isinstance(obj, Pod) and not obj.spec.node_name
