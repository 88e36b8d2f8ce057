"""Every extension point is called, in kube-scheduler's order, and in the order that the profile gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from mooring.framework import Plugin, unschedulable
from mooring.testing import config_with, make_cluster, make_node, make_pod
from tests.framework.kit import beside_defaults, only, probe


def complete(name: str, calls: list[str], **answers: Any) -> type[Plugin]:
    """A plugin that takes part everywhere and agrees to everything."""
    return probe(
        name,
        calls,
        **{
            "pre_enqueue": None,
            "pre_filter": None,
            "filter": None,
            "post_filter": unschedulable("cannot help"),
            "pre_score": None,
            "score": 50,
            "normalize_score": lambda state, pod, scores, nodes: scores,
            "reserve": None,
            "unreserve": None,
            "permit": None,
            "pre_bind": None,
            "bind": None,
            "post_bind": None,
            **answers,
        },
    )


def without_repeats(calls: list[str]) -> list[str]:
    return [call for i, call in enumerate(calls) if i == 0 or calls[i - 1] != call]


def test_the_life_of_a_pod_that_fits() -> None:
    calls: list[str] = []
    cluster = only(complete("A", calls))
    cluster.apply(make_pod())
    cluster.schedule()
    assert cluster.decision("pod").result == "scheduled"
    assert calls == [
        "A.pre_enqueue",
        "A.pre_filter",
        "A.filter",
        "A.filter",
        "A.pre_score",
        "A.score",
        "A.score",
        "A.normalize_score",
        "A.reserve",
        "A.permit",
        "A.pre_bind",
        "A.bind",
        "A.post_bind",
    ]


def test_the_life_of_a_pod_that_does_not_fit() -> None:
    calls: list[str] = []
    cluster = only(complete("A", calls, filter=unschedulable("no"), events_to_register=[]))
    calls.clear()
    cluster.apply(make_pod())
    cluster.schedule()
    assert calls == ["A.pre_enqueue", "A.pre_filter", "A.filter", "A.filter", "A.post_filter"]


def test_plugins_run_in_the_order_of_the_profile() -> None:
    calls: list[str] = []
    cluster = only(complete("B", calls, bind=None), complete("A", calls))
    cluster.apply(make_pod())
    cluster.schedule()
    assert without_repeats(calls) == [
        "B.pre_enqueue",
        "A.pre_enqueue",
        "B.pre_filter",
        "A.pre_filter",
        "B.filter",
        "A.filter",
        "B.pre_score",
        "A.pre_score",
        "B.score",
        "B.normalize_score",
        "A.score",
        "A.normalize_score",
        "B.reserve",
        "A.reserve",
        "B.permit",
        "A.permit",
        "B.pre_bind",
        "A.pre_bind",
        "B.bind",  # it bound the pod, so that nobody else is asked
        "B.post_bind",
        "A.post_bind",
    ]


def test_a_list_of_its_own_orders_an_extension_point() -> None:
    calls: list[str] = []
    a, b = complete("A", calls), complete("B", calls)
    config = config_with([a, b], defaults=False)
    config["profiles"][0]["plugins"]["reserve"] = {"enabled": [{"name": "B"}, {"name": "A"}]}
    config["profiles"][0]["plugins"]["permit"] = {"disabled": [{"name": "A"}]}
    cluster = make_cluster([make_node()], plugins=[a, b], config=config)
    cluster.apply(make_pod())
    cluster.schedule()
    assert [c for c in calls if "reserve" in c or "permit" in c] == ["B.reserve", "A.reserve", "B.permit"]


def test_a_node_that_one_filter_refuses_is_no_business_of_the_next() -> None:
    asked: list[str] = []

    def not_a(state: Any, pod: Any, node: Any) -> Any:
        return unschedulable("not a") if node.name == "a" else None

    def note(state: Any, pod: Any, node: Any) -> None:
        asked.append(node.name)

    cluster = only(probe("First", filter=not_a), probe("Second", filter=note), nodes=("a", "b", "c"))
    cluster.apply(make_pod())
    cluster.schedule()
    assert asked == ["b", "c"]
    refusals = cluster.decision("pod").refusals
    assert {name: (r.plugin, r.reasons) for name, r in refusals.items()} == {"a": ("First", ["not a"])}


def test_a_single_feasible_node_needs_no_scores() -> None:
    calls: list[str] = []
    cluster = only(complete("A", calls), nodes=("a",))
    cluster.scheduler.record = False  # recorded decisions have the scores in any case
    cluster.apply(make_pod())
    cluster.schedule()
    assert cluster.decision("pod").node == "a"
    assert not [call for call in calls if "score" in call]


def test_scores_are_normalised_weighted_and_summed() -> None:
    def raw(*scores: int) -> Any:
        return lambda state, pod, nodes: np.array(scores)

    doubled = probe("Doubled", score_nodes=raw(10, 40), normalize_score=lambda s, p, scores, n: scores * 2)
    plain = probe("Plain", score_nodes=raw(90, 0))
    config = config_with([doubled, plain], defaults=False)
    config["profiles"][0]["plugins"]["score"] = {"enabled": [{"name": "Doubled", "weight": 3}]}
    cluster = make_cluster([make_node("a"), make_node("b")], plugins=[doubled, plain], config=config)
    cluster.apply(make_pod())
    cluster.schedule()
    decision = cluster.decision("pod")
    assert decision.feasible == ["a", "b"]
    score = decision.scores["Doubled"]
    assert (score.weight, score.raw, score.normalized, score.weighted) == (3, [10, 40], [20, 80], [60, 240])
    assert decision.scores["Plain"].weighted == [90, 0]
    assert decision.total == [150, 240]
    assert decision.node == "b"


def test_without_scores_all_nodes_are_equally_good() -> None:
    cluster = only(probe("A", filter=None))
    cluster.apply(*(make_pod(f"pod-{i}") for i in range(20)))
    decisions = cluster.schedule()
    assert all(d.best == ["a", "b"] and d.total == [1, 1] for d in decisions)
    assert {d.node for d in decisions} == {"a", "b"}


def test_the_queue_sort_of_a_plugin_orders_the_pods() -> None:
    def by_name_backwards(a: Any, b: Any) -> bool:
        return bool(a.pod.name > b.pod.name)

    cluster = only(probe("Backwards", sorts_before=by_name_backwards))
    cluster.apply(*(make_pod(name, priority=i) for i, name in enumerate("bca")))
    assert [decision.pod for decision in cluster.schedule()] == ["default/c", "default/b", "default/a"]


def test_several_profiles_run_each_its_own_plugins() -> None:
    calls: list[str] = []
    a, b = probe("A", calls, filter=None), probe("B", calls, filter=None)
    config = config_with([a], defaults=False)
    other = config_with([b], defaults=False)["profiles"][0]
    config["profiles"].append({**other, "schedulerName": "other"})
    cluster = make_cluster([make_node()], plugins=[a, b], config=config)
    cluster.apply(make_pod("one", scheduler_name="other"))
    cluster.schedule()
    assert calls == ["B.filter"]
    cluster.apply(make_pod("two"), make_pod("three", scheduler_name="nobody"))
    cluster.schedule()
    assert calls == ["B.filter", "A.filter"]
    assert cluster.node_of("three") == ""


def test_third_party_plugins_run_after_the_default_ones() -> None:
    asked: list[str] = []

    def note(state: Any, pod: Any, node: Any) -> None:
        asked.append(node.name)

    cluster = beside_defaults(probe("Late", filter=note), nodes=())
    cluster.apply(make_node("small", cpu="1"), make_node("large", cpu="8"))
    cluster.apply(make_pod(requests={"cpu": "2"}))
    cluster.schedule()
    assert asked == ["large"]  # NodeResourcesFit had refused the other
