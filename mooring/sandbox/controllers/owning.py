"""Who owns what: adopting objects that a selector matches, and letting go of those that it no longer does.

An object has one controller at most. Controllers adopt the orphans of their namespace that their selector
matches, and release what they own but do not select, as kube-controller-manager's do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.api.selectors import Selector
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.cache import Collection
from mooring.client.controller import Controller
from mooring.client.port import Obj, PatchType

Owner = TypeVar("Owner", bound=KubeObject)

ORPHANS = "orphans"
"""The index of a collection that has the objects without a controller, by namespace."""


def kind_of(resource: ApiResource[Any]) -> str:
    """Models that controllers read are named for their kinds."""
    return resource.model.__name__


def controller_reference(resource: ApiResource[Any], owner: KubeObject) -> dict[str, Any]:
    """The owner reference that makes an object the controller of another."""
    return {
        "apiVersion": resource.api_version,
        "kind": kind_of(resource),
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def index_orphans(collection: Collection[Any]) -> None:
    """Have the orphans found quickly; `Claims` needs it of the collection that it claims from."""
    collection.index(ORPHANS, _orphaned_in, key="owners")


def _orphaned_in(obj: KubeObject) -> tuple[str, ...]:
    return (obj.metadata.namespace,) if obj.metadata.controller() is None else ()


def concerned(
    owners: Collection[Owner], selector_of: Callable[[Owner], Selector], old: Obj | None, new: Obj | None
) -> Sequence[str]:
    """Return the keys of the owners that a change of an object concerns: its old and new controller, or,
    if it has none or its labels changed, those that may adopt it."""
    after = _controller_key(owners, new)
    if old is not None and new is not None and old.metadata.owner_references == new.metadata.owner_references:
        before = after  # as nearly always
    else:
        before = _controller_key(owners, old)
    if after is not None:
        return (after,) if before is None or before == after else (after, before)
    keys = () if before is None else (before,)
    if new is None or not _newly_adoptable(old, new):
        return keys
    others = (one for one in owners.in_namespace(new.namespace) if one.key != before)
    return [*keys, *(one.key for one in others if selector_of(one).matches(new.metadata.labels))]


def _controller_key(owners: Collection[Any], obj: KubeObject | None) -> str | None:
    """The key of an object's controller, if it is one of these owners and still there."""
    reference = None if obj is None else obj.metadata.controller()
    if obj is None or reference is None or reference.kind != owners.kind:
        return None
    key = f"{obj.metadata.namespace}/{reference.name}"
    owner = owners.get(key)
    return key if owner is not None and owner.uid == reference.uid else None


def _newly_adoptable(old: KubeObject | None, new: KubeObject) -> bool:
    if new.metadata.controller() is not None or new.metadata.deletion_timestamp is not None:
        return False
    return old is None or old.metadata.controller() is not None or old.metadata.labels != new.metadata.labels


class Claims(Generic[Owner, Obj]):
    """What one owner lays claim to among the objects of a collection, while it is looked after."""

    def __init__(
        self,
        controller: Controller,
        owners: Collection[Owner],
        owner: Owner,
        selector: Selector,
        collection: Collection[Obj],
    ) -> None:
        self._controller = controller
        self._owners = owners
        self._owner = owner
        self._selector = selector
        self._collection = collection
        self._may_adopt: ClusterError | bool | None = None  # None: not asked yet

    def owned(self, eligible: Callable[[Obj], bool] = lambda obj: True) -> list[Obj]:
        """What of the eligible objects has this owner and is selected, just as it is: nothing is adopted or
        released."""
        eligible_objects = filter(eligible, self._collection.controlled_by(self._owner.uid))
        return [obj for obj in eligible_objects if self._selector.matches(obj.metadata.labels)]

    async def claim(self, eligible: Callable[[Obj], bool] = lambda obj: True) -> list[Obj]:
        """What the owner controls of the eligible objects, after adoptions and releases. Raises the first of
        their failures once all were tried."""
        claimed: list[Obj] = []
        failures: list[ClusterError] = []
        deleted = self._owner.metadata.deletion_timestamp is not None
        alike: dict[str, str] | None = None  # labels that match; most are like those before
        for obj in filter(eligible, self._collection.controlled_by(self._owner.uid)):
            labels = obj.metadata.labels
            if labels == alike or self._selector.matches(labels):
                alike = labels
                claimed.append(obj)
            elif not deleted:
                try:
                    await self._release(obj)
                except ClusterError as failure:
                    failures.append(failure)
        for obj in () if deleted else filter(eligible, self.adoptable()):
            try:
                adopted = await self._adopt(obj)
            except ClusterError as failure:
                failures.append(failure)
            else:
                if adopted is not None:
                    claimed.append(adopted)
        if failures:
            raise failures[0]
        return claimed

    def adoptable(self) -> list[Obj]:
        """What has no controller and is selected."""
        return [
            obj
            for obj in self._collection.by(ORPHANS, self._owner.namespace)
            if obj.metadata.deletion_timestamp is None and self._selector.matches(obj.metadata.labels)
        ]

    async def _adopt(self, obj: Obj) -> Obj | None:
        await self._check_owner()
        owner = controller_reference(self._owners.resource, self._owner)
        patch = {"metadata": {"ownerReferences": [owner], "uid": obj.uid}}
        return await self._patch(obj, patch)

    async def _release(self, obj: Obj) -> None:
        owners = [{"$patch": "delete", "uid": self._owner.uid}]
        patch = {"metadata": {"ownerReferences": owners, "uid": obj.uid}}
        try:
            await self._patch(obj, patch)
        except ApiError as refusal:
            if refusal.code != 422:  # else it has no such owner, or is another object by now: all the better
                raise

    async def _patch(self, obj: Obj, patch: dict[str, Any]) -> Obj | None:
        try:
            written = await self._controller.cluster.patch(
                self._collection.resource, obj.name, patch, obj.namespace, kind=PatchType.STRATEGIC
            )
        except ApiError as refusal:
            if refusal.not_found:
                self._collection.delete(obj)
                return None
            raise
        self._collection.wrote(written)
        return written

    async def _check_owner(self) -> None:
        """Check once with the API server that the owner is not being deleted, before it adopts."""
        if self._may_adopt is None:
            self._may_adopt = await self._ask_owner()
        if isinstance(self._may_adopt, ClusterError):
            raise self._may_adopt

    async def _ask_owner(self) -> ClusterError | bool:
        owner, kind = self._owner, kind_of(self._owners.resource)
        try:
            fresh = await self._controller.cluster.get(self._owners.resource, owner.name, owner.namespace)
        except ClusterError as failure:
            return failure
        if fresh.uid != owner.uid:
            return ApiError(409, "Conflict", f"{kind} {owner.key} is gone: another has its name")
        if fresh.metadata.deletion_timestamp is not None:
            return ApiError(409, "Conflict", f"{kind} {owner.key} is being deleted: it adopts nothing")
        return True
