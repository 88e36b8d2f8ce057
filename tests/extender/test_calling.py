"""Extenders asked by the scheduler: who passes, what it is worth, who is asked, and in which form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mooring.core.event_map import EXTENDER
from mooring.testing import make_node
from tests.extender.calling_kit import FakeExtender, Setting, names_of, nodes, passing, pod, serving


@pytest.fixture
def extender() -> Iterator[FakeExtender]:
    with serving() as started:
        yield started


def scores(**by_host: int) -> Any:
    return lambda request: [{"Host": host, "Score": score} for host, score in by_host.items()]


@pytest.mark.parametrize("cached", [True, False])
def test_only_nodes_that_pass_are_taken(extender: FakeExtender, cached: bool) -> None:
    extender.verbs["filter"] = passing("b")
    setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": cached})
    setting.apply(*nodes("a", "b", "c"), pod())
    assert setting.node_of("web") == "b"
    (request,) = extender.asked("filter")
    assert request["Pod"]["metadata"]["name"] == "web"
    assert sorted(names_of(request)) == ["a", "b", "c"]
    assert (request["Nodes"] is None) == cached
    assert (request["NodeNames"] is None) == (not cached)
    assert set(request) == {"Pod", "Nodes", "NodeNames"}


def test_a_returned_node_is_the_one_we_know(extender: FakeExtender) -> None:
    """What the extender says about the node's allocatable or pods is not believed."""
    extender.verbs["filter"] = lambda request: {
        "Nodes": {"items": [{"metadata": {"name": n["metadata"]["name"]}} for n in request["Nodes"]["items"]]}
    }
    setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter"})
    full = [pod(f"old-{i}", requests={"cpu": "3"}, node_name="a") for i in range(2)]
    setting.apply(*nodes("a", "b"), *full, pod(requests={"cpu": "1"}))
    scored = setting.last.scores["NodeResourcesFit"]
    assert scored.raw[0] < scored.raw[1]
    assert setting.node_of("web") == "b"


def test_reasons_are_told_as_kube_scheduler_words_them(extender: FakeExtender) -> None:
    extender.verbs["filter"] = lambda request: {
        "NodeNames": [],
        "FailedNodes": {"a": "no license", "b": "no license", "elsewhere": "what?"},
        "FailedAndUnresolvableNodes": {"b": "never here"},
    }
    setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True})
    setting.apply(*nodes("a", "b", "c"), pod())
    assert setting.message("web") == (
        "0/3 nodes are available: 1 never here, 1 no license. no new claims to deallocate, "
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    assert setting.last.result == "unschedulable"
    assert setting.last.unschedulable_plugins == [EXTENDER]
    by_node = {name: (r.plugin, r.status, r.reasons) for name, r in setting.last.refusals.items()}
    who = f"extender {extender.url}"
    assert by_node == {
        "a": (who, "Unschedulable", ["no license"]),
        "b": (who, "UnschedulableAndUnresolvable", ["never here"]),
        "c": (who, "UnschedulableAndUnresolvable", []),
    }


def test_any_event_wakes_a_pod_that_an_extender_refused(extender: FakeExtender) -> None:
    extender.verbs["filter"] = passing()
    setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter"})
    setting.apply(*nodes("a"), pod())
    assert setting.node_of("web") == ""
    extender.verbs["filter"] = passing("a")
    setting.advance(60.0)
    assert setting.node_of("web") == ""  # time alone does not help
    setting.apply(make_node("a", cpu="8", memory="32Gi", labels={"priority": "10"}))
    assert setting.node_of("web") == "a"


def test_scores_are_weighted_and_added(extender: FakeExtender) -> None:
    extender.verbs["prioritize"] = scores(a=2, b=7, elsewhere=10)
    setting = Setting({"urlPrefix": extender.url, "prioritizeVerb": "prioritize", "weight": 3})
    setting.apply(*nodes("a", "b", "c"), pod())
    assert setting.node_of("web") == "b"
    found = setting.last.scores[f"extender {extender.url}"]
    assert (found.weight, found.raw, found.weighted) == (30, [2, 7, 0], [60, 210, 0])
    plugins = [s.weighted for name, s in setting.last.scores.items() if not name.startswith("extender")]
    assert setting.last.total == [sum(s[i] for s in plugins) + extra for i, extra in enumerate((60, 210, 0))]
    best, other = setting.last.ranking
    assert (best.node, best.scores[-1], other.node, other.scores[-1]) == ("b", 210, "a", 60)
    assert setting.last.scored_by[-1] == f"extender {extender.url}"


def test_scores_above_ten_count_in_full(extender: FakeExtender) -> None:
    """As in kube-scheduler, where people give the value of a label."""
    extender.verbs["prioritize"] = scores(a=50, b=-4)
    setting = Setting({"urlPrefix": extender.url, "prioritizeVerb": "prioritize", "weight": 1})
    setting.apply(*nodes("a", "b"), pod())
    assert setting.last.scores[f"extender {extender.url}"].weighted == [500, -40]


def test_a_weight_that_overflows_keeps_no_pod_from_being_scheduled(extender: FakeExtender) -> None:
    extender.verbs["prioritize"] = scores(a=0, b=0)
    setting = Setting({"urlPrefix": extender.url, "prioritizeVerb": "prioritize", "weight": 2**63 - 1})
    setting.apply(*nodes("a", "b"), pod())
    assert setting.node_of("web") in ("a", "b")


def test_an_extender_does_not_change_what_is_remembered_for_the_next_pod(extender: FakeExtender) -> None:
    extender.verbs["prioritize"] = scores(a=10)
    setting = Setting({"urlPrefix": extender.url, "prioritizeVerb": "prioritize", "weight": 100})
    setting.apply(*nodes("a", "b"), pod("one"))
    extender.verbs["prioritize"] = scores(b=1)
    setting.apply(pod("two"))
    assert (setting.node_of("one"), setting.node_of("two")) == ("a", "b")
    assert setting.last.scores[f"extender {extender.url}"].weighted == [0, 1000]


def test_a_single_feasible_node_needs_no_score(extender: FakeExtender) -> None:
    extender.verbs["prioritize"] = scores()
    setting = Setting({"urlPrefix": extender.url, "prioritizeVerb": "prioritize", "weight": 1}, record=False)
    setting.apply(*nodes("a"), pod())
    assert setting.node_of("web") == "a"
    assert extender.requests == []


def test_several_are_asked_in_order_about_what_is_left() -> None:
    with serving(filter=passing("a", "b")) as first, serving(filter=passing("b", "c")) as second:
        ask = {"filterVerb": "filter", "nodeCacheCapable": True}
        setting = Setting(
            {"urlPrefix": second.url, **ask, "ignorable": True}, {"urlPrefix": first.url, **ask}
        )
        setting.apply(*nodes("a", "b", "c"), pod())
        assert sorted(names_of(first.asked("filter")[0])) == ["a", "b", "c"]  # the ignorable one comes last
        assert sorted(names_of(second.asked("filter")[0])) == ["a", "b"]
        assert setting.node_of("web") == "b"


def test_the_same_answer_of_two_means_to_each_what_it_was_asked_for(extender: FakeExtender) -> None:
    """Names count for the one that was sent names, nodes for the one that was sent nodes."""
    extender.verbs["filter"] = lambda request: {
        "NodeNames": ["a", "b"],
        "Nodes": {"items": [{"metadata": {"name": "b"}}]},
    }
    asked = {"urlPrefix": extender.url, "filterVerb": "filter"}
    setting = Setting({**asked, "nodeCacheCapable": True}, asked)
    busy = pod("old", requests={"cpu": "3"}, node_name="b")
    setting.apply(*nodes("a", "b"), busy, pod(requests={"cpu": "100m"}))
    assert setting.node_of("web") == "b"


def test_several_are_asked_for_scores_together() -> None:
    with serving(score=scores(a=1)) as one, serving(score=scores(b=2)) as two:
        setting = Setting(
            *({"urlPrefix": each.url, "prioritizeVerb": "score", "weight": 10} for each in (one, two))
        )
        setting.apply(*nodes("a", "b"), pod())
        assert setting.node_of("web") == "b"
        assert [setting.last.scores[f"extender {each.url}"].weighted for each in (one, two)] == [
            [100, 0],
            [0, 200],
        ]


def test_only_pods_with_a_managed_resource_are_of_interest(extender: FakeExtender) -> None:
    extender.verbs["filter"] = passing("b")
    setting = Setting(
        {
            "urlPrefix": extender.url,
            "filterVerb": "filter",
            "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
        }
    )
    setting.apply(*nodes("a", "b"), pod("plain"))
    assert extender.requests == []
    setting.apply(pod("requesting", requests={"example.com/gpu": 1}))
    setting.apply(pod("limiting", limits={"example.com/gpu": 1}))
    assert [body["Pod"]["metadata"]["name"] for body in extender.asked("filter")] == [
        "requesting",
        "limiting",
    ]
    assert {setting.node_of("requesting"), setting.node_of("limiting")} == {"b"}


def test_a_nominated_node_must_pass_too(extender: FakeExtender) -> None:
    extender.verbs["filter"] = passing("b", a="not any more")
    setting = Setting({"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True})
    setting.apply(*nodes("a", "b"), pod(nominated_node="a"))
    assert [names_of(body) for body in extender.asked("filter")] == [["a"], ["a", "b"]]
    assert setting.node_of("web") == "b"


def test_binding_is_left_to_the_extender(extender: FakeExtender) -> None:
    extender.verbs["bind"] = lambda request: {"Error": ""}
    setting = Setting({"urlPrefix": extender.url, "bindVerb": "bind"}, binds=True)
    setting.apply(*nodes("a"), pod(uid="u-1"))
    assert extender.asked("bind") == [
        {"PodName": "web", "PodNamespace": "default", "PodUID": "u-1", "Node": "a"}
    ]
    assert setting.node_of("web") == ""  # what the extender did, an API server would tell
    assert [event.reason for event in setting.cluster.events] == ["Scheduled"]
    assert setting.scheduler.cluster.is_assumed("u-1")


def test_a_binding_that_the_extender_refuses_is_tried_again(extender: FakeExtender) -> None:
    extender.verbs["bind"] = lambda request: {"Error": "quota is used up"}
    setting = Setting({"urlPrefix": extender.url, "bindVerb": "bind"}, binds=True)
    setting.apply(*nodes("a"), pod())
    assert setting.message("web") == "quota is used up"
    extender.verbs["bind"] = lambda request: {}
    setting.advance(60.0)
    assert len(extender.asked("bind")) == 2
    assert setting.scheduler.cluster.is_assumed(setting.pod("web").uid)


def test_where_an_ignorable_extender_cannot_bind_the_plugins_do(extender: FakeExtender) -> None:
    extender.verbs["bind"] = lambda request: (500, b"")
    setting = Setting({"urlPrefix": extender.url, "bindVerb": "bind", "ignorable": True}, binds=True)
    setting.apply(*nodes("a"), pod())
    assert setting.node_of("web") == "a"
