"""Scores by resources: the strategies of NodeResourcesFit, and NodeResourcesBalancedAllocation."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mooring.api.devices import Allocation, DeviceAllocation, DeviceResult
from mooring.plugins.args import (
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from mooring.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources_fit.node_resources_fit import NodeResourcesFit
from tests.plugins.plugin_kit import Cluster, make, make_node, make_pod
from tests.plugins.test_dynamic_resources import claim, device_class, resource_slice

GPU = "example.com/gpu"


def amounts(cpu: Any = None, memory: Any = None, gpu: Any = None) -> dict[str, Any]:
    """cpu in thousandths, memory in bytes."""
    found = {"cpu": None if cpu is None else f"{cpu}m", "memory": memory, GPU: gpu}
    return {name: amount for name, amount in found.items() if amount is not None}


def fit(type: str = "LeastAllocated", *points: tuple[int, int], **weights: int) -> NodeResourcesFit:
    names = {"gpu": GPU}
    resources = [ResourceSpec(name=names.get(name, name), weight=w) for name, w in weights.items()]
    shape = [UtilizationShapePoint(utilization=x, score=y) for x, y in points]
    ratio = RequestedToCapacityRatioParam(shape=shape) if shape else None
    strategy = ScoringStrategy(type=type, resources=resources, requested_to_capacity_ratio=ratio)
    return make(NodeResourcesFit, scoring_strategy=strategy)


def score(
    plugin: Any, pod: dict[str, Any], *nodes: tuple[dict[str, Any], dict[str, Any]]
) -> list[int] | None:
    """The scores of nodes given by what they have and what a pod on them requests."""
    cluster = Cluster(make_node(f"n{i}", {**have, "pods": 9}) for i, (have, _) in enumerate(nodes))
    for i, (_, used) in enumerate(nodes):
        # Named with zero where nothing is used, so that no default counts for it.
        there = make_pod(f"p{i}", {"cpu": 0, "memory": 0, **used})
        cluster.assume(cluster.info(there), f"n{i}")
    return cluster.score(plugin, make_pod(requests=pod))


# ---- NodeResourcesFit


def test_least_allocated() -> None:
    pod, empty = amounts(3000, 5000), amounts(0, 0)
    nodes = ((amounts(4000, 10000), empty), (amounts(6000, 10000), empty))
    assert score(fit(), pod, *nodes) == [37, 50]
    assert score(fit(cpu=3, memory=1), pod, *nodes) == [(25 * 3 + 50) // 4, 50]


def test_most_allocated() -> None:
    pod = amounts(3000, 5000)
    nodes = ((amounts(4000, 10000), amounts(0, 0)), (amounts(4000, 10000), amounts(2000, 2000)))
    assert score(fit("MostAllocated"), pod, *nodes) == [(75 + 50) // 2, (100 + 70) // 2]


def test_what_is_overcommitted_counts_as_full() -> None:
    nodes = ((amounts(1000, 10000), amounts(2000, 0)),)
    assert score(fit(cpu=1), amounts(100), *nodes) == [0]
    assert score(fit("MostAllocated", cpu=1), amounts(100), *nodes) == [100]


def test_containers_that_request_nothing_count_with_defaults() -> None:
    # 100m and 200 MiB for the pod and for the one that is there, but an explicit 0 stays 0.
    cluster = Cluster(
        [make_node("n", {"cpu": "1", "memory": "1000Mi", "pods": 9})], {"n": [make_pod("there")]}
    )
    assert cluster.score(fit(), make_pod()) == [(80 + 60) // 2]
    assert cluster.score(fit(), make_pod(requests={"cpu": "0", "memory": "0"})) == [(90 + 80) // 2]


def test_pod_level_requests_are_not_scored() -> None:
    pod = make_pod(requests={"cpu": "500m"}, resources={"requests": {"cpu": "100m"}})
    assert Cluster([make_node("n", {"cpu": "1", "pods": 9})]).score(fit(cpu=1), pod) == [50]


@pytest.mark.parametrize(("utilization", "expected"), [(0, 100), (33, 63), (70, 20), (90, 20)])
def test_requested_to_capacity_ratio_follows_its_shape(utilization: int, expected: int) -> None:
    plugin = fit("RequestedToCapacityRatio", (0, 10), (70, 2), cpu=1)
    assert score(plugin, amounts(0, 0), (amounts(100), amounts(utilization))) == [expected]


def test_requested_to_capacity_ratio_leaves_out_zeros_and_rounds() -> None:
    plugin = fit("RequestedToCapacityRatio", (0, 0), (100, 10), cpu=1, memory=2)
    pod = amounts(0, 0)
    node = amounts(100, 100)
    assert score(plugin, pod, (node, amounts(50, 0))) == [50]  # memory rates 0 and does not count
    assert score(plugin, pod, (node, amounts(50, 51))) == [51]  # 152/3 = 50.67
    assert score(plugin, pod, (node, amounts(0, 0))) == [0]
    halves = fit("RequestedToCapacityRatio", (0, 0), (100, 10), cpu=1, memory=1)
    assert score(halves, pod, (node, amounts(50, 51))) == [51]  # 50.5


def test_scalar_resources_count_for_pods_that_request_them() -> None:
    plugin = fit("MostAllocated", cpu=1, gpu=3)
    nodes = ((amounts(1000, gpu=4), amounts(500, gpu=1)), (amounts(1000), amounts(500)))
    assert score(plugin, amounts(0, gpu=1), *nodes) == [(50 + 3 * 50) // 4, 50]  # no gpu there: not weighed
    assert score(plugin, amounts(0), *nodes) == [50, 50]


def test_resources_that_no_node_has_score_nothing() -> None:
    assert score(fit(gpu=1), amounts(0), (amounts(1000), amounts(0))) == [0]
    assert score(fit(cpu=1), amounts(0), (amounts(memory=10), amounts()), (amounts(10), amounts())) == [
        0,
        100,
    ]


# ---- devices in place of extended resources


def with_devices(plugin: Any, **devices: int) -> Any:
    """Have a class stand behind the resource, and give nodes this many devices, of which gpu-0 is in use."""
    store = plugin.handle.listers
    selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    store.put(device_class(extendedResourceName=GPU, selectors=[selector]))
    for node, count in devices.items():
        store.put(resource_slice(node, count))
        used = claim(node)
        result = DeviceResult(request="gpu", driver="gpu.example.com", pool=node, device="gpu-0")
        allocation = Allocation(devices=DeviceAllocation(results=[result]))
        store.put(structs.replace(used, status=structs.replace(used.status, allocation=allocation)))
    return plugin


def test_devices_count_where_a_node_does_not_have_the_resource() -> None:
    own, none = (amounts(1000, gpu=4), amounts(500, gpu=3)), (amounts(1000), amounts(500))
    pod = amounts(0, gpu=1)
    fits = with_devices(fit("MostAllocated", cpu=1, gpu=3), n1=4, n2=2)
    assert score(fits, pod, own, none, none, none) == [
        (50 + 3 * 100) // 4,
        (50 + 3 * 50) // 4,
        (50 + 3 * 100) // 4,
        50,
    ]
    assert score(fits, amounts(0), own, none) == [50, 50]
    assert score(with_devices(fit(gpu=1), n0=4), pod, none, none) == [50, 0]


def test_devices_are_weighed_against_other_resources() -> None:
    resources = [ResourceSpec(name="cpu", weight=1), ResourceSpec(name=GPU, weight=1)]
    plugin = with_devices(make(NodeResourcesBalancedAllocation, resources=resources), n0=4, n1=2)
    node = (amounts(1000), amounts(250))
    assert score(plugin, amounts(0, gpu=1), node, node, node) == [68, 62, 75]


def test_a_selector_that_fails_leaves_the_devices_out() -> None:
    plugin = with_devices(fit("MostAllocated", cpu=1, gpu=3), n0=4)
    selector = {"cel": {"expression": 'device.attributes["x"].y == 1'}}
    plugin.handle.listers.put(device_class(extendedResourceName=GPU, selectors=[selector]))
    assert score(plugin, amounts(0, gpu=1), (amounts(1000), amounts(500))) == [50]


# ---- NodeResourcesBalancedAllocation


def balanced(*names: str) -> NodeResourcesBalancedAllocation:
    if not names:
        return make(NodeResourcesBalancedAllocation)
    return make(NodeResourcesBalancedAllocation, resources=[ResourceSpec(name=name) for name in names])


@pytest.mark.parametrize(
    ("have", "used", "pod", "expected"),
    [
        (amounts(10000, 20000), amounts(3000, 0), amounts(3000, 5000), 73),
        (amounts(10000, 50000), amounts(3000, 5000), amounts(3000, 5000), 70),
        (amounts(4000, 10000), amounts(0, 0), amounts(3000, 5000), 68),
        (amounts(3000, 5000), amounts(3000, 0), amounts(memory=5000), 100),
        (amounts(3000, 5000), amounts(0, 0), amounts(memory=5000), 50),
        (amounts(3000), amounts(0), amounts(1000), 75),  # one resource is always balanced
    ],
)
def test_balance_with_the_pod_against_without(have: Any, used: Any, pod: Any, expected: int) -> None:
    assert score(balanced(), pod, (have, used)) == [expected]


def test_three_resources_are_compared_by_standard_deviation() -> None:
    have, pod = amounts(3500, 40000, 8), amounts(0, 0, 1)
    nodes = ((have, amounts(3000, 5000, 3)), (have, amounts(3000, 5000, 0)))
    assert score(balanced("cpu", "memory", GPU), pod, *nodes) == [75, 76]


def test_nodes_without_a_resource_are_balanced_over_the_others() -> None:
    pod = amounts(3000, 5000, 1)
    nodes = (
        (amounts(4000, 10000, 8), amounts(0, 0, 3)),
        (amounts(4000, 10000), amounts(0, 0)),
        (amounts(4000), amounts(0)),
    )
    every = score(balanced("cpu", "memory", GPU), pod, *nodes)
    assert every is not None
    assert every[1:] == [68, 75]
    assert score(balanced("cpu", "memory", GPU), pod, nodes[0]) == every[:1]


def test_a_best_effort_pod_skips_balancing() -> None:
    assert score(balanced(), amounts(0, 0, 1), (amounts(4000, 1000, 1), amounts())) is None
    assert score(balanced(), {}, (amounts(4000, 1000), amounts())) is None


# ---- one row and many rows

quantities = st.sampled_from([0, 1, 3, 7, 50, 99, 100, 101, 640])
row = st.builds(amounts, quantities, quantities, quantities)


@given(
    st.sampled_from(
        [
            fit(cpu=1, memory=1),
            fit("MostAllocated", gpu=5, cpu=2),
            fit("RequestedToCapacityRatio", (0, 10), (50, 3), (100, 0), cpu=1, memory=2, gpu=3),
            balanced(),
            balanced("cpu", "memory", GPU),
        ]
    ),
    row,
    st.lists(st.tuples(row, row), min_size=2, max_size=5),
)
def test_a_row_scores_the_same_alone_and_among_others(plugin: Any, pod: Any, nodes: Any) -> None:
    score(plugin, pod, *nodes)  # the cluster of the kit asks both ways and compares


# ---- amounts that overflow int64

LARGEST = 2**63 - 1
extreme = st.one_of(
    st.sampled_from([0, 1, 100, LARGEST // 100, LARGEST // 100 + 1, 2**62, LARGEST - 1, LARGEST]),
    st.integers(0, LARGEST),
)


def int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def quotient(a: int, b: int) -> int:
    return abs(a) // b * (-1 if a < 0 else 1)


def least(requested: int, capacity: int) -> int:
    return 0 if requested > capacity else quotient(int64(int64(capacity - requested) * 100), capacity)


def most(requested: int, capacity: int) -> int:
    return quotient(int64(min(requested, capacity) * 100), capacity)


def in_go(rate: Any, pod: list[int], used: list[int], have: list[int]) -> int:
    """The mean of the ratings of resources, every step in int64; 0 or 100 where it is outside of that."""
    requested = [int64(a + b) for a, b in zip(pod, used, strict=True)]
    ratings = [rate(r, c) for r, c in zip(requested, have, strict=True) if c]
    mean = quotient(int64(sum(ratings)), len(ratings)) if ratings else 0
    return max(0, min(mean, 100))


SHAPE = ((10, 2), (40, 9), (90, 0))


def ratio(requested: int, capacity: int) -> int:
    """Rate by SHAPE as kube-scheduler does."""
    percent = 100 if requested > capacity else quotient(int64(requested * 100), capacity)
    if percent <= SHAPE[0][0]:
        return SHAPE[0][1] * 10
    for (left, low), (right, high) in pairwise(SHAPE):
        if percent <= right:
            part = (high - low) * 10 * (percent - left)
            return low * 10 + quotient(part, right - left)
    return SHAPE[-1][1] * 10


def ratio_in_go(pod: list[int], used: list[int], have: list[int]) -> int:
    """The mean of the ratings above 0, rounded."""
    requested = [int64(a + b) for a, b in zip(pod, used, strict=True)]
    ratings = [rating for r, c in zip(requested, have, strict=True) if c and (rating := ratio(r, c)) > 0]
    return math.floor(sum(ratings) / len(ratings) + 0.5) if ratings else 0


amounts_of_three = st.lists(extreme, min_size=3, max_size=3)
STORAGE = "ephemeral-storage"


def three(values: list[int]) -> dict[str, Any]:
    return dict(zip(("memory", STORAGE, GPU), values, strict=True))


@given(
    amounts_of_three.filter(all),
    st.lists(st.tuples(amounts_of_three, amounts_of_three), min_size=1, max_size=4),
)
def test_overflowing_amounts_score_as_in_go(pod: list[int], nodes: list[tuple[list[int], list[int]]]) -> None:
    rows = [(three(have), three(used)) for have, used in nodes]
    for strategy, rate in (("LeastAllocated", least), ("MostAllocated", most)):
        plugin = fit(strategy, **{"memory": 1, STORAGE: 1, "gpu": 1})
        assert score(plugin, three(pod), *rows) == [in_go(rate, pod, used, have) for have, used in nodes]
    plugin = fit("RequestedToCapacityRatio", *SHAPE, **{"memory": 1, STORAGE: 1, "gpu": 1})
    assert score(plugin, three(pod), *rows) == [ratio_in_go(pod, used, have) for have, used in nodes]


@given(
    st.sampled_from(
        [
            fit("RequestedToCapacityRatio", (0, 10), (50, 3), (100, 0), cpu=1, memory=2, gpu=3),
            fit("RequestedToCapacityRatio", (10, 0), (90, 10), memory=2, gpu=3),
            balanced(),
            balanced("cpu", "memory", GPU),
        ]
    ),
    st.builds(amounts, extreme, extreme, extreme),
    st.lists(
        st.tuples(
            st.builds(amounts, extreme, extreme, extreme), st.builds(amounts, extreme, extreme, extreme)
        ),
        min_size=2,
        max_size=5,
    ),
)
def test_overflowing_amounts_score_the_same_alone_and_among_others(plugin: Any, pod: Any, nodes: Any) -> None:
    scores = score(plugin, pod, *nodes)
    assert scores is None or all(0 <= each <= 100 for each in scores)


@pytest.mark.parametrize(("cpu", "memory"), [(str(LARGEST), str(LARGEST)), ("1e14", "90Pi")])
def test_an_absurdly_large_node_scores_0(cpu: str, memory: str) -> None:
    huge = make_node("huge", {"cpu": cpu, "memory": memory, "pods": 9})
    cluster = Cluster([make_node("usual"), huge])
    scores = cluster.score(fit(), make_pod(requests={"cpu": "100m", "memory": "128Mi"}))
    assert scores is not None
    assert scores[0] > scores[1] == 0
