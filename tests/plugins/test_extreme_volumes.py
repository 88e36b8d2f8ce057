"""Extreme sizes and limits of volumes: the table and each row alone say what plain integers say."""

from __future__ import annotations

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mooring.plugins.node_volume_limits.node_volume_limits import NodeVolumeLimits
from mooring.plugins.volume_binding.volume_binding import VolumeBinding
from tests.plugins.plugin_kit import make_node, make_pod
from tests.plugins.test_volume_binding import driver
from tests.plugins.volume_kit import (
    HOST,
    VolumeCluster,
    capacity,
    claim,
    csi_node,
    csi_volume,
    storage_class,
    using,
    volume,
)

LARGEST = 2**63 - 1
DRIVER = "csi.example.com"
sizes = st.sampled_from([0, 1, 2**31, 2**53, 2**53 + 1, LARGEST - 1, LARGEST, LARGEST + 1, 10**20])
limits = st.none() | st.sampled_from([-(2**31), -1, 0, 1, 2, 2**31 - 1])
quickly = settings(max_examples=30, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])


def held(size: int) -> int:
    """A quantity as an int64."""
    return min(size, LARGEST)


@quickly
@given(sizes, st.lists(sizes, min_size=1, max_size=4))
def test_volumes_are_compared_by_their_exact_size(requested: int, offered: list[int]) -> None:
    nodes = [make_node(f"n{i}", labels={HOST: f"n{i}"}) for i in range(len(offered))]
    volumes = [volume(f"v{i}", str(size), on={HOST: [f"n{i}"]}) for i, size in enumerate(offered)]
    classes = storage_class("wait", "kubernetes.io/no-provisioner")
    cluster = VolumeCluster(nodes, classes, claim("c", str(requested)), *volumes)
    answer = cluster.filter(cluster.plugin(VolumeBinding), make_pod(volumes=using("c")))
    assert [answer[f"n{i}"] is None for i in range(len(offered))] == [size >= requested for size in offered]


@quickly
@given(sizes, st.lists(st.tuples(sizes, st.none() | sizes), min_size=1, max_size=4))
def test_room_is_compared_as_int64(requested: int, offered: list[tuple[int, int | None]]) -> None:
    nodes = [make_node(f"n{i}", labels={HOST: f"n{i}"}) for i in range(len(offered))]
    reports = [
        capacity(
            f"r{i}",
            capacity=str(room),
            nodeTopology={"matchLabels": {HOST: f"n{i}"}},
            **({} if largest is None else {"maximumVolumeSize": str(largest)}),
        )
        for i, (room, largest) in enumerate(offered)
    ]
    objects = (storage_class("wait"), driver(), claim("c", str(requested)))
    cluster = VolumeCluster(nodes, *objects, *reports)
    answer = cluster.filter(cluster.plugin(VolumeBinding), make_pod(volumes=using("c")))
    rooms = [room if largest is None else largest for room, largest in offered]
    expected = [held(room) >= held(requested) for room in rooms]
    assert [answer[f"n{i}"] is None for i in range(len(offered))] == expected


@quickly
@given(st.lists(limits, min_size=1, max_size=4), st.integers(0, 2), st.integers(1, 3))
def test_limits_of_any_size(by_node: list[int | None], there: int, more: int) -> None:
    nodes = [make_node(f"n{i}") for i in range(len(by_node))]
    names = [f"c{i}" for i in range(there + more)]
    claims = [claim(name, volume=f"v-{name}") for name in names]
    volumes = [csi_volume(f"v-{name}") for name in names]
    csi_nodes = [csi_node(f"n{i}", {DRIVER: limit}) for i, limit in enumerate(by_node)]
    first = make_pod("first", volumes=using(*names[:there]))
    cluster = VolumeCluster(nodes, *claims, *volumes, *csi_nodes, pods={"n0": [first]})
    answer = cluster.filter(cluster.plugin(NodeVolumeLimits), make_pod(volumes=using(*names[there:])))
    for i, limit in enumerate(by_node):
        count = more + (there if i == 0 else 0)
        assert (answer[f"n{i}"] is None) == (limit is None or count <= limit)
