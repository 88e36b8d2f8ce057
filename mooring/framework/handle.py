"""What the framework lends to plugins: the cluster as it is now, other pods in flight, clock and client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, overload

from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.framework.devices import Devices
from mooring.framework.nodes import NodeInfo, Nodes
from mooring.framework.pod import PodInfo

Obj = TypeVar("Obj", bound=KubeObject)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Snapshot(Protocol):
    """The nodes and the pods on them, as of this cycle."""

    @property
    def nodes(self) -> Nodes: ...
    def node(self, name: str) -> NodeInfo | None: ...
    def pods(self) -> Iterator[PodInfo]: ...


class Listers(Protocol):
    """The other objects the scheduler watches: claims, volumes, services, budgets, namespaces and so on."""

    def get(self, kind: type[Obj], name: str, namespace: str = "") -> Obj | None: ...
    def list(self, kind: type[Obj], namespace: str | None = None) -> Sequence[Obj]: ...
    def version(self, kind: type[KubeObject]) -> int:
        """Return a number that changes whenever an object of this kind does."""
        ...


class WaitingPod(Protocol):
    """A pod that permit plugins hold."""

    @property
    def pod(self) -> PodInfo: ...
    @property
    def node_name(self) -> str: ...
    @property
    def pending_plugins(self) -> Sequence[str]: ...
    def allow(self, plugin: str) -> None: ...
    def reject(self, plugin: str, message: str) -> None: ...


class Client(Protocol):
    """Writes to the cluster. In memory they are done at once; on an API server they are requests."""

    async def bind(self, pod: PodInfo, node_name: str) -> None: ...
    @overload
    async def get(self, obj: Obj) -> Obj: ...
    @overload
    async def get(self, obj: PodInfo) -> Pod: ...
    @overload
    async def get(self, obj: NodeInfo) -> Node:
        """Read an object again."""
        ...

    async def create(self, obj: Obj) -> Obj:
        """Create an object; return it as the API server has it."""
        ...

    @overload
    async def patch(self, obj: Obj, patch: dict[str, Any], subresource: str = "") -> Obj: ...
    @overload
    async def patch(self, obj: PodInfo, patch: dict[str, Any], subresource: str = "") -> Pod: ...
    @overload
    async def patch(self, obj: NodeInfo, patch: dict[str, Any], subresource: str = "") -> Node:
        """Apply a JSON merge patch to an object, or to its `status`; return the object after it. Objects here
        hold only what scheduling reads of them, so they are never written back whole.

        A patch that names a `resourceVersion` applies to that version only. Where the object has changed, the
        exception has an attribute `conflict`, which is true."""
        ...

    async def delete(self, obj: KubeObject | PodInfo | NodeInfo) -> None: ...
    async def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Wait until `done` says so, which it is asked now and then; False when the time runs out first.

        In memory there are no controllers that would bring anything about, so nothing is waited for.
        """
        ...


class Handle(Protocol):
    """Given to every plugin as `self.handle`."""

    @property
    def snapshot(self) -> Snapshot: ...
    @property
    def listers(self) -> Listers: ...
    @property
    def devices(self) -> Devices: ...
    @property
    def client(self) -> Client | None: ...
    @property
    def logger(self) -> logging.Logger: ...
    def now(self) -> float:
        """The scheduler's clock, in seconds since the epoch; virtual in simulations and tests."""
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]: ...
    def waiting_pod(self, uid: str) -> WaitingPod | None: ...
    def reject_waiting_pod(self, uid: str) -> bool: ...
    def nominated_pods(self, node_name: str) -> Sequence[PodInfo]: ...
    def random_below(self, n: int) -> int:
        """A random index from the scheduler's seeded generator."""
        ...

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pending pods to the active queue at once, without waiting for their backoff."""
        ...

    def emit_event(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        """Emit a Kubernetes event about a pod; `event_type` is "Normal" or "Warning"."""
        ...

    def parallelize(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Run blocking work for each item on up to `parallelism` threads; results in the items' order."""
        ...
