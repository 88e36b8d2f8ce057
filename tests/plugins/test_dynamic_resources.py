"""DynamicResources for pods without claims, and what parity with kube-scheduler does not show: queueing
hints, writes that conflict, failures after the choice, schedulers that share devices."""

from __future__ import annotations

from mooring.framework.status import Code, error, unschedulable
from mooring.plugins.dynamic_resources.dynamic_resources import DynamicResources
from mooring.runtime.engine_state import EngineState
from tests.plugins.plugin_kit import Cluster, make, make_node, make_pod


def test_it_takes_part_where_kube_scheduler_does() -> None:
    assert DynamicResources.extension_points == {
        "preEnqueue",
        "preFilter",
        "filter",
        "postFilter",
        "score",
        "reserve",
        "preBind",
    }


def test_a_pod_without_claims_passes_and_post_filter_has_nothing_to_do() -> None:
    cluster = Cluster([make_node("a"), make_node("b")])
    plugin, pod, state = make(DynamicResources), cluster.info(make_pod()), EngineState()
    assert plugin.pre_enqueue(pod) is None
    skipped = plugin.pre_filter(state, pod, cluster.nodes)
    assert skipped is not None
    assert skipped.code is Code.SKIP
    state.skip_filter = frozenset({plugin.name})  # as the framework notes it
    assert plugin.post_filter(state, pod, {}) == unschedulable("no new claims to deallocate")
    assert cluster.score(plugin, make_pod()) == [0, 0]
    assert cluster.normalize(plugin, [0, 0]) == [0, 0]


def test_post_filter_fails_when_the_cycle_ended_before_pre_filter() -> None:
    pod = Cluster([]).info(make_pod())
    assert make(DynamicResources).post_filter(EngineState(), pod, {}) == error("not found")
