"""ImageLocality."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.objects import Node, Pod
from mooring.plugins.image_locality import ImageLocality, normalized_image_name
from mooring.runtime.engine_state import EngineState
from tests.plugins.plugin_kit import Cluster, make, make_node, make_pod

MIB = 1024 * 1024


def holding(name: str, **images: int) -> Node:
    """A node with images and their sizes in MiB."""
    listed = [{"names": [f"{image}:latest"], "sizeBytes": size * MIB} for image, size in images.items()]
    return make_node(name, images=listed)


def using(*images: str, **spec: Any) -> Pod:
    containers = [{"name": f"c{i}", "image": image} for i, image in enumerate(images)]
    return make_pod(containers=containers, **spec)


@pytest.mark.parametrize(
    ("size", "holders", "expected"),
    [
        (250, 1, 10),  # on half of the nodes it counts for half: 125 MiB of 23 to 1000
        (500, 2, 48),
        (40, 1, 0),  # 20 MiB is below the lower threshold
        (5000, 2, 100),
    ],
)
def test_one_container_on_two_nodes(size: int, holders: int, expected: int) -> None:
    nodes = [holding("a", app=size), holding("b", app=size) if holders == 2 else holding("b")]
    scores = Cluster(nodes).score(make(ImageLocality), using("app"))
    assert scores == [expected, expected if holders == 2 else 0]


def test_every_container_and_image_volume_counts_but_only_containers_raise_the_limit() -> None:
    nodes = [holding("a", app=500, tool=500, data=500)]
    plugin = make(ImageLocality)
    assert Cluster(nodes).score(plugin, using("app", "app")) == [49]  # (1000 − 23) of (2000 − 23)
    init = [{"name": "init", "image": "tool"}]
    assert Cluster(nodes).score(plugin, using("app", initContainers=init)) == [49]
    volumes = [{"name": "v", "image": {"reference": "data"}}]
    assert Cluster(nodes).score(plugin, using("app", volumes=volumes)) == [100]


@pytest.mark.parametrize(("size", "expected"), [(2**63 - 1, 0), (2**62, 100), (-(2**63), 0), (-1, 0)])
def test_an_absurd_size_counts_as_in_go(size: int, expected: int) -> None:
    """float64(2**63 - 1) is 2**63, which int64 turns into the lowest number."""
    nodes = [make_node(name, images=[{"names": ["app:latest"], "sizeBytes": size}]) for name in "ab"]
    assert Cluster(nodes).score(make(ImageLocality), using("app")) == [expected, expected]


@pytest.mark.parametrize(
    ("name", "normalized"),
    [
        ("app", "app:latest"),
        ("app:1.0", "app:1.0"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:1.0", "registry:5000/app:1.0"),
        ("app@sha256:abc", "app@sha256:abc"),
    ],
)
def test_a_name_without_a_tag_means_latest(name: str, normalized: str) -> None:
    assert normalized_image_name(name) == normalized


def test_other_rows_get_their_own_scores() -> None:
    cluster = Cluster([holding("a", app=1000), holding("b"), holding("c", app=1000)])
    plugin, pod, state = make(ImageLocality), cluster.info(using("app")), EngineState()
    assert plugin.score_nodes(state, pod, cluster.nodes.take(slice(0, 2))).tolist() == [65, 0]
    assert plugin.score_nodes(state, pod, cluster.nodes.take(slice(1, 3))).tolist() == [0, 65]
