"""What an API server holds of some kinds, kept up to date in memory: client-go's shared informers.

Writers pass what they wrote to the cache, so that they never act on a state older than their own last write.
(client-go's controllers keep expectations for that.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal

import msgspec

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.client.informers import Informer
from mooring.client.port import Cluster, Obj
from mooring.client.troubles import Troubles

Handler = Callable[[Obj | None, Obj | None], None]
"""Called with the object before and after a change; None where there was, or is, none."""

Dependence = Literal["identity", "owners", "anything"]
"""What of an object the keys of an index depend on: nothing that changes while it lives, its owner
references, or whatever else."""

MOST_GONE = 1000  # objects whose end is remembered: writes that are under way are fewer


class Collection(Generic[Obj]):
    """The objects of one kind. Objects are values: a change puts another object in the place of the old."""

    def __init__(self, resource: ApiResource[Obj]) -> None:
        self.resource = resource
        self.kind = resource.kind
        self._objects: dict[str, Obj] = {}
        self._gone: dict[str, None] = {}  # the uids of the last objects that went
        self._handlers: list[Handler[Obj]] = []
        self._updated: list[Handler[Obj]] = []  # those of them that receive updates
        self._owning: dict[str, list[Handler[Obj]]] = {}  # by the kind of the controllers
        self._indexes: dict[str, _Index[Obj]] = {}
        self.index("namespace", _namespace, key="identity")
        self.index("controller", _controller, key="owners")

    def subscribe(self, handler: Handler[Obj], *, updates: bool = True) -> None:
        """Call the handlers for existing objects now and for every later change; without `updates`, only for
        additions and deletions. An object that replaces another of the same name counts as both."""
        self._handlers.append(handler)
        if updates:
            self._updated.append(handler)
        for obj in list(self._objects.values()):
            handler(None, obj)

    def subscribe_owner(self, kind: str, handler: Handler[Obj]) -> None:
        """Call the handlers for objects that a kind of controller owns or may adopt: all except those that
        have a controller of another kind."""
        self._owning.setdefault(kind, []).append(handler)
        for obj in list(self._objects.values()):
            if controller_kind(obj) in (None, kind):
                handler(None, obj)

    def index(
        self, name: str, keys: Callable[[Obj], tuple[str, ...]], *, key: Dependence = "anything"
    ) -> None:
        """Find objects by something else than their name, too; an index that is there already stays."""
        if name not in self._indexes:
            index = self._indexes[name] = _Index(keys, key, self._objects)
            for obj in self._objects.values():
                index.put(obj.key, None, obj)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Obj]:
        return iter(list(self._objects.values()))

    def get(self, key: str) -> Obj | None:
        """An object by "namespace/name", or "name"."""
        return self._objects.get(key)

    def by(self, index: str, key: str) -> list[Obj]:
        """The objects that an index has under a key."""
        return self._indexes[index].find(key)

    def first(self, index: str, key: str) -> Obj | None:
        """One of the objects that an index has under a key, if there is any."""
        return self._indexes[index].find_first(key)

    def in_namespace(self, namespace: str) -> list[Obj]:
        return self.by("namespace", namespace)

    def controlled_by(self, uid: str) -> list[Obj]:
        """The objects whose controller has this uid."""
        return self.by("controller", uid)

    # ---- what is known first here

    def wrote(self, obj: Obj) -> None:
        """An API server answered a write with this object. The answer may come after the news of its end."""
        if obj.metadata.uid not in self._gone:
            self.apply(obj)

    def deleting(self, obj: Obj, now: str) -> None:
        """An API server accepted that this object be deleted; it may take its time."""
        current = self._objects.get(obj.key)
        if current is not None and current.uid == obj.uid and current.metadata.deletion_timestamp is None:
            metadata = msgspec.structs.replace(current.metadata, deletion_timestamp=now)
            self._put(current.key, current, msgspec.structs.replace(current, metadata=metadata))

    # ---- the sink of an informer

    def apply(self, obj: KubeObject) -> None:
        new: Any = obj
        key = new.key
        old = self._objects.get(key)
        if new is old:  # `wrote` delivered it before
            return
        if old is None or old.metadata.uid != new.metadata.uid or _is_older(old, new):
            self._put(key, old, new)

    def delete(self, obj: KubeObject) -> None:
        """Remove a deleted object; called by the component that notices first."""
        old = self._objects.get(obj.key)
        if old is not None and old.uid == obj.uid:
            del self._objects[old.key]
            self._gone[old.uid] = None
            if len(self._gone) > MOST_GONE:
                del self._gone[next(iter(self._gone))]
            self._notify(old.key, old, None)

    def _put(self, key: str, old: Obj | None, new: Obj) -> None:
        self._objects[key] = new
        self._notify(key, old, new)

    def _notify(self, key: str, old: Obj | None, new: Obj | None) -> None:
        indexes = self._indexes.values()
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            owned_alike, handlers = False, self._handlers
            for index in indexes:
                index.put(key, old, new)
        else:
            owned_alike = old.metadata.owner_references == new.metadata.owner_references
            handlers = self._updated
            for index in indexes:
                if index.key == "anything" or (index.key == "owners" and not owned_alike):
                    index.put(key, old, new)
        for handler in handlers:
            handler(old, new)
        if self._owning:
            self._notify_owners(old, new, owned_alike)

    def _notify_owners(self, old: Obj | None, new: Obj | None, owned_alike: bool) -> None:
        after = controller_kind(old if new is None else new)
        before = after if owned_alike or old is None else controller_kind(old)
        if before is None or after is None:
            kinds: Iterable[str] = list(self._owning)
        else:
            kinds = (after,) if before == after else (after, before)
        for kind in kinds:
            for handler in self._owning.get(kind, ()):
                handler(old, new)


class _Index(Generic[Obj]):
    """The names of objects by other keys, which change rarely."""

    def __init__(
        self, keys: Callable[[Obj], tuple[str, ...]], key: Dependence, objects: Mapping[str, Obj]
    ) -> None:
        self.key = key
        self._keys = keys
        self._objects = objects
        self._buckets: dict[str, dict[str, None]] = {}

    def put(self, name: str, old: Obj | None, new: Obj | None) -> None:
        """Take note of a change of the object with this name."""
        buckets = self._buckets
        before = () if old is None else self._keys(old)
        after = () if new is None else self._keys(new)
        if before == after:  # as nearly always
            return
        kept = frozenset(after)
        for key in before:
            if key not in kept:
                bucket = buckets[key]
                del bucket[name]
                if not bucket:
                    del buckets[key]
        for key in after:
            buckets.setdefault(key, {})[name] = None

    def find(self, key: str) -> list[Obj]:
        objects = self._objects
        return [objects[name] for name in self._buckets.get(key, ())]

    def find_first(self, key: str) -> Obj | None:
        name = next(iter(self._buckets.get(key, ())), None)
        return None if name is None else self._objects[name]


class Cache:
    """Collections and their informers, one for each kind however many ask for it."""

    def __init__(self, cluster: Cluster) -> None:
        self.synced = asyncio.Event()
        self._cluster = cluster
        self._troubles = Troubles()
        self._collections: dict[str, Collection[Any]] = {}
        self._informers: dict[str, Informer[Any]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def find(self, name: str) -> Collection[Any] | None:
        """The collection of a kind that is followed, whatever model it is read by; "replicasets.apps"."""
        return self._collections.get(name)

    def forget(self, name: str) -> None:
        """Follow a kind no more, since it is served no more: its objects are gone."""
        collection = self._collections.pop(name)
        del self._informers[name]
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
        for obj in collection:
            collection.delete(obj)

    def follow(self, resource: ApiResource[Obj]) -> Collection[Obj]:
        """Return the collection of a kind and start watching it. The first caller determines the model that
        its objects are decoded into; one that reads only metadata leaves that to others while there are no
        objects."""
        collection = self._collections.get(resource.name)
        if collection is None:
            collection = self._collections[resource.name] = Collection(resource)
            self._watch(resource, collection)
        elif collection.resource.model is not resource.model:
            if collection.resource.model is not KubeObject or len(collection):
                raise TypeError(
                    f"{resource.name} are already read as {collection.resource.model.__name__}, "
                    f"not as {resource.model.__name__}"
                )
            task = self._tasks.pop(resource.name, None)
            if task is not None:
                task.cancel()
            collection.resource, collection.kind = resource, resource.kind
            self._watch(resource, collection)
        return collection

    def _watch(self, resource: ApiResource[Obj], collection: Collection[Obj]) -> None:
        informer = Informer(self._cluster, resource, collection, optional=True, troubles=self._troubles)
        self._informers[resource.name] = informer
        if self._group is not None:
            self._begin(self._group, informer)

    def informer(self, resource: ApiResource[Obj]) -> Informer[Obj]:
        """Who follows a kind for this cache, to be shared."""
        self.follow(resource)
        return self._informers[resource.name]

    async def run(self) -> None:
        """Follow all kinds until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for informer in self._informers.values():
                self._begin(group, informer)
            await self.caught_up()
            self.synced.set()

    async def caught_up(self) -> None:
        """Wait for the first list of every kind that is followed by now."""
        for informer in list(self._informers.values()):
            await informer.synced.wait()

    def _begin(self, group: asyncio.TaskGroup, informer: Informer[Any]) -> None:
        name = informer.resource.name
        self._tasks[name] = group.create_task(informer.run(), name=f"informer of {name}")


def _is_older(one: KubeObject, other: KubeObject) -> bool:
    """Resource versions of one server can be compared as numbers, since v1.35 by its word; and numbers of as
    many digits as texts."""
    version, than = one.metadata.resource_version, other.metadata.resource_version
    return version < than if len(version) == len(than) else len(version) < len(than)


def controller_kind(obj: KubeObject | None) -> str | None:
    """The kind of an object's controller; None where it has none."""
    owner = None if obj is None else obj.metadata.controller()
    return None if owner is None else owner.kind


def _namespace(obj: KubeObject) -> tuple[str, ...]:
    return (obj.metadata.namespace,)


def _controller(obj: KubeObject) -> tuple[str, ...]:
    owner = obj.metadata.controller()
    return () if owner is None else (owner.uid,)
