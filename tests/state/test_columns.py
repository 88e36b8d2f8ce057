"""The columns are kept up to date change by change; they must say what a table made afresh would say."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from mooring.api.objects import ContainerStatus, Node, Pod, ResourceRequirements
from mooring.framework.pod import PodInfo, Shape
from mooring.runtime.engine_nodes import DomainSums, Mark
from mooring.state.cluster import ClusterState
from tests.state.facts import KEYS, PREDICATES, domains, facts, read_domains, whole
from tests.state.objects import node as make_node
from tests.state.objects import pod as make_pod
from tests.strategies import GPU, NODE_NAMES, examples, labels, nodes, templates

NAMES = st.sampled_from([*NODE_NAMES, "unknown"])
NUMBERS = st.integers(0, 30)
ELIGIBLE = [None, frozenset(NODE_NAMES[::2]), frozenset(NODE_NAMES[1:4])]
_PODS_PART = ("requested", "free", "visible", "pod count", "nonzero requested", "counts")
_NODE_PART = ("allocatable", "node", "allowed pods", "unschedulable", "taints", "features", "labels")


def visible(pods: dict[str, Pod]) -> dict[str, Any]:
    """What a plugin may look at of the pods on a node, if it is to be asked again only when they change."""
    return {uid: (Shape.key_of(pod), pod.terminating, pod.status.start_time) for uid, pod in pods.items()}


class Columns(RuleBasedStateMachine):
    """Random changes to a cluster, with the surviving objects beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = ClusterState()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[Pod, str, bool]] = {}  # uid → pod, node, whether assumed
        self.born = 0
        self.mark: Mark | None = None
        self.before: list[tuple[str, dict[str, Any]]] = []
        self.version = 0
        self.sums: dict[tuple[int, str, int], DomainSums] = {}

    @initialize(
        counters=st.sampled_from([3, 4096]),
        spare=st.sampled_from([0, 256]),
        lines=st.sampled_from([0, 1, 64]),
    )
    def limit(self, counters: int, spare: int, lines: int) -> None:
        """Counters that are dropped and created again make no difference, nor resources without lines."""
        mine = self.cluster.table.counters
        mine.LIMIT, mine.SPARE, mine._drop_at = counters, spare, min(counters, spare)
        self.cluster.table.MOST_LINES = lines

    # ---- nodes

    @rule(fields=nodes(), update=st.booleans())
    def put_node(self, fields: dict[str, Any], update: bool) -> None:
        node = make_node(**fields)
        known = self.nodes.get(node.name)
        if update and known is not None:
            changed = self.cluster.update_node(node)
            assert changed or facts(self.cluster.nodes)[node.name]["node"] == node
        else:
            self.cluster.add_node(node)
        self.nodes[node.name] = node

    @rule(name=NAMES)
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    # ---- pods

    @rule(template=templates(), name=NAMES, assumed=st.booleans())
    def put_pod(self, template: dict[str, Any], name: str, assumed: bool) -> None:
        self.born += 1
        pod = make_pod(f"p{self.born}", **template)
        if assumed:
            self.cluster.assume(self.cluster.info(pod).placed_on(name), name)
        else:
            pod = replace(pod, spec=replace(pod.spec, node_name=name))
            self.cluster.add_pod(self.cluster.info(pod))
        self.pods[pod.uid] = (pod, name, assumed)

    def chosen(self, number: int) -> str:
        return list(self.pods)[number % len(self.pods)]

    @precondition(lambda self: self.pods)
    @rule(number=NUMBERS)
    def forget(self, number: int) -> None:
        uid = self.chosen(number)
        self.cluster.forget(uid)
        if self.pods[uid][2]:
            del self.pods[uid]

    @precondition(lambda self: self.pods)
    @rule(number=NUMBERS)
    def remove_pod(self, number: int) -> None:
        uid = self.chosen(number)
        del self.pods[uid]
        self.cluster.remove_pod(uid)

    @precondition(lambda self: self.pods)
    @rule(number=NUMBERS, elsewhere=st.none() | NAMES)
    def confirm(self, number: int, elsewhere: str | None) -> None:
        """The API server says where a pod is, which may not be where it was assumed."""
        uid = self.chosen(number)
        pod, name, _ = self.pods[uid]
        self._update(pod, elsewhere or name)

    @precondition(lambda self: self.pods)
    @rule(number=NUMBERS, labels=labels)
    def relabel(self, number: int, labels: dict[str, str]) -> None:
        pod, name, _ = self.pods[self.chosen(number)]
        self._update(replace(pod, metadata=replace(pod.metadata, labels=labels)), name)

    @precondition(lambda self: self.pods)
    @rule(number=NUMBERS)
    def terminate(self, number: int) -> None:
        pod, name, _ = self.pods[self.chosen(number)]
        meta = replace(pod.metadata, deletion_timestamp="2030-01-01T00:00:00Z")
        self._update(replace(pod, metadata=meta), name)

    @precondition(lambda self: self.pods)
    @rule(number=NUMBERS, resource=st.sampled_from(["cpu", "memory", GPU]), amount=st.integers(0, 5))
    def resize(self, number: int, resource: str, amount: int) -> None:
        pod, name, _ = self.pods[self.chosen(number)]
        given = ResourceRequirements(requests={resource: amount})
        statuses = [ContainerStatus(name="main", resources=given)]
        self._update(replace(pod, status=replace(pod.status, container_statuses=statuses)), name)

    @precondition(lambda self: self.pods)
    @rule(number=NUMBERS, minute=st.integers(0, 3))
    def start(self, number: int, minute: int) -> None:
        pod, name, _ = self.pods[self.chosen(number)]
        started = f"2029-01-01T00:0{minute}:00Z"
        self._update(replace(pod, status=replace(pod.status, start_time=started)), name)

    def _update(self, pod: Pod, name: str) -> None:
        pod = replace(pod, spec=replace(pod.spec, node_name=name))
        self.cluster.update_pod(self.cluster.info(pod))
        self.pods[pod.uid] = (pod, name, False)

    # ---- what must hold after each change

    def afresh(self) -> ClusterState:
        cluster = ClusterState()
        for node in self.nodes.values():
            cluster.add_node(node)
        for pod, name, assumed in self.pods.values():
            info: PodInfo = cluster.info(pod)
            if assumed:
                cluster.assume(info.placed_on(name), name)
            else:
                cluster.add_pod(info)
        return cluster

    @invariant()
    def columns_are_as_if_made_afresh(self) -> None:
        fresh = self.afresh()
        assert whole(self.cluster) == whole(fresh)
        assert set(fresh.table.carried_terms) <= set(self.cluster.table.carried_terms)
        for i, predicate in enumerate(PREDICATES):
            key, eligible = KEYS[i % len(KEYS)], ELIGIBLE[i % len(ELIGIBLE)]
            expected = domains(fresh.nodes, predicate, key, eligible)
            assert domains(self.cluster.nodes, predicate, key, eligible) == expected

    @invariant()
    def running_sums_stay_right(self) -> None:
        """Sums that plugins hold are refreshed, until the nodes change."""
        view = self.cluster.nodes
        if view.node_version != self.version:
            self.version = view.node_version
            self.sums.clear()
        for i, predicate in enumerate(PREDICATES):
            key, eligible = KEYS[(i + 1) % len(KEYS)], ELIGIBLE[i % len(ELIGIBLE)]
            mask = None if eligible is None else np.array([n in eligible for n in view.names], np.bool_)
            held = self.sums.get((i, key, 0))
            if held is None:
                self.sums[i, key, 0] = view.domain_sums(predicate, key, mask)
                continue
            before = read_domains(view, key, held)
            changed = held.refresh()
            now = read_domains(view, key, held)
            assert now == domains(view, predicate, key, eligible)
            assert changed or now == before

    @invariant()
    def no_change_goes_unnoticed(self) -> None:
        view = self.cluster.nodes
        by_name = facts(view)
        now = [(name, {**by_name[name], "visible": visible(by_name[name]["pods"])}) for name in view.names]
        if self.mark is not None:
            of_nodes, of_pods = view.changed_since(self.mark)
            if of_nodes is None or of_pods is None:  # other resources have lines now
                of_nodes = of_pods = array("q", range(len(now)))
            for row, (name, told) in enumerate(now):
                old = self.before[row] if row < len(self.before) else None
                if old is None or old[0] != name or any(old[1][f] != told[f] for f in _NODE_PART):
                    assert row in of_nodes
                elif any(old[1][field] != told[field] for field in _PODS_PART):
                    assert row in (of_pods if old[1]["node"] is told["node"] else of_pods + of_nodes)
        self.mark, self.before = view.mark, now


TestColumns = Columns.TestCase
TestColumns.settings = examples(40)
