"""The Handle as the default plugins use it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from mooring.api.meta import KubeObject
from mooring.framework.cycle_state import CycleState
from mooring.framework.handle import Client, Handle, Listers, Snapshot
from mooring.framework.pod import GroupKey, PodInfo
from mooring.runtime.engine_nodes import EngineNode, EngineNodes
from mooring.runtime.extender import Extender
from mooring.runtime.filtering import Answer
from mooring.runtime.observer import Observer

Obj = TypeVar("Obj", bound=KubeObject)
Obj_co = TypeVar("Obj_co", bound=KubeObject, covariant=True)
Shared = TypeVar("Shared")


class EngineSnapshot(Snapshot, Protocol):
    """The cluster as of this cycle, with the engine's view of the nodes."""

    @property
    def nodes(self) -> EngineNodes: ...
    def node(self, name: str) -> EngineNode | None: ...
    def claim_users(self, claim: str) -> int:
        """Return how many pods on nodes use the PersistentVolumeClaim "namespace/name"."""
        ...

    def has_pods_below(self, priority: int) -> bool:
        """Whether any pod on a node has a lower priority than this."""
        ...


class ObjectChanges(Protocol[Obj_co]):
    """Changes of the objects of one kind."""

    def take(self) -> Sequence[tuple[Obj_co | None, Obj_co | None]]:
        """Return the changes since the last call, oldest first: the object before and after, or None."""
        ...


class EngineListers(Listers, Protocol):
    """The objects that the scheduler watches, and their changes."""

    def changes(self, kind: type[Obj]) -> ObjectChanges[Obj]:
        """Follow the objects of a kind. Existing objects come first, as additions."""
        ...


class EngineGroups(Protocol):
    """The pod groups that have live members."""

    def size(self, group: GroupKey) -> int:
        """Return how many live members a group has."""
        ...

    def group(self, key: GroupKey) -> KubeObject | None:
        """Return the PodGroup, if it exists."""
        ...

    def gated(self, group: GroupKey) -> int:
        """Return how many live members have scheduling gates."""
        ...

    def scheduled(self, group: GroupKey) -> int:
        """Return how many members have a node, those assumed on one included."""
        ...

    def together(self, group: GroupKey) -> Sequence[GroupKey]:
        """Return the groups that start together with this one, itself included."""
        ...

    def missing_templates(self, group: GroupKey) -> Sequence[str]:
        """Return the templates of groups that start together with this one and do not exist yet."""
        ...

    def minimum(self, group: GroupKey) -> int:
        """Return how many members must have a node before any of those that start together."""
        ...

    def pods(self, group: GroupKey) -> Iterable[PodInfo]: ...
    def scheduled_pods(self, group: GroupKey) -> Iterable[PodInfo]: ...
    def last_failure(self, group: GroupKey) -> float | None:
        """Return when the last attempt at a group failed; None where it did not."""
        ...


class EngineHandle(Handle, Protocol):
    """The whole Handle, including the parts that are not in the contract."""

    @property
    def snapshot(self) -> EngineSnapshot: ...
    @property
    def listers(self) -> EngineListers: ...
    @property
    def extenders(self) -> Iterable[Extender]:
        """The configured extenders, in the order in which they are called."""
        ...

    @property
    def observer(self) -> Observer | None:
        """The receiver of events for metrics."""
        ...

    @property
    def profile_name(self) -> str: ...
    def feature_enabled(self, name: str) -> bool:
        """Whether a feature gate is on."""
        ...

    def shared(self, kind: type[Shared], make: Callable[[], Shared]) -> Shared:
        """Return the object of a kind that the plugins of all profiles share; the first to ask makes it."""
        ...

    def write(self, work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        """Have something written to the cluster after this step of the core, which does no I/O itself."""
        ...

    @property
    def groups(self) -> EngineGroups: ...
    def nominated_node(self, uid: str) -> str:
        """Return the node that a pod is nominated to, or ""."""
        ...

    def is_preempting(self, uid: str) -> bool:
        """Whether the victims of this pod's or PodGroup's preemption are still being evicted."""
        ...

    def any_preempting(self) -> bool:
        """Whether victims of any preemption are still being evicted."""
        ...

    def run_filters(
        self, state: CycleState, pod: PodInfo, nodes: EngineNodes, *, about_pods: bool = False
    ) -> Answer:
        """Run the profile's filters on any view of nodes, hypothetical ones included. A filter that fails for
        a node rejects that node with an error.

        `about_pods` leaves out filters that read only the Node object: where a view differs from one that
        passed in its pods alone, they would pass again.
        """
        ...

    def filters_are_local(self, state: CycleState) -> bool:
        """Whether every filter of this cycle reads only the node and its pods."""
        ...
