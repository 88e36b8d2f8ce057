"""The plugin contract: subclass Plugin, give it a name, override the extension points it takes part in."""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple

from mooring.api.kinds import ApiResource
from mooring.framework.args import Args
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState
from mooring.framework.events import EventHint
from mooring.framework.extension_points import EXTENSION_POINTS
from mooring.framework.handle import Handle, WaitingPod
from mooring.framework.nodes import IntArray, NodeInfo, Nodes, Verdicts
from mooring.framework.placements import Placement, PlacementPlan, PodGroupInfo
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # part of every type checker, so not a dependency

    PluginArgs = TypeVar("PluginArgs", bound=Args, default=Any)
else:
    PluginArgs = typing.TypeVar("PluginArgs", bound=Args)


class QueuedPod(typing.Protocol):
    """A pod in the scheduling queue, as queue sort plugins compare it."""

    @property
    def pod(self) -> PodInfo: ...
    @property
    def timestamp(self) -> float: ...
    @property
    def attempts(self) -> int: ...


class PreFilterResult(NamedTuple):
    """The only nodes that are candidates for the pod."""

    node_names: frozenset[str]


class PostFilterResult(NamedTuple):
    """What a post_filter plugin did to make the pod fit later.

    `nominated_node`: a node name nominates, "" clears the nomination, None leaves it as it is.
    """

    nominated_node: str | None = None
    status: Status | None = None
    victims: tuple[PodInfo, ...] = ()  # pods to evict from the nominated node
    detail: Any = None  # for explanations: any details about the decision


class Plugin(Generic[PluginArgs]):
    """Base class of all plugins. Override the methods of the extension points that the plugin implements.

    Scheduling-cycle methods are plain functions; pre_bind, bind and post_bind may be `async def`. Return None
    for success, or a Status. An exception fails the attempt with an error that names the plugin; other pods
    are not affected.
    """

    name: ClassVar[str]
    cache_key: ClassVar[CacheKey] = CacheKey.NONE
    watches: ClassVar[tuple[ApiResource[Any], ...]] = ()
    """Custom resources to watch, for `handle.listers`, in addition to the kinds that every scheduler
    watches."""

    # Derived from the overridden methods and from the base class: Plugin[MyArgs].
    extension_points: ClassVar[frozenset[str]] = frozenset()
    args_type: ClassVar[type[Args] | None] = None

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.extension_points = frozenset(
            point.name
            for point in EXTENSION_POINTS.values()
            if any(overrides(cls, method) for method in point.methods)
        )
        for base in vars(cls).get("__orig_bases__", ()):  # Plugin[MyArgs], or a generic subclass of it
            for parameter in typing.get_args(base):
                if isinstance(parameter, type) and issubclass(parameter, Args):
                    cls.args_type = parameter

    # ---- queue

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Decide whether the pod may enter the active queue. A rejected pod stays out until an event of
        this plugin."""
        raise NotImplementedError

    def sorts_before(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Return whether `a` is scheduled before `b` (queue sort)."""
        raise NotImplementedError

    def events_to_register(self) -> Iterable[EventHint]:
        """Return the events that may make a pod schedulable that this plugin rejected."""
        raise NotImplementedError

    # ---- scheduling cycle

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        """Check the pod once, before any node. Skip disables this plugin's filter for the cycle."""
        raise NotImplementedError

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        """Update what pre_filter wrote, as if `added` ran on `node` (pre_filter_extensions)."""
        raise NotImplementedError

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        """Update what pre_filter wrote, as if `removed` did not run on `node` (pre_filter_extensions)."""
        raise NotImplementedError

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Decide whether the pod can run on the node."""
        raise NotImplementedError

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        """Decide for many nodes at once whether the pod can run on them; None means that all pass."""
        raise NotImplementedError

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> PostFilterResult | Status | None:
        """Make room for a pod that fits on no node, for example by preemption."""
        raise NotImplementedError

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Prepare scoring of the feasible nodes. Skip disables this plugin's score for the cycle."""
        raise NotImplementedError

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate the node from 0 to 100, or with any integer if there is a normalize_score."""
        raise NotImplementedError

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """Rate many nodes at once, with one score per row."""
        raise NotImplementedError

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        """Map the scores of the feasible nodes to 0 to 100."""
        raise NotImplementedError

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Reserve what the pod needs on the chosen node."""
        raise NotImplementedError

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Revert `reserve`. Called on every reserve plugin when a later step fails, even if its `reserve`
        was not called, so it must be idempotent."""
        raise NotImplementedError

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Approve the binding (None), deny it (a rejection), or delay it: `wait(timeout)`."""
        raise NotImplementedError

    def while_waiting(self, waiting: WaitingPod, old: Any, new: Any) -> None:
        """Observe an event while this plugin's `permit` delays a pod: allow or reject the pod, or do nothing.

        Called for each delayed pod and each event of `events_to_register`. `old` and `new` are the object
        before and after the event, as a queueing hint receives them: a PodInfo or another object, None if it
        was created or deleted. If the delayed pod itself changed, `new.uid` is `waiting.pod.uid`;
        `waiting.pod` is the pod as it was when `permit` was called.
        """
        raise NotImplementedError

    # ---- group cycle

    def generate_placements(self, group: PodGroupInfo, nodes: Nodes) -> Sequence[Placement] | Status:
        """Return the sets of nodes among which the group is tried; at most one plugin of a profile does."""
        raise NotImplementedError

    def score_placement(self, group: PodGroupInfo, plan: PlacementPlan) -> int:
        """Rate a placement from 0 to 100, or with any integer if there is a normalize_placement_scores."""
        raise NotImplementedError

    def normalize_placement_scores(self, group: PodGroupInfo, scores: Sequence[int]) -> Sequence[int]:
        """Map the scores of the placements to 0 to 100."""
        raise NotImplementedError

    # ---- binding cycle

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | Awaitable[Status | None] | None:
        """Prepare the binding, for example by provisioning a volume."""
        raise NotImplementedError

    def bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | Awaitable[Status | None] | None:
        """Bind the pod, or Skip to leave it to the next bind plugin."""
        raise NotImplementedError

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        """Clean up or record, after the pod is bound."""
        raise NotImplementedError


def overrides(cls: type[Plugin], method: str) -> bool:
    """Return whether a plugin class overrides a method of the contract."""
    return getattr(cls, method) is not getattr(Plugin, method)
