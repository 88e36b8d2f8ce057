"""One node or the whole table: the framework makes one of the other, and nobody can tell which it was."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from mooring.framework import (
    CacheKey,
    Code,
    Plugin,
    Status,
    Verdicts,
    pending,
    refuse,
    unresolvable,
    unschedulable,
)
from mooring.runtime.groups import Groups
from mooring.testing import Cluster, config_with, make_cluster, make_node, make_pod
from tests.framework.kit import probe

SMALL, SLOW, OLD = unschedulable("too small"), unresolvable("too slow", "and old"), pending("not ready")
ANSWERS: dict[str, Status | None] = {"a": None, "b": SMALL, "c": SLOW, "d": OLD, "e": None, "f": SMALL}
SCORES = {"a": 10, "b": 20, "c": 30, "d": 40, "e": 50, "f": 60}


class OneNode(Plugin):
    name = "Answers"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return ANSWERS[node.name] if pod.labels.get("refuse") == "yes" else None

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return SCORES[node.name]


class Table(Plugin):
    name = "Answers"

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Verdicts | None:
        if pod.labels.get("refuse") != "yes":
            return None
        statuses = {7: SMALL, 3: SLOW, 5: OLD}  # codes are the plugin's own business
        code_of = {id(status): code for code, status in statuses.items()}
        codes = [0 if (s := ANSWERS[name]) is None else code_of[id(s)] for name in nodes.names]
        return Verdicts(np.array(codes, np.int32), statuses)

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.array([SCORES[name] for name in nodes.names])


class InGroups(Table):
    """Two nodes a group: neighbours score alike."""

    GROUPED: ClassVar[dict[str, int]] = {name: 10 * (i // 2) for i, name in enumerate(SCORES)}

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.array([self.GROUPED[name] * 3 for name in nodes.names])

    def normalize_score(self, state: Any, pod: Any, scores: Any, nodes: Any) -> Any:
        return scores // 3

    def score_groups(self, state: Any, pod: Any, nodes: Any) -> Groups:
        of = np.array([self.GROUPED[name] // 10 for name in nodes.whole.names])
        return Groups(of, np.array([0, 30, 60, 999]), np.array([0, 10, 20, 333]))


def cluster_with(cls: type[Plugin], cache_key: CacheKey) -> Cluster:
    plugin = type(cls.__name__, (cls,), {"cache_key": cache_key})
    config = config_with([plugin], defaults=False)
    return make_cluster([make_node(name) for name in ANSWERS], plugins=[plugin], config=config)


@pytest.mark.parametrize("cache_key", CacheKey)
@pytest.mark.parametrize("cls", [OneNode, Table])
class TestEitherGrain:
    def test_refusals(self, cls: type[Plugin], cache_key: CacheKey) -> None:
        cluster = cluster_with(cls, cache_key)
        cluster.apply(make_pod(labels={"refuse": "yes"}))
        cluster.schedule()
        decision = cluster.decision("pod")
        found = {name: (r.status, r.plugin, r.reasons) for name, r in decision.refusals.items()}
        assert found == {
            "b": ("Unschedulable", "Answers", ["too small"]),
            "c": ("UnschedulableAndUnresolvable", "Answers", ["too slow", "and old"]),
            "d": ("Pending", "Answers", ["not ready"]),
            "f": ("Unschedulable", "Answers", ["too small"]),
        }
        assert decision.feasible == ["a", "e"]
        assert decision.node == "e"

    def test_scores(self, cls: type[Plugin], cache_key: CacheKey) -> None:
        cluster = cluster_with(cls, cache_key)
        cluster.apply(make_pod())
        cluster.schedule()
        decision = cluster.decision("pod")
        assert dict(zip(decision.feasible, decision.total, strict=True)) == SCORES
        assert decision.node == "f"

    def test_the_message_counts_each_reason(self, cls: type[Plugin], cache_key: CacheKey) -> None:
        cluster = cluster_with(cls, cache_key)
        for name in ("a", "e"):
            cluster.delete(make_node(name))
        cluster.apply(make_pod(labels={"refuse": "yes"}))
        (decision, *_) = cluster.schedule()
        assert decision.message == (
            "0/4 nodes are available: 1 and old, 1 not ready, 1 too slow, 2 too small."
        )

    def test_nodes_that_come_and_go(self, cls: type[Plugin], cache_key: CacheKey) -> None:
        cluster = cluster_with(cls, cache_key)
        cluster.apply(make_pod("first", labels={"refuse": "yes"}))
        cluster.schedule()
        cluster.delete(make_node("e"))  # its row is taken over by another
        cluster.apply(make_pod("second", labels={"refuse": "yes"}))
        cluster.schedule()
        assert cluster.node_of("second") == "a"
        assert set(cluster.decision("second").refusals) == {"b", "c", "d", "f"}


class TestGroups:
    def test_each_node_has_the_score_of_its_group(self) -> None:
        cluster = cluster_with(InGroups, CacheKey.NONE)
        cluster.apply(make_pod())
        cluster.schedule()
        decision = cluster.decision("pod")
        assert decision.scores["Answers"].raw == [0, 0, 30, 30, 60, 60]
        assert decision.scores["Answers"].normalized == [0, 0, 10, 10, 20, 20]
        assert (decision.total, decision.best) == ([0, 0, 10, 10, 20, 20], ["e", "f"])

    def test_nodes_that_are_not_feasible_do_not_count(self) -> None:
        cluster = cluster_with(InGroups, CacheKey.NONE)
        cluster.apply(make_pod(labels={"refuse": "yes"}))
        cluster.schedule()
        decision = cluster.decision("pod")
        assert (decision.feasible, decision.total, decision.node) == (["a", "e"], [0, 20], "e")

    def test_a_subclass_that_scores_in_its_own_way_is_asked_for_that(self) -> None:
        class Reversed(InGroups):
            def normalize_score(self, state: Any, pod: Any, scores: Any, nodes: Any) -> Any:
                return 20 - scores // 3

        cluster = cluster_with(Reversed, CacheKey.NONE)
        cluster.apply(make_pod())
        cluster.schedule()
        assert cluster.decision("pod").total == [20, 20, 10, 10, 0, 0]


def test_a_plugin_with_both_forms_is_asked_about_the_table() -> None:
    calls: list[str] = []
    both = probe(
        "Both",
        calls,
        filter=None,
        filter_nodes=None,
        score=0,
        score_nodes=lambda state, pod, nodes: np.zeros(len(nodes), np.int64),
    )
    cluster = make_cluster([make_node("a"), make_node("b")], plugins=[both])
    cluster.apply(make_pod())
    cluster.schedule()
    assert calls == ["Both.filter_nodes", "Both.score_nodes"]


def test_refuse_gives_all_refused_rows_one_status() -> None:
    odd = probe("Odd", filter_nodes=lambda s, p, nodes: refuse(np.arange(len(nodes)) % 2 == 1, SMALL))
    cluster = make_cluster([make_node(name) for name in "abc"], plugins=[odd])
    cluster.apply(make_pod())
    cluster.schedule()
    assert {name: r.reasons for name, r in cluster.decision("pod").refusals.items()} == {"b": ["too small"]}


def test_statuses_that_change_from_cycle_to_cycle_keep_their_meaning() -> None:
    """Code 1 means something else each time; what was kept of an earlier cycle must not be mixed up."""
    turn = [0]

    class Changing(Plugin):
        name = "Changing"
        cache_key = CacheKey.NODE_AND_PODS

        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Verdicts:
            codes = np.array([int(name != "a") for name in nodes.names], np.int32)
            return Verdicts(codes, {1: unschedulable(f"turn {turn[0]}")})

    cluster = make_cluster([make_node(name) for name in "abcdefgh"], plugins=[Changing])
    for i in range(3):
        turn[0] = i
        if i == 2:
            cluster.apply(make_node("c", labels={"new": "yes"}))  # asked about again, in the third turn
        cluster.apply(make_pod(f"pod-{i}"))
        cluster.schedule()
    refusals = cluster.decision("pod-2").refusals
    expected = {**dict.fromkeys("bcdefgh", "turn 0"), "c": "turn 2"}
    assert {name: r.reasons[0] for name, r in refusals.items()} == expected


def test_statuses_that_no_row_has_do_not_matter() -> None:
    unused = {1: SMALL, 2: Status(Code.SKIP), 3: Status(Code.ERROR, "broken")}
    table = probe("Table", filter_nodes=lambda s, p, nodes: Verdicts(np.array([1, 0], np.int32), unused))
    cluster = make_cluster([make_node("a"), make_node("b")], plugins=[table])
    cluster.apply(make_pod())
    cluster.schedule()
    assert cluster.node_of("pod") == "b"


def test_a_score_may_be_any_kind_of_integer() -> None:
    cluster = make_cluster(
        [make_node("a")],
        plugins=[
            probe("One", score=np.int16(7)),
            probe("Two", score_nodes=lambda *a: np.array([8], np.uint8)),
        ],
    )
    cluster.apply(make_pod())
    cluster.schedule()
    scores = cluster.decision("pod").scores
    assert (scores["One"].raw, scores["Two"].raw) == ([7], [8])


class OfSomeShapes(Table):
    """Scores pods only if they are labelled, and says so in advance."""

    asked = 0

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        OfSomeShapes.asked += 1
        return super().score_nodes(state, pod, nodes) if "scored" in pod.labels else np.zeros(len(nodes), int)

    def normalize_score(self, state: Any, pod: Any, scores: Any, nodes: Any) -> Any:
        return scores

    def scores_shape(self, pod: Any) -> bool:
        return "scored" in pod.labels


class TestScoresByShape:
    def test_a_plugin_is_not_asked_about_pods_that_it_does_not_score(self) -> None:
        OfSomeShapes.asked = 0
        cluster = cluster_with(OfSomeShapes, CacheKey.NONE)
        cluster.apply(make_pod("plain"), make_pod("scored", labels={"scored": "yes"}))
        cluster.schedule()
        assert OfSomeShapes.asked == 1
        plain = cluster.decision("plain")
        assert (plain.total, plain.scores["Answers"].raw) == ([0] * 6, [0] * 6)
        assert cluster.node_of("scored") == "f"

    def test_a_subclass_that_scores_in_another_way_is_asked(self) -> None:
        class Other(OfSomeShapes):
            def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
                return np.array([100 - SCORES[name] for name in nodes.names])

        cluster = cluster_with(Other, CacheKey.NONE)
        cluster.apply(make_pod())
        cluster.schedule()
        assert cluster.decision("pod").node == "a"
