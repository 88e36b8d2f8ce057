"""NodeResourcesFit: the filter and its events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.objects import Pod
from mooring.framework.events import Action, ClusterEvent, Resource
from mooring.framework.status import Status, unresolvable, unschedulable
from mooring.plugins.args import (
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from mooring.plugins.node_resources_fit.node_resources_fit import NodeResourcesFit
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner, PluginError
from tests.plugins.plugin_kit import Cluster, hint, make, make_node, make_pod

GPU = "example.com/gpu"
ROOMY = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "10", GPU: "2"}


def refusal(pod: Pod, used: Any = None, allocatable: Any = None, **args: Any) -> Any:
    """Why a pod may not go to a node on which another requests `used`."""
    cluster = Cluster(
        [make_node("n", ROOMY if allocatable is None else allocatable), make_node("empty", ROOMY)],
        {"n": [make_pod("there", used)] if used is not None else []},
    )
    return cluster.filter(make(NodeResourcesFit, **args), pod)["n"]


@pytest.mark.parametrize(
    ("requests", "used", "expected"),
    [
        ({"cpu": "2"}, {"cpu": "2"}, None),
        ({"cpu": "2001m"}, {"cpu": "2"}, unschedulable("Insufficient cpu")),
        ({"memory": "5Gi"}, {"memory": "4Gi"}, unschedulable("Insufficient memory")),
        (
            {"ephemeral-storage": "6Gi"},
            {"ephemeral-storage": "5Gi"},
            unschedulable("Insufficient ephemeral-storage"),
        ),
        ({GPU: "1"}, {GPU: "2"}, unschedulable(f"Insufficient {GPU}")),
        (
            {"cpu": "3", GPU: "1"},
            {"cpu": "2", GPU: "2"},
            unschedulable("Insufficient cpu", f"Insufficient {GPU}"),
        ),
        # More than the node has at all: nobody's leaving would help.
        ({"cpu": "5"}, {}, unresolvable("Insufficient cpu")),
        (
            {"cpu": "3", "memory": "9Gi"},
            {"cpu": "2"},
            unresolvable("Insufficient cpu", "Insufficient memory"),
        ),
        # What a pod does not request is not checked, even where a node is overcommitted.
        ({}, {"cpu": "9", "memory": "99Gi"}, None),
        ({"memory": "1Gi", "cpu": "0"}, {"cpu": "9"}, None),
        ({"unheard-of": "7", "cpu": "1"}, {}, None),
    ],
)
def test_a_node_must_have_what_is_requested(requests: Any, used: Any, expected: Any) -> None:
    assert refusal(make_pod(requests=requests), used) == expected


def test_too_many_pods() -> None:
    one = {"cpu": "4", "pods": "1"}
    assert refusal(make_pod(), {}, one) == unschedulable("Too many pods")
    assert refusal(make_pod(), None, one) is None
    both = refusal(make_pod(requests={"cpu": "3"}), {"cpu": "2"}, one)
    assert both == unschedulable("Too many pods", "Insufficient cpu")
    # Removing pods would not help here, but kube-scheduler says so only of resources.
    assert refusal(make_pod(), None, {"cpu": "4"}) == unschedulable("Too many pods")


def test_a_resource_nobody_offers_is_out_of_reach_until_a_node_does() -> None:
    cluster = Cluster([make_node("plain"), make_node("other")])
    plugin, pod = make(NodeResourcesFit), make_pod(requests={GPU: "1", "cpu": "5"})
    refused = unresolvable("Insufficient cpu", f"Insufficient {GPU}")
    assert cluster.filter(plugin, pod) == {"plain": refused, "other": refused}
    cluster.add_node(make_node("new", {"cpu": "8", "pods": "10", GPU: "1"}))
    assert cluster.filter(plugin, pod) == {"plain": refused, "other": refused, "new": None}


def test_the_same_codes_serve_before_and_after_a_resource_appears() -> None:
    cluster = Cluster([make_node("plain")])
    plugin, pod, state = make(NodeResourcesFit), cluster.info(make_pod(requests={GPU: "1"})), EngineState()
    plugin.pre_filter(state, pod, cluster.nodes)
    first = plugin.filter_nodes(state, pod, cluster.nodes)
    cluster.add_node(make_node("new", ROOMY))
    second = plugin.filter_nodes(state, pod, cluster.nodes)
    assert first is not None
    assert second is not None
    assert first.statuses is second.statuses
    assert second.codes.tolist() == [first.codes[0], 0]


@pytest.mark.parametrize(
    ("args", "refused"),
    [
        ({"ignored_resources": [GPU]}, False),
        ({"ignored_resource_groups": ["example.com"]}, False),
        ({"ignored_resource_groups": ["other.com"]}, True),
    ],
)
def test_ignored_extended_resources(args: Any, refused: bool) -> None:
    assert bool(refusal(make_pod(requests={GPU: "5"}), **args)) is refused


def test_only_extended_resources_can_be_ignored() -> None:
    pod = make_pod(requests={"hugepages-2Mi": "2Mi", "cpu": "5"})
    answer = refusal(pod, ignored_resources=["hugepages-2Mi", "cpu"])
    assert answer == unresolvable("Insufficient cpu", "Insufficient hugepages-2Mi")


def test_init_containers_overhead_and_pod_level_requests_count() -> None:
    init = [{"name": "init", "resources": {"requests": {"cpu": "3"}}}]
    assert refusal(make_pod(initContainers=init), {"cpu": "2"}) == unschedulable("Insufficient cpu")
    assert refusal(make_pod(overhead={"cpu": "3"}), {"cpu": "2"}) == unschedulable("Insufficient cpu")
    whole = make_pod(requests={"cpu": "3"}, resources={"requests": {"cpu": "1"}})
    assert refusal(whole, {"cpu": "3"}) is None


def test_as_many_resources_as_a_code_has_bits_for() -> None:
    every = {f"example.com/r{i:02}": "1" for i in range(29)}
    reasons = [f"Insufficient {name}" for name in every]
    assert refusal(make_pod(requests=every)) == unresolvable(*reasons)
    have = {**every, "pods": "1"}
    assert refusal(make_pod(requests=every), every, have) == unschedulable("Too many pods", *reasons)


def test_more_resources_than_a_code_has_bits_for() -> None:
    every = {f"example.com/r{i:02}": "1" for i in range(30)}
    reasons = [f"Insufficient {name}" for name in every]
    assert refusal(make_pod(requests=every)) == unresolvable(*reasons)
    some = {**every, "example.com/r07": "0", "pods": "1"}
    assert refusal(make_pod(requests=every), None, some) == unresolvable("Insufficient example.com/r07")
    have = {**every, "pods": "1"}
    assert refusal(make_pod(requests=every), None, have) is None
    assert refusal(make_pod(requests=every), every, have) == unschedulable("Too many pods", *reasons)


def test_the_filter_needs_pre_filter() -> None:
    cluster = Cluster([make_node("n")])
    runner = FilterRunner(make(NodeResourcesFit))
    message = (
        'running "NodeResourcesFit" filter plugin: '
        'error reading "PreFilterNodeResourcesFit" from cycleState: not found'
    )
    with pytest.raises(PluginError, match=message):
        runner.run(EngineState(), cluster.info(make_pod()), cluster.nodes)


# ---- arguments

RATIO = "RequestedToCapacityRatio"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"ignored_resource_groups": ["a/b"]}, "resource group name can't contain '/'"),
        (
            {"scoring_strategy": ScoringStrategy(type="Best")},
            'scoringStrategy.type: Unsupported value: "Best"',
        ),
        (
            {
                "scoring_strategy": ScoringStrategy(
                    type="MostAllocated", resources=[ResourceSpec(name="cpu", weight=101)]
                )
            },
            r"scoringStrategy.resources\[0\].weight: Invalid value: 101: "
            r"resource weight of cpu not in valid range \(0, 100\]",
        ),
        ({"scoring_strategy": ScoringStrategy(type=RATIO)}, f"must be specified when type is {RATIO}"),
        (
            {
                "scoring_strategy": ScoringStrategy(
                    type="LeastAllocated",
                    requested_to_capacity_ratio=RequestedToCapacityRatioParam(
                        shape=[UtilizationShapePoint(utilization=0, score=0)]
                    ),
                )
            },
            f"must be nil when type is not {RATIO}",
        ),
    ],
)
def test_wrong_arguments_are_told_when_the_plugin_is_made(args: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(NodeResourcesFit, **args)


# ---- amounts that overflow int64

LARGEST = 2**63 - 1
extreme = st.one_of(st.sampled_from([0, 1, 2**62, LARGEST - 1, LARGEST]), st.integers(0, LARGEST))


def int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


@given(extreme.filter(bool), st.lists(st.tuples(extreme, st.lists(extreme, max_size=3)), min_size=1))
def test_overflowing_amounts_are_compared_as_in_go(request: int, nodes: list[tuple[int, list[int]]]) -> None:
    """The pods of a node may add up to anything: whoever names the node in the spec asks no scheduler."""
    cluster = Cluster(
        [make_node(f"n{i}", {"memory": have, "pods": 9}) for i, (have, _) in enumerate(nodes)],
        {
            f"n{i}": [make_pod(f"{i}-{j}", {"memory": used[j]}) for j in range(len(used))]
            for i, (_, used) in enumerate(nodes)
        },
    )
    expected: list[Status | None] = []
    for have, used in nodes:
        fits = request <= int64(have - int64(sum(used)))
        refuse = unresolvable if request > have else unschedulable
        expected.append(None if fits else refuse("Insufficient memory"))
    answers = cluster.filter(make(NodeResourcesFit), make_pod(requests={"memory": request}))
    assert list(answers.values()) == expected


# ---- events

DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
SCALE_DOWN = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
ALLOCATABLE = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE)

WANTS = make_pod("pod", {"cpu": "2", GPU: "1"})


@pytest.mark.parametrize(
    ("gone", "queued"),
    [
        (make_pod("gone", nodeName="n"), True),
        (make_pod("gone", status={"nominatedNodeName": "n"}), True),
        (make_pod("gone"), False),
    ],
)
def test_a_pod_that_leaves_a_node_wakes_others(gone: Pod, queued: bool) -> None:
    assert hint(make(NodeResourcesFit), DELETE, WANTS, gone, None) is queued


@pytest.mark.parametrize(
    ("old", "new", "queued"),
    [
        (make_pod("pod", {"cpu": "9"}), make_pod("pod", {"cpu": "8"}), True),  # the waiting pod itself
        (make_pod("x", {"cpu": "2"}, nodeName="n"), make_pod("x", {"cpu": "1"}, nodeName="n"), True),
        (make_pod("x", {"memory": "2"}, nodeName="n"), make_pod("x", {"memory": "1"}, nodeName="n"), False),
        (make_pod("x", {"cpu": "2"}), make_pod("x", {"cpu": "1"}), False),
    ],
)
def test_a_pod_that_shrinks_wakes_those_who_want_what_it_gave_up(old: Pod, new: Pod, queued: bool) -> None:
    assert hint(make(NodeResourcesFit), SCALE_DOWN, WANTS, old, new) is queued


@pytest.mark.parametrize(
    ("old", "new", "queued"),
    [
        (None, {"cpu": "2", GPU: "1", "pods": "1"}, True),
        (None, {"cpu": "1", GPU: "1", "pods": "1"}, False),
        (None, {"cpu": "2", GPU: "1", "pods": "0"}, False),
        (None, {"cpu": "2", "pods": "1"}, False),
        ({"cpu": "2", "pods": "1"}, {"cpu": "2", GPU: "1", "pods": "1"}, True),
        ({"cpu": "2", GPU: "1", "pods": "1"}, {"cpu": "2", GPU: "1", "pods": "2"}, True),
        (
            {"cpu": "2", GPU: "1", "pods": "1"},
            {"cpu": "2", GPU: "1", "pods": "1", "memory": "1Gi"},  # the pod has no use for memory
            False,
        ),
        ({"cpu": "9", GPU: "1", "pods": "1"}, {"cpu": "8", GPU: "1", "pods": "1"}, False),
    ],
)
def test_a_node_with_more_room_wakes_those_it_could_hold(old: Any, new: Any, queued: bool) -> None:
    before = None if old is None else make_node("n", old)
    event = NODE_ADD if old is None else ALLOCATABLE
    assert hint(make(NodeResourcesFit), event, WANTS, before, make_node("n", new)) is queued
