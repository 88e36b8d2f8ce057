"""Lines of the node table for extended resources: only for what nodes offer, and counted correctly whenever
they come and go."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.meta import KubeObject
from mooring.state import table
from mooring.state.cluster import ClusterState
from tests.state.objects import node, pod

NAMES = [f"example.com/r{i}" for i in range(4)]
amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3).map(str), max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 2), amounts),
        st.tuples(st.just("pod"), st.integers(0, 5), amounts),
        st.tuples(st.sampled_from(["no node", "no pod"]), st.integers(0, 5), st.just({})),
    ),
    max_size=25,
)


def test_requests_of_pods_take_no_lines() -> None:
    cluster = ClusterState()
    cluster.add_node(node("n0"))
    many = {f"example.com/r{i}": "1" for i in range(1000)}
    cluster.add_pod(cluster.info(pod("p", many, on="n0")))
    assert len(cluster.table.resources) == 3
    cluster.update_node(node("n0", {"cpu": "4", "example.com/r7": "2"}))
    assert cluster.nodes[0].free["example.com/r7"] == 1
    assert len(cluster.table.resources) == 4


def test_lines_of_resources_that_no_node_offers_any_more_are_dropped() -> None:
    cluster = ClusterState()
    cluster.add_node(node("n0"))
    for i in range(1000):
        cluster.update_node(node("n0", {"cpu": "4", f"example.com/r{i}": "2"}))
        assert cluster.nodes[0].allocatable == {"cpu": 4000, f"example.com/r{i}": 2}
    assert len(cluster.table.resources) <= 3 + 2 + table.SPARE_RESOURCES


@settings(max_examples=80, deadline=None)
@given(steps, st.sampled_from([0, 64]))
def test_amounts_are_those_of_the_objects(history: list[tuple[str, int, dict[str, str]]], spare: int) -> None:
    cluster = ClusterState()
    before, table.SPARE_RESOURCES = table.SPARE_RESOURCES, spare
    try:
        for what, number, resources in history:
            apply(cluster, what, number, resources)
            check(cluster)
    finally:
        table.SPARE_RESOURCES = before


def apply(cluster: ClusterState, what: str, number: int, resources: dict[str, str]) -> None:
    name = f"n{number % 3}"
    if what == "node":
        made: KubeObject = node(name, {"cpu": "4", **resources})
        (cluster.add_node if cluster.node(name) is None else cluster.update_node)(made)  # type: ignore[arg-type]
    elif what == "no node" and cluster.node(name) is not None:
        cluster.remove_node(name)
    elif what == "pod" and cluster.placed(f"p{number}") is None:
        cluster.add_pod(cluster.info(pod(f"p{number}", resources, on=name, uid=f"p{number}")))
    elif what == "no pod":
        cluster.remove_pod(f"p{number}")


def check(cluster: ClusterState) -> None:
    nodes = cluster.nodes
    offered = {name for row in nodes for name in row.node.status.allocatable if name in NAMES}
    for i, row in enumerate(nodes):
        for name in offered:
            has = int(row.node.status.allocatable.get(name, 0))
            taken = sum(each.shape.used[name] for each in row.pods)
            assert (row.allocatable[name], row.requested[name], row.free[name]) == (has, taken, has - taken)
            columns = (nodes.allocatable[name], nodes.requested[name], nodes.free[name])
            assert [column.item(i) for column in columns] == [has, taken, has - taken]
