"""Single plugins: timed in a sample of the attempts, counted in all of them."""

from __future__ import annotations

from mooring.testing import make_node, make_pod
from tests.metrics.kit import Observed, Wishes, wishing

PROFILE = "default-scheduler"


def executions(observed: Observed, **labels: str) -> dict[str, float]:
    return observed.values("plugin_execution_duration_seconds_count", **labels)


def test_in_a_sampled_attempt_each_plugin_is_timed_where_it_took_part() -> None:
    observed = Observed(plugins=[Wishes])
    observed.schedule(make_pod("one", requests={"cpu": "1"}))
    assert executions(observed, plugin="Wishes") == {
        f"{point}/Success": 1
        for point in (
            "PreEnqueue",
            "PreFilter",
            "Filter",
            "PreScore",
            "Score",
            "Reserve",
            "Permit",
            "PreBind",
            "PostBind",
        )
    }
    assert executions(observed, plugin="NodeResourcesFit") == {
        "PreFilter/Success": 1,
        "Filter/Success": 1,
        "PreScore/Success": 1,
        "Score/Success": 1,
    }
    assert executions(observed, plugin="TaintToleration")["ScoreExtensionNormalize/Success"] == 1
    assert executions(observed, plugin="NodePorts") == {"PreFilter/Skip": 1}
    assert executions(observed, plugin="DefaultBinder") == {"Bind/Success": 1}


def test_a_plugin_whose_answers_are_kept_is_not_timed_for_what_it_does_not_do() -> None:
    observed = Observed()
    observed.schedule(*(make_pod(f"pod-{i}", requests={"cpu": "1m"}) for i in range(10)))
    assert executions(observed, plugin="DefaultBinder") == {"Bind/Success": 10}
    assert executions(observed, plugin="NodeName")["Filter/Success"] == 1  # no Node has changed since


def test_statuses_are_the_plugins_own() -> None:
    observed = Observed(nodes=1, plugins=[Wishes])
    observed.schedule(make_pod("big", requests={"cpu": "1000"}))
    assert executions(observed, plugin="NodeResourcesFit")["Filter/UnschedulableAndUnresolvable"] == 1
    assert executions(observed, plugin="DefaultPreemption")["PostFilter/Unschedulable"] == 1
    observed.schedule(make_pod("a", **wishing(reserve="refuse")), make_pod("b", **wishing(preBind="raise")))
    told = executions(observed, plugin="Wishes")
    assert told["Reserve/Unschedulable"] == told["PreBind/Error"] == 1
    observed.schedule(make_pod("c", **wishing(filter="raise")))
    assert executions(observed, plugin="Wishes")["Filter/Error"] == 1


def test_one_attempt_in_so_many_is_sampled() -> None:
    observed = Observed(sample_every=10)
    observed.schedule(*(make_pod(f"pod-{i}", requests={"cpu": "1m"}) for i in range(50)))
    assert executions(observed, plugin="DefaultBinder") == {"Bind/Success": 5}
    assert executions(observed, plugin="SchedulingGates") == {"PreEnqueue/Success": 5}


def test_taking_part_is_counted_in_every_attempt() -> None:
    observed = Observed(sample_every=10)
    observed.schedule(*(make_pod(f"pod-{i}", requests={"cpu": "1m"}) for i in range(30)))
    fit = observed.values("plugin_evaluation_total", plugin="NodeResourcesFit", profile=PROFILE)
    assert fit == {"PreFilter": 30, "Filter": 30, "PreScore": 30, "Score": 30}
    ports = observed.values("plugin_evaluation_total", plugin="NodePorts", profile=PROFILE)
    assert ports == {"PreFilter": 0, "Filter": 0}
    observed.schedule(make_pod("with-port", host_ports=[8080]))
    ports = observed.values("plugin_evaluation_total", plugin="NodePorts", profile=PROFILE)
    assert ports == {"PreFilter": 1, "Filter": 1}


def test_points_that_were_not_reached_are_no_evaluation() -> None:
    observed = Observed(nodes=1, plugins=[Wishes])
    observed.schedule(make_pod("one", **wishing(preFilter="refuse")), make_pod("two"))
    told = observed.values("plugin_evaluation_total", plugin="Wishes", profile=PROFILE)
    assert told == {"PreFilter": 2, "Filter": 1, "PreScore": 0, "Score": 0}


def test_filters_that_preemption_asks_are_timed_like_those_of_the_cycle() -> None:
    """As kube-scheduler does it: the time of PostFilter contains theirs."""
    observed = Observed([make_node("a", cpu="1")])
    observed.schedule(make_pod("low", requests={"cpu": "1"}))
    before = executions(observed, plugin="NodeResourcesFit", extension_point="Filter")
    observed.cluster.apply(make_pod("urgent", requests={"cpu": "1"}, priority=10))
    observed.scheduler.schedule_one()
    assert executions(observed, plugin="DefaultPreemption")["PostFilter/Success"] == 1
    after = executions(observed, plugin="NodeResourcesFit", extension_point="Filter")
    assert sum(after.values()) > sum(before.values()) + 1
