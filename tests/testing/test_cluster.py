"""make_cluster: a scheduler at work, in memory, on a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config import ConfigError, loads
from mooring.framework import Args, Plugin, Status, unschedulable
from mooring.testing import Cluster, VirtualClock, config_with, make_cluster, make_node, make_pod


class LimitArgs(Args):
    most: int = 1


class Limit(Plugin[LimitArgs]):
    """At most so many pods on a node."""

    name = "Limit"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return unschedulable("enough pods") if len(node.pods) >= self.args.most else None


def placed(cluster: Cluster, pods: int) -> list[str]:
    cluster.apply(*(make_pod(f"pod-{i}") for i in range(pods)))
    cluster.schedule()
    return [cluster.node_of(f"pod-{i}") for i in range(pods)]


def test_the_default_plugins_are_at_work() -> None:
    cluster = make_cluster([make_node("small", cpu="1"), make_node("large", cpu="8")])
    cluster.apply(make_pod("web", requests={"cpu": "2"}))
    (decision,) = cluster.schedule()
    assert cluster.node_of("web") == "large"
    assert decision is cluster.decision("web")
    assert decision.refusals["small"].plugin == "NodeResourcesFit"
    assert [event.note for event in cluster.events()] == ["Successfully assigned default/web to large"]


def test_plugins_are_enabled_beside_them() -> None:
    cluster = make_cluster([make_node("a")], plugins=[Limit])
    assert placed(cluster, 2) == ["a", ""]
    assert cluster.decision("pod-1").message.startswith("0/1 nodes are available: 1 enough pods.")


@pytest.mark.parametrize("args", [{"most": 2}, LimitArgs(most=2)])
def test_plugins_get_their_arguments(args: Any) -> None:
    cluster = make_cluster([make_node("a")], plugins=[Limit], args={"Limit": args})
    assert placed(cluster, 3) == ["a", "a", ""]
    assert cluster.plugin(Limit).args.most == 2


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: limited
  plugins: {multiPoint: {enabled: [{name: Limit}]}}
"""


@pytest.mark.parametrize("config", [CONFIG, loads(CONFIG), loads(CONFIG).config])
def test_a_configuration_says_where_they_run(config: Any) -> None:
    cluster = make_cluster([make_node("a")], plugins=[Limit], config=config)
    cluster.apply(*(make_pod(f"free-{i}") for i in range(2)))
    cluster.apply(*(make_pod(f"held-{i}", scheduler_name="limited") for i in range(2)))
    cluster.schedule()
    assert [pod.name for pod in cluster.pods() if pod.spec.node_name] == ["free-0", "free-1"]
    assert isinstance(cluster.plugin(Limit, "limited"), Limit)


def test_arguments_belong_into_the_configuration_where_there_is_one() -> None:
    with pytest.raises(TypeError, match="pluginConfig"):
        make_cluster(plugins=[Limit], config=config_with([Limit]), args={"Limit": {"most": 2}})


def test_a_wrong_configuration_is_an_error() -> None:
    with pytest.raises(ConfigError, match='unknown plugin "Limit"'):
        make_cluster(config=config_with([Limit]))


def test_the_seed_decides_among_equals() -> None:
    nodes = [make_node(f"node-{i}") for i in range(5)]
    runs = [placed(make_cluster(nodes, seed=seed), 6) for seed in (1, 1, 2, 3)]
    assert runs[0] == runs[1]
    assert len({tuple(run) for run in runs}) > 1


def test_pods_are_named_by_object_name_or_key() -> None:
    cluster = make_cluster([make_node("a")])
    pod, other = make_pod("web"), make_pod("web", namespace="other")
    cluster.apply(pod, other)
    cluster.schedule()
    assert cluster.pod("web") == cluster.pod(pod) == cluster.pod("default/web")
    assert cluster.pod("other/web").namespace == "other"
    assert cluster.decision(other).pod == "other/web"


def test_what_is_not_there_is_a_lookup_error() -> None:
    cluster = make_cluster([make_node("a")])
    gated = make_pod("gated", scheduling_gates="gate")
    cluster.apply(gated)
    cluster.schedule()
    with pytest.raises(LookupError, match="pod default/gated: no scheduling attempt"):
        cluster.decision("gated")
    cluster.delete(gated)
    with pytest.raises(LookupError, match="pod default/gated does not exist"):
        cluster.pod("gated")


class TestTime:
    @staticmethod
    def refused(clock: VirtualClock | None = None) -> Cluster:
        """A pod that waits for room on the only node."""
        cluster = make_cluster([make_node("a", cpu="1")], clock=clock)
        cluster.apply(make_pod("old", requests={"cpu": "1"}, node_name="a"), make_pod(requests={"cpu": "1"}))
        cluster.schedule()
        return cluster

    def test_it_stands_still(self) -> None:
        clock = VirtualClock(1000)
        cluster = self.refused(clock)
        cluster.schedule()
        assert clock() == cluster.now() == 1000

    def test_what_falls_due_is_done_then_and_there(self) -> None:
        """A binding that fails is tried again after 1, 2 and 4 seconds of backoff."""
        at: list[float] = []

        class Failing(Plugin):
            name = "Failing"

            def pre_bind(self, state: Any, pod: Any, node_name: str) -> None:
                at.append(self.handle.now())
                raise OSError("no")

        cluster = make_cluster([make_node("a")], plugins=[Failing], clock=VirtualClock(1000))
        cluster.apply(make_pod())
        decisions = cluster.advance(10)
        assert at == [1000, 1002, 1005, 1010]
        assert len(decisions) == len(cluster.decisions) == 4
        assert cluster.now() == 1010

    def test_an_event_is_acted_upon_at_once(self) -> None:
        cluster = self.refused()
        cluster.delete(cluster.pod("old"))
        cluster.schedule()
        assert cluster.node_of("pod") == "a"


def test_a_queue_that_contradicts_itself_is_noticed() -> None:
    """Every run ends with a look at the scheduler's own books."""
    cluster = make_cluster([make_node("a")])
    cluster.apply(make_pod("gated", scheduling_gates="gate"))
    cluster.scheduler.queue._queued.clear()
    with pytest.raises(AssertionError, match="gated"):
        cluster.schedule()
