"""The plugin contract: subclass Plugin, give it a name, override the extension points it takes part in."""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple

from mooring.api.kinds import ApiResource
from mooring.framework.args import Args
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState
from mooring.framework.events import EventHint
from mooring.framework.extension_points import EXTENSION_POINTS
from mooring.framework.handle import Handle
from mooring.framework.nodes import IntArray, NodeInfo, Nodes, Verdicts
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
    """The only nodes that this pod may go to."""

    node_names: frozenset[str]


class PostFilterResult(NamedTuple):
    """What a post_filter plugin changed so that the pod may fit later.

    `nominated_node`: a node name nominates, "" clears the nomination, None leaves it as it is.
    """

    nominated_node: str | None = None
    status: Status | None = None
    victims: tuple[PodInfo, ...] = ()  # pods to evict from the nominated node
    detail: Any = None  # for explanations: whatever the plugin can tell about how it decided


class Plugin(Generic[PluginArgs]):
    """Base of all plugins. A method left alone means: does not take part in that extension point.

    Scheduling-cycle methods are plain functions; pre_bind, bind and post_bind may be `async def`.
    Answer None for success, or a Status. A method that raises makes that attempt an error that names the
    plugin; nothing else suffers.
    """

    name: ClassVar[str]
    cache_key: ClassVar[CacheKey] = CacheKey.NONE
    watches: ClassVar[tuple[ApiResource[Any], ...]] = ()
    """Kinds to be had of `handle.listers`, beside those that every scheduler watches: custom resources."""

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
        """May the pod enter the queue at all? A refusal keeps it out until an event of this plugin."""
        raise NotImplementedError

    def sorts_before(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Queue sort: whether `a` is to be scheduled before `b`."""
        raise NotImplementedError

    def events_to_register(self) -> Iterable[EventHint]:
        """The events that may make a pod schedulable which this plugin refused."""
        raise NotImplementedError

    # ---- scheduling cycle

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        """Look at the pod once, before any node; Skip leaves this plugin's filter out of the cycle."""
        raise NotImplementedError

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        """Adjust what pre_filter wrote, as if `added` ran on `node` (pre_filter_extensions)."""
        raise NotImplementedError

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        """Adjust what pre_filter wrote, as if `removed` were gone from `node` (pre_filter_extensions)."""
        raise NotImplementedError

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Can the pod run on this node?"""
        raise NotImplementedError

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        """The same question for many nodes at once; None: all pass."""
        raise NotImplementedError

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> PostFilterResult | Status | None:
        """No node passed: can something be done about it?"""
        raise NotImplementedError

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Look at the feasible nodes once; Skip leaves this plugin's score out of the cycle."""
        raise NotImplementedError

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """How good is this node, 0 to 100 (any integer if there is a normalize_score)?"""
        raise NotImplementedError

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """The same for many nodes at once."""
        raise NotImplementedError

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray, nodes: Nodes) -> IntArray:
        """Bring the scores of the feasible nodes into 0..100."""
        raise NotImplementedError

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """The node is chosen: take what the pod will need there."""
        raise NotImplementedError

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give it back; called for every reserve plugin when anything later fails, so it must bear that."""
        raise NotImplementedError

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Approve (None), deny (a refusal), or `wait(timeout)`."""
        raise NotImplementedError

    # ---- binding cycle

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | Awaitable[Status | None] | None:
        """Do what must be done before the pod is bound, such as provisioning a volume."""
        raise NotImplementedError

    def bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | Awaitable[Status | None] | None:
        """Bind the pod, or Skip to leave it to the next bind plugin."""
        raise NotImplementedError

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        """The pod is bound; for clean-up and records."""
        raise NotImplementedError


def overrides(cls: type[Plugin], method: str) -> bool:
    """Whether a plugin class has its own version of a contract method."""
    return getattr(cls, method) is not getattr(Plugin, method)
