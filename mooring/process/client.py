"""What plugins and the binding cycle write through, on a live cluster."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from typing import Any, TypeVar, cast

import msgspec

from mooring.api.kinds import PODS, WATCHED, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.port import Cluster
from mooring.framework.pod import PodInfo
from mooring.runtime.written_objects import Written, kube_object

Obj = TypeVar("Obj", bound=KubeObject)

PATIENCE = 30.0  # seconds that a binding waits for an API server that does not answer
POLL = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds between looks at what one waits for; the last for good


class NotLeadingError(Exception):
    """Another replica may be scheduling by now."""


class BoundElsewhereError(ApiError):
    """Another scheduler has bound the pod to another node."""

    def __init__(self, message: str) -> None:
        super().__init__(409, "Conflict", message)


class _Target(msgspec.Struct, rename="camel"):
    name: str
    kind: str = "Node"
    api_version: str = "v1"


class _BindingMeta(msgspec.Struct):
    name: str
    namespace: str
    uid: str


class _Binding(msgspec.Struct, rename="camel"):
    metadata: _BindingMeta
    target: _Target
    api_version: str = "v1"
    kind: str = "Binding"


class LiveClient:
    """A Client over the port. `waiting` counts the bindings that wait for something other than a response;
    `on_wait` is called when one starts to. `custom` are the kinds that plugins ask for."""

    def __init__(
        self,
        cluster: Cluster,
        may_bind: Callable[[], bool],
        custom: Iterable[ApiResource[Any]] = (),
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._resources: dict[type[KubeObject], ApiResource[KubeObject]] = {
            resource.model: resource for resource in (*WATCHED, *custom)
        }
        self._may_bind = may_bind
        self._on_wait = on_wait
        self._away_at = -math.inf
        self.waiting = 0

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Bind a pod. Where the answer is lost, find out whether it took effect before trying again, so
        that a pod is neither bound twice nor given up after it was bound."""
        body = _Binding(_BindingMeta(pod.name, pod.namespace, pod.uid), _Target(node_name))
        try:
            await self._post_binding(pod, body)
        except ClusterError as failure:
            if not self._may_recover(failure):
                raise
            await self._bind_when_reachable(pod, body, failure)

    async def _post_binding(self, pod: PodInfo, body: _Binding) -> None:
        if not self._may_bind():
            raise NotLeadingError("this scheduler is no longer the leader")
        try:
            await self._cluster.post(PODS, pod.name, "binding", body, pod.namespace)
        except ApiError as refusal:
            where = await self._on(pod) if refusal.conflict else ""
            if not where:
                raise
            # An earlier request, of which there was no answer, may have taken effect after all.
            if where != body.target.name:
                raise BoundElsewhereError(refusal.message) from refusal

    async def _bind_when_reachable(self, pod: PodInfo, body: _Binding, failure: ClusterError) -> None:
        node_name = body.target.name
        clock = asyncio.get_running_loop().time
        deadline = clock() + PATIENCE
        for pause in _pauses():
            if clock() >= deadline:
                break
            await asyncio.sleep(pause)
            try:
                where = await self._on(pod)
                if not where:
                    await self._post_binding(pod, body)
                elif where != node_name:
                    raise BoundElsewhereError(f'pod {pod.name} is already assigned to node "{where}"')
                return
            except ClusterError as again:
                if not self._may_recover(again):
                    raise
                failure = again
        raise failure

    def _may_recover(self, failure: ClusterError) -> bool:
        """Return whether the result may change soon: there was no response, or the server was unavailable
        until recently. One that has just started has not loaded its roles yet and rejects everything."""
        now = asyncio.get_running_loop().time()
        if not isinstance(failure, ApiError):
            self._away_at = now
            return True
        return now - self._away_at < PATIENCE and (failure.transient or failure.code in (401, 403))

    async def _on(self, pod: PodInfo) -> str:
        """The node a pod is bound to, by the API server's word."""
        current: Pod = await self._cluster.get(PODS, pod.name, pod.namespace)
        if current.uid != pod.uid:
            raise ApiError(404, "NotFound", f'pods "{pod.name}" not found')
        return current.spec.node_name

    async def get(self, obj: Written) -> Any:
        target = kube_object(obj)
        return await self._cluster.get(self._resource(target), target.name, target.namespace)

    async def create(self, obj: Obj) -> Obj:
        resource = self._resource(obj)
        body = {**msgspec.to_builtins(obj), "apiVersion": resource.api_version, "kind": type(obj).__name__}
        return await self._cluster.create(resource, body, obj.namespace)

    async def patch(self, obj: Written, patch: dict[str, Any], subresource: str = "") -> Any:
        target = kube_object(obj)
        return await self._cluster.patch(
            self._resource(target), target.name, patch, target.namespace, subresource=subresource
        )

    async def delete(self, obj: Written) -> None:
        target = kube_object(obj)
        await self._cluster.delete(self._resource(target), target.name, target.namespace, uid=target.uid)

    def _resource(self, obj: Obj) -> ApiResource[Obj]:
        try:
            return cast("ApiResource[Obj]", self._resources[type(obj)])
        except KeyError:
            raise TypeError(f"{type(obj).__name__}: unknown kind; add it to a plugin's `watches`") from None

    async def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        self.waiting += 1
        self._on_wait()
        try:
            for pause in _pauses():
                if done():
                    return True
                left = deadline - clock()
                if left <= 0:
                    break
                await asyncio.sleep(min(pause, left))
            return False
        finally:
            self.waiting -= 1


def _pauses() -> Iterator[float]:
    return chain(POLL, repeat(POLL[-1]))
