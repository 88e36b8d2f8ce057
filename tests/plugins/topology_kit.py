"""A small cluster in the real node table, and one plugin asked about it as the framework would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from mooring.api.meta import LabelSelector, ObjectMeta
from mooring.api.objects import (
    Affinity,
    Node,
    NodeSpec,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    Taint,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from mooring.api.workloads import Namespace, Service, ServiceSpec
from mooring.framework.args import Args
from mooring.framework.handle import Handle
from mooring.framework.nodes import Verdicts
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import SKIP, SKIP_SHAPE
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.engine_state import EngineState
from mooring.runtime.groups import Groups, scores_groups
from mooring.state.cluster import ClusterState
from mooring.state.store import ObjectStore
from tests.strategies import among, up_to

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

P = TypeVar("P", bound=Plugin)
Refusals = dict[str, tuple[str, str]]


def app(name: str) -> LabelSelector:
    return LabelSelector(match_labels={"app": name})


def make_pod(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    on: str = "",
    nominated: str = "",
    deleted: bool = False,
    uid: str = "",
    **spec: Any,
) -> Pod:
    meta = ObjectMeta(
        name=name, namespace=namespace, uid=uid or f"{namespace}/{name}", labels=dict(labels or {})
    )
    meta.deletion_timestamp = "2030-01-01T00:00:00Z" if deleted else None
    return Pod(
        metadata=meta,
        spec=PodSpec(node_name=on, **spec),
        status=PodStatus(nominated_node_name=nominated),
    )


def make_node(name: str, labels: Mapping[str, str] | None = None, taints: Sequence[Taint] = ()) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels={HOSTNAME: name} if labels is None else dict(labels)),
        spec=NodeSpec(taints=list(taints)),
    )


def _skips(answer: object) -> bool:
    assert answer is None or answer in (SKIP, SKIP_SHAPE)
    return answer is not None


class Bench(Generic[P]):
    """One plugin on a cluster. Pods of one shape share a memory, as they do in a profile."""

    def __init__(self, plugin: type[P], args: Args) -> None:
        self.cluster = ClusterState()
        self.objects = ObjectStore()
        handle = SimpleNamespace(listers=self.objects, snapshot=self.cluster)
        self.plugin = plugin(args, cast(Handle, handle))
        self.memories: dict[Shape, dict[Any, Any]] = {}

    # ---- the cluster

    def add(self, *objects: Node | Pod | Namespace | Service | Any) -> None:
        for each in objects:
            if isinstance(each, Node):
                self.cluster.add_node(each)
            elif isinstance(each, Pod):
                self.cluster.add_pod(self.cluster.info(each))
            else:
                self.objects.put(each)

    def info(self, pod: Pod) -> PodInfo:
        return self.cluster.info(pod)

    # ---- the plugin

    def state(self, pod: PodInfo, reuse: bool = True) -> EngineState:
        return EngineState(self.memories.setdefault(pod.shape, {}) if reuse else {})

    def verdicts(self, pod: Pod, *, reuse: bool = True, nodes: EngineNodes | None = None) -> Verdicts | None:
        """What pre_filter and filter_nodes say; None where the plugin skips."""
        info = self.info(pod)
        state = self.state(info, reuse)
        if _skips(self.plugin.pre_filter(state, info, self.cluster.nodes)):
            return None
        found = self.plugin.filter_nodes(state, info, nodes if nodes is not None else self.cluster.nodes)
        assert found is not None
        return found

    def refusals(self, pod: Pod, *, reuse: bool = True, nodes: EngineNodes | None = None) -> Refusals | None:
        """The refused nodes with code and message; None where the plugin skips."""
        verdicts = self.verdicts(pod, reuse=reuse, nodes=nodes)
        if verdicts is None:
            return None
        names = (nodes if nodes is not None else self.cluster.nodes).names
        statuses = {name: verdicts.statuses[c] for name, c in zip(names, verdicts.codes, strict=True) if c}
        return {name: (status.code.text, status.message) for name, status in statuses.items()}

    def scores(
        self, pod: Pod, feasible: Sequence[str] | None = None, *, reuse: bool = True
    ) -> tuple[list[int], list[int]] | None:
        """Raw and normalised scores of the feasible nodes; None where the plugin skips."""
        info = self.info(pod)
        state = self.state(info, reuse)
        nodes: EngineNodes = self.cluster.nodes
        if feasible is not None:
            nodes = nodes.take(np.array([nodes.index(name) for name in feasible], np.intp))
        if _skips(self.plugin.pre_score(state, info, nodes)):
            return None
        raw = self.plugin.score_nodes(state, info, nodes)
        found = raw.tolist(), self.plugin.normalize_score(state, info, raw, nodes).tolist()
        if scores_groups(type(self.plugin)):
            groups: Groups = self.plugin.score_groups(state, info, nodes)  # type: ignore[attr-defined]
            of = groups.of[nodes.rows]
            assert (groups.raw[of].tolist(), groups.scores[of].tolist()) == found
        return found

    def supposing(
        self, node: str, removed: Sequence[PodInfo] = (), added: Sequence[PodInfo] = ()
    ) -> EngineNodes:
        """The node with some of its pods gone and other pods there."""
        return self.supposing_each({node: (removed, added)})

    def supposing_each(
        self, changes: Mapping[str, tuple[Sequence[PodInfo], Sequence[PodInfo]]]
    ) -> EngineNodes:
        rows = np.array([self.cluster.table.row_of[name] for name in changes], np.intp)
        removable = [removed for removed, _ in changes.values()]
        addable = [added for _, added in changes.values()]
        view = self.cluster.nodes.what_if(rows, removable, addable)
        for j in range(view.present.shape[1]):
            there = np.array([j < len(removed) for removed in removable])
            view.set_present(j, there, False)
            view.set_present(j, ~there, True)
        return view


# ---- random clusters and pods ---------------------------------------------------------------------

# Few different values, so that what is drawn often has to do with each other.

NODE_NAMES = [f"n{i}" for i in range(6)]
NAMESPACES = ["default", "default", "other"]
labels = st.sampled_from([{"app": "web"}, {"app": "web", "track": "canary"}, {"app": "db"}, {}])
selectors = st.sampled_from([app("web"), app("web"), app("db"), LabelSelector(), None])
taints = st.sampled_from([[], [], [Taint(key="dedicated", effect="NoSchedule")]])


@st.composite
def nodes(draw: st.DrawFn, name: str | None = None) -> Node:
    chosen = name or draw(among(*NODE_NAMES))
    topology = {}
    if draw(up_to(5)) < 5:
        topology[HOSTNAME] = chosen
    if draw(up_to(5)) < 5:
        topology[ZONE] = draw(among("a", "b", "c", ""))
    return make_node(chosen, topology, draw(taints))


constraints = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 3),
    topology_key=st.sampled_from([HOSTNAME, ZONE]),
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    label_selector=selectors,
    min_domains=st.sampled_from([None, None, 2, 4]),
    node_affinity_policy=st.sampled_from([None, "Honor", "Ignore"]),
    node_taints_policy=st.sampled_from([None, "Honor", "Ignore"]),
    match_label_keys=st.lists(st.just("track"), max_size=1),
)

terms = st.builds(
    PodAffinityTerm,
    topology_key=st.sampled_from([HOSTNAME, ZONE]),
    label_selector=selectors,
    namespaces=st.sampled_from([[], [], ["other"]]),
    namespace_selector=st.sampled_from(
        [None, None, LabelSelector(), LabelSelector(match_labels={"team": "x"})]
    ),
)
affinities = st.builds(
    PodAffinity,
    required=st.lists(terms, max_size=2),
    preferred=st.lists(
        st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 5), pod_affinity_term=terms), max_size=2
    ),
)
node_selectors = st.sampled_from([None, None, {ZONE: "a"}])
spread_specs = st.fixed_dictionaries(
    {
        "topology_spread_constraints": st.lists(constraints, max_size=3),
        "node_selector": node_selectors,
    }
)
affinity_specs = st.fixed_dictionaries(
    {
        "affinity": st.builds(
            Affinity,
            pod_affinity=st.one_of(st.none(), affinities),
            pod_anti_affinity=st.one_of(st.none(), affinities),
        )
    }
)


@st.composite
def pods(draw: st.DrawFn, specs: st.SearchStrategy[dict[str, Any]], name: str = "p") -> Pod:
    return make_pod(
        name,
        draw(labels),
        namespace=draw(among(*NAMESPACES)),
        deleted=draw(up_to(9)) == 9,
        **draw(specs),
    )


def moved(pod: Pod, node: str, number: int) -> Pod:
    """A replica of a pod, on a node."""
    meta = pod.metadata
    spec = {field: getattr(pod.spec, field) for field in ("affinity", "topology_spread_constraints")}
    return make_pod(
        f"{node}-{number}",
        meta.labels,
        namespace=meta.namespace,
        on=node,
        deleted=meta.deletion_timestamp is not None,
        **spec,
    )


@st.composite
def events(draw: st.DrawFn, specs: st.SearchStrategy[dict[str, Any]]) -> Any:
    """Something that happens to a cluster: a Node or an object comes or changes, a pod comes, one goes."""
    kind = draw(among("node", "gone", "pod", "pod", "pod", "delete", "namespace", "service"))
    if kind == "node":
        return draw(nodes())
    if kind == "pod":
        return moved(draw(pods(specs)), draw(among(*NODE_NAMES)), draw(up_to(10**6)))
    if kind == "namespace":
        return Namespace(
            metadata=ObjectMeta(
                name=draw(among(*NAMESPACES)), labels=draw(st.sampled_from([{}, {"team": "x"}]))
            )
        )
    if kind == "service":
        meta = ObjectMeta(name="s", namespace=draw(among(*NAMESPACES)))
        return Service(metadata=meta, spec=ServiceSpec(selector=draw(labels)))
    return kind, draw(up_to(10**6))


def happen(bench: Bench[Any], event: Any) -> None:
    if not isinstance(event, tuple):
        bench.add(event)
        return
    kind, number = event
    if kind == "gone" and len(bench.cluster.table) > 1:
        bench.cluster.remove_node(bench.cluster.table.names[number % len(bench.cluster.table)])
    there = sorted(pod.uid for pod in bench.cluster.pods())
    if kind == "delete" and there:
        bench.cluster.remove_pod(there[number % len(there)])


# ---- what must always hold ------------------------------------------------------------------------


class History(NamedTuple):
    """A cluster, the pods that are asked about again and again, and what happens in between.

    The number with each event tells which nodes are feasible, bit by bit.
    """

    nodes: list[Node]
    asking: list[Pod]
    happening: list[tuple[Any, int]]


def histories(specs: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[History]:
    return st.builds(
        History,
        st.lists(nodes(), min_size=1, max_size=5),
        st.lists(pods(specs, "new"), min_size=1, max_size=2),
        st.lists(st.tuples(events(specs), st.integers(1, 63)), max_size=12),
    )


def check_reuse(bench: Bench[Any], history: History) -> None:
    """A memory that lives on gives what a fresh one gives."""
    bench.add(*history.nodes)
    for event, chosen in history.happening:
        happen(bench, event)
        names = [name for i, name in enumerate(bench.cluster.table.names) if chosen >> i & 1]
        feasible = names if 0 < len(names) < len(bench.cluster.table) else None
        for pod in history.asking:
            assert bench.refusals(pod) == bench.refusals(pod, reuse=False)
            assert bench.scores(pod, feasible) == bench.scores(pod, feasible, reuse=False)


def check_supposing(
    bench: Bench[Any], pod: Pod, data: st.DataObject, specs: st.SearchStrategy[dict[str, Any]]
) -> None:
    """A change that is supposed gives what the same change gives when it is made."""
    name = data.draw(st.sampled_from(sorted(bench.cluster.table.names)))
    replicas = data.draw(st.lists(st.tuples(pods(specs), st.sampled_from([name, *NODE_NAMES])), max_size=8))
    running = [(p, on) for p, on in replicas if p.metadata.deletion_timestamp is None]
    placed = [bench.info(moved(p, on, i)) for i, (p, on) in enumerate(running)]
    for info in placed:
        bench.cluster.add_pod(info)
    removed = [info for info in placed if info.node_name == name and data.draw(st.booleans())]
    extra = data.draw(st.lists(pods(specs), max_size=3))
    added = [bench.info(moved(p, name, -i)) for i, p in enumerate(extra, 1) if not p.terminating]
    assume(bench.refusals(pod) is not None)
    supposed = bench.refusals(pod, nodes=bench.supposing(name, removed, added)) or {}
    # What is supposed about other nodes at the same time makes no difference.
    changes: dict[str, tuple[list[PodInfo], list[PodInfo]]] = {
        on: ([info for info in placed if info.node_name == on], []) for on in bench.cluster.table.names
    }
    together = bench.refusals(pod, nodes=bench.supposing_each({**changes, name: (removed, added)})) or {}
    assert supposed.get(name) == together.get(name)
    for info in removed:
        bench.cluster.remove_pod(info.uid)
    for info in added:
        bench.cluster.add_pod(info)
    made = bench.refusals(pod, reuse=False) or {}
    assert supposed.get(name) == made.get(name)
