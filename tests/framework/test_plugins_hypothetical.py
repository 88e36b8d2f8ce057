"""Preemption and nominated pods ask about nodes as they would be: add_pod, remove_pod and the view."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from mooring.framework import CacheKey, Plugin, Status, error, refuse, skip, unschedulable
from mooring.testing import Cluster, make_cluster, make_node, make_pod
from mooring.testing.nodes import ZONE
from tests.framework.kit import raising

CROWDED = unschedulable("the zone has a noisy pod")


class Counts(Counter[str]):
    """Noisy pods by zone; a clone is another's to change."""

    def clone(self) -> Counts:
        return Counts(self)


def is_noisy(pod: Any) -> bool:
    return bool(pod.labels.get("noisy") == "yes")


class OnePerZone(Plugin):
    """At most one noisy pod per zone, counted in pre_filter as the Go original of such a plugin would."""

    name = "OnePerZone"

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Status | None:
        if not is_noisy(pod):
            return skip()
        counts = Counts()
        for node in nodes:
            counts[node.labels.get(ZONE, "")] += sum(is_noisy(other) for other in node.pods)
        state.write(self.name, counts)
        return None

    def add_pod(self, state: Any, pod: Any, added: Any, node: Any) -> Status | None:
        state.read(self.name)[node.labels[ZONE]] += is_noisy(added)
        return None

    def remove_pod(self, state: Any, pod: Any, removed: Any, node: Any) -> Status | None:
        state.read(self.name)[node.labels[ZONE]] -= is_noisy(removed)
        return None

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return CROWDED if state.read(self.name)[node.labels[ZONE]] else None


class OnePerZoneTable(OnePerZone):
    """The same, with a filter over the table."""

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        counts = state.read(self.name)
        return refuse(np.array([counts[node.labels[ZONE]] > 0 for node in nodes]), CROWDED)


BOTH = pytest.mark.parametrize("cls", [OnePerZone, OnePerZoneTable], ids=["one node", "table"])


def noisy(name: str, **more: Any) -> Any:
    return make_pod(name, labels={"noisy": "yes"}, **more)


def two_zones(*plugins: type[Plugin]) -> Cluster:
    return make_cluster(
        [make_node("a-1", zone="a"), make_node("a-2", zone="a"), make_node("b-1", zone="b")], plugins=plugins
    )


@BOTH
class TestPreemption:
    def test_removing_a_victim_makes_room_on_its_node(self, cls: type[Plugin]) -> None:
        cluster = two_zones(cls)
        cluster.apply(noisy("low-a", node_name="a-1"), noisy("high-b", node_name="b-1", priority=100))
        cluster.apply(noisy("mine", priority=10))
        decision = cluster.schedule()[0]
        assert decision.post_filter is not None
        assert decision.post_filter.nominated_node == "a-1"
        assert decision.post_filter.victims == ["default/low-a"]
        assert cluster.node_of("mine") == "a-1"

    def test_only_the_pod_that_stands_in_the_way_has_to_go(self, cls: type[Plugin]) -> None:
        cluster = two_zones(cls)
        cluster.apply(
            make_pod("quiet-1", node_name="a-1"),
            noisy("loud", node_name="a-1"),
            make_pod("quiet-2", node_name="a-1"),
            noisy("high-b", node_name="b-1", priority=100),
        )
        cluster.apply(noisy("mine", priority=10))
        cluster.schedule()
        assert sorted(pod.name for pod in cluster.pods()) == ["high-b", "mine", "quiet-1", "quiet-2"]

    def test_nothing_is_evicted_in_vain(self, cls: type[Plugin]) -> None:
        """Two noisy pods in the zone, one on each node: no single node's victims are enough."""
        cluster = two_zones(cls)
        cluster.apply(noisy("low-1", node_name="a-1"), noisy("low-2", node_name="a-2"))
        cluster.apply(noisy("high-b", node_name="b-1", priority=100), noisy("mine", priority=10))
        cluster.schedule()
        assert len(cluster.pods()) == 4
        assert cluster.node_of("mine") == ""

    def test_what_was_supposed_does_not_stay(self, cls: type[Plugin]) -> None:
        """After the dry runs the plugin's counts are those of the real cluster."""
        counts: list[dict[str, int]] = []

        class Watching(cls):  # type: ignore[misc, valid-type]
            def post_filter(self, state: Any, pod: Any, statuses: Any) -> Any:
                counts.append(dict(state.read(self.name)))
                return unschedulable("just looking")

        class After(Plugin):
            name = "After"

            def post_filter(self, state: Any, pod: Any, statuses: Any) -> Any:
                counts.append(dict(state.read("OnePerZone")))
                return unschedulable("just looking")

        cluster = two_zones(After, Watching)
        cluster.apply(
            noisy("one", node_name="a-1"),
            noisy("two", node_name="a-2"),
            noisy("three", node_name="b-1", priority=100),
            noisy("mine", priority=10),
        )
        cluster.schedule()
        assert counts
        assert all(count == {"a": 2, "b": 1} for count in counts)


@BOTH
class TestNominatedPods:
    def test_they_count_on_their_node(self, cls: type[Plugin]) -> None:
        cluster = two_zones(cls)
        cluster.apply(noisy("high-b", node_name="b-1", priority=100))
        cluster.apply(noisy("promised", nominated_node="a-1", priority=50, scheduling_gates="not yet"))
        cluster.scheduler.queue.nominator.add(cluster.scheduler.cluster.info(cluster.pod("promised")))
        cluster.apply(noisy("mine", priority=10))
        cluster.schedule()
        assert cluster.node_of("mine") == "a-2"  # as in kube-scheduler they count on that node alone
        assert cluster.decision("mine").refusals["a-1"].reasons == ["the zone has a noisy pod"]

    def test_those_of_lower_priority_do_not_count(self, cls: type[Plugin]) -> None:
        cluster = two_zones(cls)
        cluster.apply(noisy("promised", nominated_node="a-1", priority=5, scheduling_gates="not yet"))
        cluster.scheduler.queue.nominator.add(cluster.scheduler.cluster.info(cluster.pod("promised")))
        cluster.apply(noisy("mine", priority=10))
        cluster.schedule()
        assert cluster.decision("mine").feasible == ["a-1", "a-2", "b-1"]


@pytest.mark.parametrize("method", ["add_pod", "remove_pod"])
@pytest.mark.parametrize("answer", [raising, lambda *args: error("cannot say"), lambda *args: 7])
def test_an_extension_that_fails_fails_that_attempt_only(method: str, answer: Any) -> None:
    def failing(self: Plugin, state: Any, pod: Any, other: Any, node: Any) -> Any:
        return answer()

    bad = type("Bad", (OnePerZone,), {method: failing})
    cluster = two_zones(bad)
    cluster.apply(noisy("low", node_name="a-1"), noisy("high", node_name="b-1", priority=100))
    if method == "add_pod":
        cluster.apply(noisy("promised", nominated_node="a-2", priority=50, scheduling_gates="not yet"))
        cluster.scheduler.queue.nominator.add(cluster.scheduler.cluster.info(cluster.pod("promised")))
    cluster.apply(noisy("mine", priority=10))
    cluster.schedule()
    condition = cluster.pod("mine").status.conditions[0]
    # While filtering it is an error; while preempting, nothing more can be done for a pod that fits nowhere.
    reason = "SchedulerError" if method == "add_pod" else "Unschedulable"
    assert (cluster.node_of("mine"), condition.reason) == ("", reason)
    assert "OnePerZone" in condition.message
    cluster.apply(make_pod("quiet"))
    cluster.schedule()
    assert cluster.node_of("quiet")


def test_who_skipped_is_not_told_of_pods() -> None:
    calls: list[str] = []

    class Skipping(OnePerZone):
        def add_pod(self, state: Any, pod: Any, added: Any, node: Any) -> Status | None:
            calls.append("add_pod")
            return None

        def remove_pod(self, state: Any, pod: Any, removed: Any, node: Any) -> Status | None:
            calls.append("remove_pod")
            return None

    cluster = two_zones(Skipping)
    cluster.apply(*(make_pod(f"low-{i}", requests={"cpu": "4"}, node_name=f"a-{i}") for i in (1, 2)))
    cluster.apply(make_pod("low-3", requests={"cpu": "4"}, node_name="b-1"))
    cluster.apply(make_pod("quiet", requests={"cpu": "4"}, priority=10))
    cluster.schedule()
    assert cluster.node_of("quiet")
    assert calls == []


@pytest.mark.parametrize("key", [CacheKey.NODE_AND_PODS, CacheKey.NONE])
@pytest.mark.parametrize("table", [False, True], ids=["one node", "table"])
def test_a_plugin_without_extensions_sees_the_node_as_it_would_be(key: CacheKey, table: bool) -> None:
    """It looks at the node's pods and sums, so that it has nothing to adjust."""

    class AtMostTwo(Plugin):
        name = "AtMostTwo"
        cache_key = key

        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            assert node.requested["cpu"] == sum(other.requests["cpu"] for other in node.pods)
            return unschedulable("two is company") if len(node.pods) >= 2 else None

    class AtMostTwoTable(AtMostTwo):
        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            return refuse(nodes.pod_count >= 2, unschedulable("two is company"))

    cluster = make_cluster([make_node("a", cpu="16")], plugins=[AtMostTwoTable if table else AtMostTwo])
    cluster.apply(
        make_pod("low", node_name="a", requests={"cpu": "1"}, priority=1),
        make_pod("lowest", node_name="a", requests={"cpu": "2"}),
        make_pod("mine", priority=10),
    )
    cluster.schedule()
    assert cluster.node_of("mine") == "a"
    assert sorted(pod.name for pod in cluster.pods()) == ["low", "mine"]
