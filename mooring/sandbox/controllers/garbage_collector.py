"""Garbage collection: objects go when all that owned them is gone, and the deletion of an owner reaches what
it owns in the way that was asked for.

- In the background, the default: the owner goes at once, and its dependents are found to have none.
- In the foreground: the owner waits, by a finalizer, until those dependents are gone that block it.
- Orphaned: the owner waits, by another finalizer, until its dependents no longer name it.

A graph of all objects of all kinds is built from informers. It may lag behind, so nothing is deleted before
the API server confirms that an owner is gone, by a watch or an answer, and then only in the version that was
examined.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from mooring.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from mooring.api.meta import KubeObject, ObjectMeta, OwnerReference
from mooring.client.api_errors import ApiError
from mooring.client.cache import Collection
from mooring.client.controller import Context, Controller
from mooring.client.port import ServedKind

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

_DISCOVER = ""  # in the queue, where uids are otherwise: look which kinds are served
_NEEDED = frozenset(("delete", "list", "watch"))
_IGNORED = ("events", "events.events.k8s.io")  # they are many, and own nothing
_PATIENCE = 30.0  # seconds for the first lists of new kinds
_MOST_ABSENT = 500
_TURN = 100  # owners that are looked up before others on the event loop have their turn


class _Item:
    """An object in the graph, and where it is known from."""

    __slots__ = ("collection", "obj")

    def __init__(self, collection: Collection[Any], obj: KubeObject) -> None:
        self.collection = collection
        self.obj = obj

    @property
    def meta(self) -> ObjectMeta:
        return self.obj.metadata

    @property
    def waits(self) -> bool:
        """Whether it is deleted, and waits for its dependents to go first."""
        return self.meta.deletion_timestamp is not None and FOREGROUND in self.meta.finalizers

    @property
    def unsettled(self) -> bool:
        """Whether it is deleted, and there is something to be done about its dependents."""
        meta = self.meta
        return meta.deletion_timestamp is not None and (
            ORPHAN in meta.finalizers or FOREGROUND in meta.finalizers
        )


class _Owners(NamedTuple):
    """The owners that an object names, by what became of them."""

    solid: list[OwnerReference]
    dangling: list[OwnerReference]
    waiting: list[OwnerReference]


class GarbageCollector(Controller):
    name = "garbage-collector-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._items: dict[str, _Item] = {}  # by uid
        self._dependents: dict[str, dict[str, None]] = {}  # the uids of those who name an owner, by its uid
        self._kinds: dict[tuple[str, str], ServedKind] = {}  # by group and kind
        self._kind_of: dict[str, str] = {}  # by the name of a resource
        self._followed: set[str] = set()  # resources that only this controller follows
        self._subscribed: set[str] = set()  # resources whose changes come here
        self._unmapped: set[str] = set()  # objects with owners of a kind that is not served
        self._absent: dict[tuple[OwnerReference, str], None] = {}  # owners that were found to be gone
        self._ended: dict[str, None] = {}  # uids of the last objects that went: no other has them again
        self.enqueue(_DISCOVER)
        definitions = self.cache.follow(CUSTOM_RESOURCE_DEFINITIONS)
        definitions.subscribe(lambda old, new: self.enqueue(_DISCOVER))

    # ---- kinds

    async def _discover(self) -> None:
        """Watch exactly the kinds that are served. Kinds that other controllers watch keep their model, so
        this has to run after the other controllers have started."""
        served = [
            one
            for one in await self.cluster.served_kinds()
            if one.verbs >= _NEEDED and one.resource.name not in _IGNORED
        ]
        self._kinds = {(one.resource.group, one.kind): one for one in served}
        self._kind_of = {one.resource.name: one.kind for one in served}
        for name in self._followed - self._kind_of.keys():
            self._followed.discard(name)
            self._subscribed.discard(name)
            self.cache.forget(name)
            self._ended.clear()  # its objects may come back with the kind
        for one in served:
            name = one.resource.name
            collection = self.cache.find(name)
            if collection is None:
                collection = self.cache.follow(one.resource)
                self._followed.add(name)
            if name not in self._subscribed:
                self._subscribed.add(name)
                collection.subscribe(partial(self._changed, collection))
        with suppress(TimeoutError):  # a kind that cannot be listed must not hold up all others
            async with asyncio.timeout(_PATIENCE):
                await self.cache.caught_up()
        for uid in self._unmapped:
            self.enqueue(uid)
        self._unmapped.clear()

    # ---- the graph

    def _changed(self, collection: Collection[Any], old: KubeObject | None, new: KubeObject | None) -> None:
        if new is None:
            assert old is not None
            self._gone(old)
            return
        meta = new.metadata
        uid, after = meta.uid, meta.owner_references
        if old is not None and old.metadata.uid != uid:
            self._gone(old)
            old = None
        item = self._items.get(uid)
        if item is None:
            item = self._items[uid] = _Item(collection, new)
        else:
            item.obj = new
        before = [] if old is None else old.metadata.owner_references
        if before != after:
            self._unlink(uid, before)
            self._link(uid, after)
            if any(self._suspicious(item, owner) for owner in after):
                self.enqueue(uid)
        if meta.deletion_timestamp is not None and item.unsettled:
            self.enqueue(uid)

    def _gone(self, obj: KubeObject) -> None:
        uid = obj.uid
        self._items.pop(uid, None)
        self._ended[uid] = None
        if len(self._ended) > _MOST_ABSENT:
            del self._ended[next(iter(self._ended))]
        self._unlink(uid, obj.metadata.owner_references)
        for dependent in self._dependents.get(uid, ()):
            self.enqueue(dependent)

    def _link(self, uid: str, owners: Iterable[OwnerReference]) -> None:
        for owner in owners:
            self._dependents.setdefault(owner.uid, {})[uid] = None

    def _unlink(self, uid: str, owners: Iterable[OwnerReference]) -> None:
        """Forget that an object names these owners; one that waited for it may go now."""
        for owner in owners:
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.pop(uid, None)
                if not dependents:
                    del self._dependents[owner.uid]
            item = self._items.get(owner.uid)
            if item is not None and item.waits:
                self.enqueue(owner.uid)

    def _suspicious(self, item: _Item, owner: OwnerReference) -> bool:
        """Whether an owner is not simply there."""
        existing = self._items.get(owner.uid)
        return existing is None or existing.waits or not self._names(item, owner, existing)

    def _names(self, item: _Item, owner: OwnerReference, existing: _Item) -> bool:
        """Whether a reference names this object in all its parts, and from a place where it may."""
        resource = existing.collection.resource
        return (
            owner.name == existing.obj.name
            and owner.kind == self._kind_of.get(resource.name)
            and _group(owner) == resource.group
            and (not resource.namespaced or existing.obj.namespace == item.obj.namespace)
        )

    def _dependents_of(self, item: _Item) -> list[_Item]:
        dependents = (self._items.get(uid) for uid in self._dependents.get(item.obj.uid, ()))
        return [dependent for dependent in dependents if dependent is not None]

    # ---- one object

    async def sync(self, key: str) -> None:
        if key == _DISCOVER or not self._kinds:
            await self._discover()
        item = self._items.get(key)
        if item is None:
            return
        if item.meta.deletion_timestamp is None:
            if item.meta.owner_references:
                await self._judge(item)
        elif ORPHAN in item.meta.finalizers:
            await self._orphan_dependents(item)
        elif FOREGROUND in item.meta.finalizers:
            await self._await_dependents(item)

    async def _judge(self, item: _Item) -> None:
        """Delete an object without owners that would keep it; else have it forget those that are gone."""
        owners = await self._owners(item)
        if owners is None:
            return
        if owners.solid:
            if owners.dangling or owners.waiting:
                await self._set_owners(item, owners.solid)
            return
        dependents = self._dependents_of(item)
        finalizers = item.meta.finalizers
        if owners.waiting and dependents:
            if any(dependent.waits for dependent in dependents):  # there may be a circle, which this breaks
                free = [
                    msgspec.structs.replace(owner, block_owner_deletion=False)
                    for owner in item.meta.owner_references
                ]
                await self._set_owners(item, free)
            policy = "Foreground"
        elif ORPHAN in finalizers:
            policy = "Orphan"
        else:
            policy = "Foreground" if FOREGROUND in finalizers else "Background"
        await self._delete(item, policy)

    async def _await_dependents(self, item: _Item) -> None:
        """Have the dependents of an object deleted; when none blocks it any more, let it go."""
        dependents = self._dependents_of(item)
        if not any(_blocks(dependent, item.obj.uid) for dependent in dependents):
            await self._remove_finalizer(item, FOREGROUND)
        for dependent in dependents:
            if dependent.meta.deletion_timestamp is None:
                self.enqueue(dependent.obj.uid)

    async def _orphan_dependents(self, item: _Item) -> None:
        uid = item.obj.uid
        for dependent in self._dependents_of(item):
            kept = [owner for owner in dependent.meta.owner_references if owner.uid != uid]
            await self._set_owners(dependent, kept)
        await self._remove_finalizer(item, ORPHAN)

    # ---- owners

    async def _owners(self, item: _Item) -> _Owners | None:
        """Return the state of the owners of an object; None if the kind or scope of one is invalid."""
        owners = _Owners([], [], [])
        for number, owner in enumerate(item.meta.owner_references, 1):
            if number % _TURN == 0:
                await asyncio.sleep(0)  # there may be tens of thousands
            existing = self._items.get(owner.uid)
            if existing is None or not self._names(item, owner, existing):
                served = self._kinds.get((_group(owner), owner.kind))
                if served is None:
                    self._unmapped.add(item.obj.uid)
                    return None
                if served.resource.namespaced and not item.obj.namespace:
                    return (
                        None  # nothing that belongs to the whole cluster can be owned from within a namespace
                    )
                existing = await self._look_up(item, owner, served)
            if existing is None:
                owners.dangling.append(owner)
            elif existing.waits:
                owners.waiting.append(owner)
            else:
                owners.solid.append(owner)
        return owners

    async def _look_up(self, item: _Item, owner: OwnerReference, served: ServedKind) -> _Item | None:
        """An owner as the API server has it; None where it is gone or never was."""
        namespace = item.obj.namespace if served.resource.namespaced else ""
        if owner.uid in self._ended or (owner, namespace) in self._absent:
            return None
        try:
            obj = await self.cluster.get(served.resource, owner.name, namespace)
        except ApiError as refusal:
            if not refusal.not_found:
                raise
        else:
            if obj.uid == owner.uid:
                return _Item(Collection(served.resource), obj)
        self._absent[owner, namespace] = None
        if len(self._absent) > _MOST_ABSENT:
            del self._absent[next(iter(self._absent))]
        return None

    # ---- writing

    async def _delete(self, item: _Item, policy: str) -> None:
        obj = item.obj
        try:
            await self.cluster.delete(
                item.collection.resource,
                obj.name,
                obj.namespace,
                uid=obj.uid,
                resource_version=obj.metadata.resource_version,
                propagation_policy=policy,
            )
        except ApiError as refusal:
            if not refusal.not_found:
                raise  # where it changed meanwhile, it is judged again
            item.collection.delete(obj)
        else:
            item.collection.deleting(obj, self.context.now())

    async def _set_owners(self, item: _Item, owners: list[OwnerReference]) -> None:
        await self._patch(item, {"ownerReferences": owners})

    async def _remove_finalizer(self, item: _Item, finalizer: str) -> None:
        await self._patch(item, {"finalizers": [one for one in item.meta.finalizers if one != finalizer]})

    async def _patch(self, item: _Item, metadata: dict[str, Any]) -> None:
        """Change metadata, unless the object was changed concurrently."""
        obj = item.obj
        patch = {"metadata": {**metadata, "resourceVersion": obj.metadata.resource_version}}
        try:
            written = await self.cluster.patch(item.collection.resource, obj.name, patch, obj.namespace)
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            item.collection.delete(obj)
        else:
            if written.metadata.deletion_timestamp is None:  # else it may be gone by this very write
                item.collection.wrote(written)


def _group(owner: OwnerReference) -> str:
    return owner.api_version.rpartition("/")[0]


def _blocks(dependent: _Item, uid: str) -> bool:
    return any(
        owner.uid == uid and bool(owner.block_owner_deletion) for owner in dependent.meta.owner_references
    )
