"""Lines of the node table for scalar resources: only for some that nodes offer; the others count as well."""

from __future__ import annotations

from mooring.api.objects import Node
from mooring.state.cluster import ClusterState
from tests.state.objects import node, pod
from tests.state.test_cluster import rows

GPU = "example.com/gpu"


def offering(name: str, *resources: str) -> Node:
    return node(name, {"cpu": "4", **dict.fromkeys(resources, "2")})


def lines(cluster: ClusterState) -> list[str]:
    return list(cluster.table.resources[3:])


def test_requests_of_pods_take_no_lines() -> None:
    cluster = ClusterState()
    cluster.add_node(node("n0"))
    many = {f"example.com/r{i}": "1" for i in range(1000)}
    cluster.add_pod(cluster.info(pod("p", many, on="n0")))
    assert not lines(cluster)
    cluster.update_node(offering("n0", "example.com/r7"))
    assert lines(cluster) == ["example.com/r7"]
    assert cluster.nodes[0].free["example.com/r7"] == 1
    assert cluster.nodes[0].free["example.com/r8"] == -1
    assert cluster.nodes.requested["example.com/r8"].tolist() == [1]


def test_what_one_node_offers_fills_the_lines_once() -> None:
    cluster = ClusterState()
    cluster.add_node(node("n0"))
    for i in range(100):
        names = [f"example.com/r{i}-{j}" for j in range(10)]
        mark = cluster.nodes.mark
        cluster.update_node(offering("n0", *names))
        assert cluster.nodes[0].allocatable == {"cpu": 4000, **dict.fromkeys(names, 2)}
        assert len(lines(cluster)) == min(10 * (i + 1), 64)
        if i > 6:  # and it makes nothing to be computed again but for this node
            assert cluster.nodes.changed_since(mark) == (rows(0), rows())


def test_a_resource_that_many_nodes_offer_gets_a_line_of_one_that_few_do() -> None:
    cluster = ClusterState()
    cluster.add_node(offering("odd", *(f"example.com/r{i}" for i in range(1000))))
    cluster.add_pod(cluster.info(pod("p", {"example.com/r0": "1", GPU: "1"}, on="odd")))
    for i in range(5):
        cluster.add_node(offering(f"n{i}", GPU))
    assert GPU in lines(cluster)
    assert len(lines(cluster)) == 64
    odd = cluster.nodes[0]
    assert (odd.free["example.com/r0"], odd.free["example.com/r999"], odd.free[GPU]) == (1, 2, -1)
    assert cluster.nodes.free[GPU].tolist() == [-1, 2, 2, 2, 2, 2]
    cluster.remove_pod("p")
    cluster.remove_node("odd")
    assert not cluster.nodes[0].sparse
    assert cluster.nodes.free["example.com/r999"].tolist() == [0] * 5


def test_what_overflows_in_a_line_is_forgotten_without_one() -> None:
    cluster = ClusterState()
    cluster.add_node(offering("odd", *(f"example.com/r{i}" for i in range(64))))
    for name in ("p", "q"):
        cluster.add_pod(cluster.info(pod(name, {"example.com/r63": str(2**63 - 1)}, on="odd")))
    assert cluster.nodes[0].requested["example.com/r63"] == -2
    for i in range(5):
        cluster.add_node(offering(f"n{i}", GPU))
    assert "example.com/r63" not in lines(cluster)
    for name in ("p", "q"):
        cluster.remove_pod(name)
    assert cluster.nodes[0].sparse["example.com/r63"] == (2, 0)
