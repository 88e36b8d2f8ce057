"""Counts what is used of quotas: when they are made or changed, and when something is set free.

What is added counts as soon as it is admitted, which is the API server's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from mooring.api.devices import DeviceClass, ResourceClaim
from mooring.api.kinds import (
    DEVICE_CLASSES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    SERVICES,
    ApiResource,
)
from mooring.api.objects import Pod
from mooring.api.quotas import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from mooring.client.cache import Collection
from mooring.client.controller import Context, Controller
from mooring.sandbox.quota import registry
from mooring.sandbox.quota.amounts import Amounts, Sum, equal, only, plus
from mooring.sandbox.quota.quota_kind import QuotaKind

PAUSE = 0.1  # seconds after something is set free: it is seldom alone
PODS_PER_SECOND = 20_000
"""A namespace in a cluster of many is counted less often: that takes some time."""
TURN = 500  # objects before others on the event loop have their turn
RECOUNT_EVERY = 300.0
CHECKED_AFTER = 1.0
"""Usage is counted once more after a write: quotas and the objects that use them arrive by different
watches, and an admitted object may not have been observed yet."""
UNKNOWN_AGAIN = 30.0  # a kind that is not served may be one day
PATIENCE = 10.0  # for the list of a kind


class _Cached:
    """What the caches hold, for those charges that depend on other objects."""

    def __init__(
        self, classes: Collection[DeviceClass], pods: Collection[Pod], claims: Collection[ResourceClaim]
    ) -> None:
        self._classes, self._pods, self._claims = classes, pods, claims

    def device_classes(self) -> Iterable[DeviceClass]:
        return self._classes

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self._pods.get(f"{namespace}/{name}")

    def resource_claims(self, namespace: str) -> Iterable[ResourceClaim]:
        return self._claims.in_namespace(namespace)


class ResourceQuotaController(Controller):
    name = "resourcequota-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._quotas = self.cache.follow(RESOURCE_QUOTAS)
        self._heard: dict[str, Collection[Any]] = {}
        """The kinds that quotas are about: of others nothing need be heard."""
        self._limiting: dict[str, tuple[ResourceQuotaSpec, dict[str, bool]]] = {}
        """Which kinds each quota is about, as far as it was asked, by the key of the quota."""
        self._pods = self.cache.follow(PODS)
        self.cache.follow(PERSISTENT_VOLUME_CLAIMS)
        self.cache.follow(SERVICES)
        self._neighbours = _Cached(
            self.cache.follow(DEVICE_CLASSES), self._pods, self.cache.follow(RESOURCE_CLAIMS)
        )
        self._quotas.subscribe(self._quota_changed)

    # ---- what changes

    def _quota_changed(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if new is None:
            if old is not None:
                self._limiting.pop(old.key, None)
        elif old is None or old.uid != new.uid or old.spec != new.spec:
            self.enqueue(new.key)

    def _hear(self, kind: QuotaKind[Any], collection: Collection[Any]) -> None:
        if self._heard.get(kind.name) is not collection:
            self._heard[kind.name] = collection
            collection.subscribe(partial(self._changed, kind))

    def _changed(self, kind: QuotaKind[Any], old: Any, new: Any) -> None:
        if old is None or not len(self._quotas):
            return
        if new is None or new.uid != old.uid or kind.counts_anew(old, new, self.context.clock()):
            for quota in self._quotas.in_namespace(old.namespace):
                if self._limits(quota, kind):
                    self.enqueue(quota.key, PAUSE + len(self._pods) / PODS_PER_SECOND)

    def _limits(self, quota: ResourceQuota, kind: QuotaKind[Any]) -> bool:
        """Return whether a quota is about a kind. It is asked for every object that goes."""
        spec, limits = self._limiting.get(quota.key, (None, {}))
        if spec is not quota.spec:
            spec, limits = self._limiting[quota.key] = quota.spec, {}
        if kind.name not in limits:
            limits[kind.name] = bool(kind.restricted(quota.spec.hard))
        return limits[kind.name]

    # ---- one quota

    async def sync(self, key: str) -> None:
        quota = self._quotas.get(key)
        if quota is None or quota.metadata.deletion_timestamp is not None:
            return
        all_known = await self._know_kinds(quota)
        hard, status = quota.spec.hard, quota.status
        used = only({**status.used, **await self._count(quota)}, hard)
        again = RECOUNT_EVERY if all_known else UNKNOWN_AGAIN
        if not equal(hard, status.hard) or not equal(used, status.used):
            await self._write(quota, ResourceQuotaStatus(hard, used))
            again = CHECKED_AFTER
        self.enqueue(key, again)

    async def _count(self, quota: ResourceQuota) -> dict[str, str]:
        """Return the usage of the supported resources, including those with zero usage."""
        now, scopes, used = self.context.clock(), quota.scopes, dict[str, str]()
        for name, collection in list(self._heard.items()):
            kind = self._kind(name)
            total = Sum(kind.restricted(quota.spec.hard))
            if not total:
                continue
            for number, obj in enumerate(collection.in_namespace(quota.namespace), 1):
                if all(kind.in_scope(scope, obj) for scope in scopes):
                    total.add(kind.usage(obj, now))
                if number % TURN == 0:
                    await asyncio.sleep(0)
            used = plus(used, total.texts())  # devices may be used by pods and by claims
        return used

    async def _know_kinds(self, quota: ResourceQuota) -> bool:
        """Watch all kinds that a quota limits; return whether all its resources are supported now."""
        for name in [name for name, heard in self._heard.items() if self.cache.find(name) is not heard]:
            del self._heard[name]  # it was served no more for a while
        unknown = self._unknown(quota)
        if not unknown:
            return True
        for one in await self.cluster.served_kinds():
            kind = self._kind(one.resource.name)
            if kind.restricted(unknown) and one.verbs >= {"list", "watch"}:
                await self._follow(kind, one.resource)
        return not self._unknown(quota)

    async def _follow(self, kind: QuotaKind[Any], resource: ApiResource[Any]) -> None:
        collection = self.cache.find(kind.name)
        if collection is None:
            collection = self.cache.follow(resource)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self.cache.informer(collection.resource).synced.wait()
                self._hear(kind, collection)

    def _unknown(self, quota: ResourceQuota) -> dict[str, None]:
        """Return the resources of which not all users are watched: claims use some that pods use, too."""
        hard = quota.spec.hard
        heard = {name for each in self._heard for name in self._kind(each).restricted(hard)}
        unheard = {registry.RESOURCE_CLAIMS} - self._heard.keys()
        heard -= {name for each in unheard for name in self._kind(each).restricted(hard)}
        return {name: None for name in hard if name not in heard}

    def _kind(self, name: str) -> QuotaKind[Any]:
        return registry.quota_kind(name, self._neighbours)

    async def _write(self, quota: ResourceQuota, status: ResourceQuotaStatus) -> None:
        seen = {"uid": quota.uid, "resourceVersion": quota.metadata.resource_version}
        patch = {
            "hard": _changes(quota.status.hard, status.hard),
            "used": _changes(quota.status.used, status.used),
        }
        written = await self.cluster.patch(
            RESOURCE_QUOTAS,
            quota.name,
            {"metadata": seen, "status": patch},
            quota.namespace,
            subresource="status",
        )
        self._quotas.wrote(written)


def _changes(old: Amounts, new: Amounts) -> dict[str, str | None]:
    """Return the merge patch that makes one of the other."""
    gone: dict[str, str | None] = dict.fromkeys(old.keys() - new.keys())
    return gone | {name: quantity for name, quantity in new.items() if old.get(name) != quantity}
