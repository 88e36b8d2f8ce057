"""`cache_key`: which plugins are called again, for which nodes, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mooring.framework import CacheKey, Plugin
from mooring.testing import Cluster, config_with, make_cluster, make_node, make_pod

# Where more than a third of the nodes changed, all are asked about: so there are enough of them.
NAMES = tuple("abcdefghijklmnop")


class Asked:
    """Which nodes a plugin was asked about since the last look."""

    def __init__(self) -> None:
        self.filters: list[str] = []
        self.scores: list[str] = []

    def take(self) -> tuple[list[str], list[str]]:
        found = sorted(self.filters), sorted(self.scores)
        self.filters.clear()
        self.scores.clear()
        return found


def counting(key: CacheKey, asked: Asked, *, table: bool) -> type[Plugin]:
    class OneNode(Plugin):
        name = "Counting"
        cache_key = key

        def filter(self, state: Any, pod: Any, node: Any) -> None:
            asked.filters.append(node.name)

        def score(self, state: Any, pod: Any, node: Any) -> int:
            asked.scores.append(node.name)
            return 0 if node.name == "a" else 50  # nothing goes to a while there are others

    class Table(Plugin):
        name = "Counting"
        cache_key = key

        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> None:
            asked.filters.extend(nodes.names)

        def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            asked.scores.extend(nodes.names)
            return np.array([0 if name == "a" else 50 for name in nodes.names])

    return Table if table else OneNode


class Setup:
    def __init__(self, cache_key: CacheKey, table: bool) -> None:
        self.asked = Asked()
        plugin = counting(cache_key, self.asked, table=table)
        config = config_with([plugin], defaults=False)
        nodes = [make_node(name) for name in NAMES]
        self.cluster: Cluster = make_cluster(nodes, plugins=[plugin], config=config)
        self._numbers: Iterator[int] = iter(range(1000))

    def schedule(self, **pod: Any) -> str:
        """Schedule one more pod; the node it went to."""
        name = f"pod-{next(self._numbers)}"
        self.cluster.apply(make_pod(name, **pod))
        self.cluster.schedule()
        return self.cluster.node_of(name)


@pytest.fixture(params=[False, True], ids=["one node", "table"])
def table(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


ALL = list(NAMES)


class TestNode:
    def test_asked_once_for_all_pods_of_a_shape(self, table: bool) -> None:
        setup = Setup(CacheKey.NODE, table)
        setup.schedule()
        assert setup.asked.take() == (ALL, ALL)
        for _ in range(5):
            setup.schedule()
        assert setup.asked.take() == ([], [])

    def test_asked_again_about_a_node_that_changed(self, table: bool) -> None:
        setup = Setup(CacheKey.NODE, table)
        setup.schedule()
        setup.asked.take()
        setup.cluster.apply(make_node("c", labels={"new": "yes"}))
        setup.schedule()
        assert setup.asked.take() == (["c"], ["c"])

    def test_not_asked_again_for_a_heartbeat(self, table: bool) -> None:
        setup = Setup(CacheKey.NODE, table)
        setup.schedule()
        setup.asked.take()
        setup.cluster.apply(make_node("c"))
        setup.schedule()
        assert setup.asked.take() == ([], [])

    def test_pods_that_come_and_go_do_not_matter(self, table: bool) -> None:
        setup = Setup(CacheKey.NODE, table)
        setup.schedule()
        setup.asked.take()
        there = make_pod("there", node_name="b")
        setup.cluster.apply(there)
        setup.schedule()
        setup.cluster.delete(there)
        setup.schedule()
        assert setup.asked.take() == ([], [])

    def test_another_shape_is_another_question(self, table: bool) -> None:
        setup = Setup(CacheKey.NODE, table)
        setup.schedule()
        setup.asked.take()
        setup.schedule(labels={"app": "web"})
        assert setup.asked.take() == (ALL, ALL)
        setup.schedule()
        setup.schedule(labels={"app": "web"}, annotations={"not": "of the shape"})
        assert setup.asked.take() == ([], [])


class TestAmounts:
    def test_asked_about_a_node_that_is_fuller_than_any_was(self, table: bool) -> None:
        """The nodes are of one size, so that a pod more on one is as good as a pod more on another."""
        setup = Setup(CacheKey.RESOURCES, table)
        first = setup.schedule()
        assert setup.asked.take() == (ALL, ALL)
        others = [setup.schedule(), setup.schedule()]
        assert setup.asked.take() == ([first], [first])
        assert len({first, *others}) == 3, "another seed, please"

    def test_asked_again_where_pods_of_other_requests_came(self, table: bool) -> None:
        setup = Setup(CacheKey.RESOURCES, table)
        setup.schedule()
        setup.schedule()
        setup.asked.take()
        setup.cluster.apply(make_pod("large", node_name="a", requests={"cpu": "2"}))
        setup.schedule()
        assert setup.asked.take() == (["a"], ["a"])

    def test_asked_again_about_a_node_that_has_more_to_give(self, table: bool) -> None:
        setup = Setup(CacheKey.RESOURCES, table)
        setup.schedule()
        setup.schedule()
        setup.asked.take()
        setup.cluster.apply(make_node("b", allocatable={"cpu": "64"}))
        setup.schedule()
        assert setup.asked.take() == (["b"], ["b"])


class TestPods:
    def test_asked_again_about_the_node_that_the_last_pod_went_to(self, table: bool) -> None:
        setup = Setup(CacheKey.NODE_AND_PODS, table)
        went_to = setup.schedule()
        assert setup.asked.take() == (ALL, ALL)
        for _ in range(5):
            last, went_to = went_to, setup.schedule()
            assert setup.asked.take() == ([last], [last])

    def test_asked_again_where_pods_came_or_went(self, table: bool) -> None:
        setup = Setup(CacheKey.NODE_AND_PODS, table)
        setup.cluster.apply(make_pod("leaving", node_name="d"))
        last = setup.schedule()
        setup.asked.take()
        setup.cluster.apply(make_pod("coming", node_name="a"))
        setup.cluster.delete(setup.cluster.pod("leaving"))
        setup.schedule()
        filters, scores = setup.asked.take()
        assert filters == scores == sorted({"a", "d", last})

    def test_asked_again_about_a_node_that_changed(self, table: bool) -> None:
        setup = Setup(CacheKey.NODE_AND_PODS, table)
        last = setup.schedule()
        setup.asked.take()
        setup.cluster.apply(make_node("a", cpu="1"))
        setup.schedule()
        assert setup.asked.take() == (sorted({"a", last}), sorted({"a", last}))


class TestNodes:
    def test_asked_again_about_all_nodes_when_one_changed(self, table: bool) -> None:
        setup = Setup(CacheKey.ALL_NODES, table)
        setup.schedule()
        setup.asked.take()
        setup.cluster.apply(make_node("c", labels={"new": "yes"}))
        setup.schedule()
        assert setup.asked.take() == (ALL, ALL)

    def test_pods_that_come_and_go_do_not_matter(self, table: bool) -> None:
        setup = Setup(CacheKey.ALL_NODES, table)
        setup.schedule()
        setup.asked.take()
        setup.cluster.apply(make_pod("there", node_name="b"))
        setup.schedule()
        setup.schedule()
        assert setup.asked.take() == ([], [])


class TestAnything:
    def test_asked_about_everything_each_time(self, table: bool) -> None:
        setup = Setup(CacheKey.NONE, table)
        for _ in range(3):
            setup.schedule()
            assert setup.asked.take() == (ALL, ALL)


@pytest.mark.parametrize("cache_key", CacheKey)
class TestAll:
    def test_asked_about_new_nodes(self, cache_key: CacheKey, table: bool) -> None:
        setup = Setup(cache_key, table)
        setup.schedule()
        setup.asked.take()
        setup.cluster.apply(make_node("new"))
        setup.schedule()
        filters, scores = setup.asked.take()
        assert "new" in filters
        assert "new" in scores

    def test_not_asked_about_nodes_that_are_gone(self, cache_key: CacheKey, table: bool) -> None:
        setup = Setup(cache_key, table)
        setup.schedule()
        setup.asked.take()
        setup.cluster.delete(make_node("e"))
        assert setup.schedule() != "e"
        filters, scores = setup.asked.take()
        assert "e" not in filters + scores

    def test_without_reuse_everything_is_asked_each_time(self, cache_key: CacheKey, table: bool) -> None:
        setup = Setup(cache_key, table)
        for profile in setup.cluster.scheduler.profiles.values():
            profile.reuse = False
        for _ in range(3):
            setup.schedule()
            assert setup.asked.take() == (ALL, ALL)


class TestPreparation:
    """pre_filter and pre_score of a plugin whose answers follow from the shape are asked once for it."""

    @staticmethod
    def prepared(key: CacheKey) -> tuple[Cluster, list[str], list[Any]]:
        calls: list[str] = []
        read: list[Any] = []

        class Prepares(Plugin):
            name = "Prepares"
            cache_key = key

            def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
                calls.append("pre_filter")
                state.write("filter", pod.labels.get("app"))
                return None

            def filter(self, state: Any, pod: Any, node: Any) -> None:
                read.append(state.read("filter"))

            def pre_score(self, state: Any, pod: Any, nodes: Any) -> Any:
                calls.append("pre_score")
                state.write("score", pod.labels.get("app"))
                return None

            def score(self, state: Any, pod: Any, node: Any) -> int:
                read.append(state.read("score"))
                return 0

            def reserve(self, state: Any, pod: Any, node_name: str) -> None:
                read.append((state.read("filter"), state.read("score")))

        config = config_with([Prepares], defaults=False)
        cluster = make_cluster([make_node(n) for n in NAMES], plugins=[Prepares], config=config)
        return cluster, calls, read

    @pytest.mark.parametrize("cache_key", [CacheKey.NODE, CacheKey.NODE_AND_PODS, CacheKey.ALL_NODES])
    def test_asked_once_for_a_shape(self, cache_key: CacheKey) -> None:
        cluster, calls, read = self.prepared(cache_key)
        cluster.apply(*(make_pod(f"web-{i}", labels={"app": "web"}) for i in range(3)))
        cluster.schedule()
        assert calls == ["pre_filter", "pre_score"]
        read.clear()
        cluster.apply(make_pod("db", labels={"app": "db"}))
        cluster.schedule()
        assert calls == ["pre_filter", "pre_score"] * 2
        assert {each for each in read if isinstance(each, str)} == {"db"}

    @pytest.mark.parametrize("cache_key", CacheKey)
    def test_what_was_written_is_there_in_every_cycle(self, cache_key: CacheKey) -> None:
        cluster, _, read = self.prepared(cache_key)
        for i in range(3):
            for app in ("web", "db"):
                read.clear()
                cluster.apply(make_pod(f"{app}-{i}", labels={"app": app}))
                cluster.schedule()
                assert read[-1] == (app, app)

    def test_asked_each_time_by_default(self) -> None:
        cluster, calls, _ = self.prepared(CacheKey.NONE)
        cluster.apply(*(make_pod(f"web-{i}", labels={"app": "web"}) for i in range(3)))
        cluster.schedule()
        assert calls == ["pre_filter", "pre_score"] * 3
