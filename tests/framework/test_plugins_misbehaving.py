"""Plugins that raise, or answer what makes no sense: that attempt is an error which names the plugin.

Other pods and later attempts are not concerned, and the scheduler goes on.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from mooring.framework import (
    Action,
    CacheKey,
    PostFilterResult,
    PreFilterResult,
    Resource,
    Status,
    Verdicts,
    requeue_on,
    unschedulable,
    wait,
)
from mooring.framework.plugin import Plugin
from mooring.framework.status import Code
from mooring.runtime.groups import Groups
from mooring.runtime.runners import PluginError
from mooring.testing import Cluster, make_node, make_pod
from tests.framework.kit import beside_defaults, only, probe, raising

NEVER: list[Any] = []
BAD = "bad"  # the pod that a plugin misbehaves for


def for_bad(answer: Any, otherwise: Any = None) -> Any:
    """Answer so for the pod named "bad" only."""

    def choose(*args: Any) -> Any:
        pod = next(arg for arg in args if hasattr(arg, "namespace"))
        chosen = answer if pod.name == BAD else otherwise
        return chosen(*args) if callable(chosen) else chosen

    return choose


def array(*values: Any, dtype: Any = None) -> Any:
    return lambda *args: np.array(values, dtype)


def shaped(*shape: int) -> Any:
    return lambda *args: np.zeros(shape, np.int64)


def verdicts(codes: Any, statuses: Any) -> Any:
    return lambda *args: Verdicts(codes, statuses)


def groups(of: list[int], raw: list[Any], scores: list[Any]) -> Any:
    return lambda *args: Groups(np.array(of), np.array(raw), np.array(scores))


def zeros(*args: Any) -> Any:
    return np.zeros(len(args[-1]), np.int64)


NO = unschedulable("no")

# method, what it does wrong, and words that must be in the message
CASES: list[Any] = [
    pytest.param(method, wrong, words, id=f"{method}-{label}")
    for method, label, wrong, words in (
        ("pre_filter", "raises", raising, "ValueError: boom"),
        ("pre_filter", "wrong type", 7, "returned 7; expected None, a Status or a PreFilterResult"),
        ("filter", "raises", raising, "ValueError: boom"),
        ("filter", "wrong type", False, "filter plugin"),
        ("filter", "a string", "no room", "filter plugin"),
        ("filter_nodes", "raises", raising, "ValueError: boom"),
        ("filter_nodes", "wrong type", [NO, None], "expected Verdicts or None"),
        ("filter_nodes", "too short", verdicts(np.zeros(1, np.int32), {}), "(1,) codes for 2 nodes"),
        ("filter_nodes", "too long", verdicts(np.zeros(3, np.int32), {}), "(3,) codes for 2 nodes"),
        ("filter_nodes", "two-dimensional", verdicts(np.zeros((2, 1), np.int32), {}), "for 2 nodes"),
        ("filter_nodes", "no array", verdicts([1, 0], {1: NO}), "not an integer array"),
        ("filter_nodes", "floats", verdicts(np.array([1.0, 0.0]), {1: NO}), "not an integer array"),
        ("filter_nodes", "booleans", verdicts(np.array([True, False]), {1: NO}), "not an integer array"),
        (
            "filter_nodes",
            "skip",
            verdicts(np.array([1, 0]), {1: Status(Code.SKIP)}),
            "unexpected status Skip",
        ),
        ("pre_score", "raises", raising, "ValueError: boom"),
        ("pre_score", "wrong type", 7, "returned 7; expected None or a Status"),
        ("score", "raises", raising, "ValueError: boom"),
        ("score", "nothing", lambda *args: None, "for node a returned None; expected an integer"),
        ("score", "a float", 50.0, "for node a returned 50.0; expected an integer"),
        ("score", "NaN", float("nan"), "for node a returned nan; expected an integer"),
        ("score", "a boolean", True, "for node a returned True; expected an integer"),
        ("score", "a string", "50", "for node a returned '50'; expected an integer"),
        ("score", "too high", 101, "returns an invalid score 101, it should in the range of [0, 100]"),
        ("score", "too low", -1, "returns an invalid score -1, it should in the range of [0, 100]"),
        ("score", "beyond 64 bits", 2**70, "OverflowError"),
        ("score_nodes", "raises", raising, "ValueError: boom"),
        ("score_nodes", "nothing", lambda *args: None, "returned a NoneType; expected a NumPy array"),
        ("score_nodes", "a list", [1, 2], "returned a list; expected a NumPy array"),
        ("score_nodes", "too short", shaped(1), "gave (1,) scores for 2 nodes"),
        ("score_nodes", "too long", shaped(3), "gave (3,) scores for 2 nodes"),
        ("score_nodes", "two-dimensional", shaped(2, 1), "gave (2, 1) scores for 2 nodes"),
        ("score_nodes", "floats", array(1.0, 2.0), "gave float64 values; expected integers"),
        ("score_nodes", "NaN", array(1.0, float("nan")), "gave NaN; expected integers"),
        ("score_nodes", "too high", array(0, 101), "returns an invalid score 101"),
        ("score_nodes", "too low", array(-1, 0), "returns an invalid score -1"),
        ("normalize_score", "raises", raising, "ValueError: boom"),
        ("normalize_score", "nothing", lambda *args: None, "returned a NoneType; expected a NumPy array"),
        ("normalize_score", "too short", shaped(1), "gave (1,) scores for 2 nodes"),
        ("normalize_score", "floats", array(1.0, 2.0), "gave float64 values; expected integers"),
        ("normalize_score", "NaN", array(1.0, float("nan")), "gave NaN; expected integers"),
        ("normalize_score", "too high", array(0, 101), "returns an invalid score 101"),
        ("normalize_score", "too low", array(-1, 0), "returns an invalid score -1"),
        ("score_groups", "raises", raising, "ValueError: boom"),
        ("score_groups", "nothing", lambda *args: None, "returned None; expected Groups"),
        ("score_groups", "too few scores", groups([0, 0], [1, 2], [1]), "gave (2,) scores for 1 node"),
        ("score_groups", "floats", groups([0, 0], [1], [1.0]), "gave float64 values; expected integers"),
        ("score_groups", "too short", groups([0], [1], [1]), "put (1,) rows of 2 into groups"),
        ("score_groups", "no such group", groups([0, 1], [1], [1]), "IndexError"),
        ("score_groups", "too high", groups([0, 1], [1, 1], [0, 101]), "returns an invalid score 101"),
        ("reserve", "raises", raising, "ValueError: boom"),
        ("reserve", "wrong type", 7, "returned 7; expected None or a Status"),
        ("permit", "raises", raising, "ValueError: boom"),
        ("permit", "wrong type", (NO, 5.0), "expected None or a Status"),
        ("pre_bind", "raises", raising, "ValueError: boom"),
        ("pre_bind", "wrong type", 7, "returned 7; expected None or a Status"),
        ("bind", "raises", raising, "ValueError: boom"),
        ("bind", "wrong type", True, "returned True; expected None or a Status"),
    )
]

HARMLESS: dict[str, Any] = {
    "score": 0,
    "score_nodes": zeros,
    "normalize_score": zeros,
    "score_groups": groups([0, 0], [0], [0]),
}
COMPANIONS: dict[str, Any] = {
    "pre_score": {"score": 0},
    "normalize_score": {"score_nodes": zeros},
    "score_groups": {"score_nodes": zeros},
    "bind": {"bind": Status(Code.SKIP)},
}


def misbehaving(method: str, wrong: Any) -> type[Plugin]:
    """Wrong for pods named "bad", harmless for others."""
    otherwise = COMPANIONS.get(method, {}).get(method, HARMLESS.get(method))
    rest = {name: answer for name, answer in COMPANIONS.get(method, {}).items() if name != method}
    return probe("Bad", events_to_register=NEVER, **{method: for_bad(wrong, otherwise)}, **rest)


def failure(cluster: Cluster, pod: str) -> str:
    """What the pod's condition says; an error of the scheduler, not a refusal."""
    condition = cluster.pod(pod).status.conditions[0]
    assert (condition.status, condition.reason) == ("False", "SchedulerError")
    return condition.message


@pytest.mark.parametrize(("method", "wrong", "words"), CASES)
def test_the_attempt_is_an_error_and_nothing_else_suffers(method: str, wrong: Any, words: str) -> None:
    cluster = beside_defaults(misbehaving(method, wrong))
    cluster.apply(make_pod("before"), make_pod(BAD, requests={"cpu": "4"}), make_pod("after"))
    cluster.schedule()
    message = failure(cluster, BAD)
    assert '"Bad"' in message
    assert words in message
    assert cluster.node_of(BAD) == ""
    assert cluster.node_of("before")
    assert cluster.node_of("after")
    cluster.apply(make_pod("late", requests={"cpu": "3"}), make_pod("later", requests={"cpu": "3"}))
    cluster.schedule()  # the room that the bad pod was meant for is free
    assert cluster.node_of("late")
    assert cluster.node_of("later")
    assert {pod.name for pod in cluster.scheduler.cluster.pods()} == {"before", "after", "late", "later"}


@pytest.mark.parametrize(("method", "wrong", "words"), CASES)
def test_the_pod_is_tried_again_and_fits_once_the_plugin_behaves(method: str, wrong: Any, words: str) -> None:
    wrongs = [wrong]
    plain = COMPANIONS.get(method, {}).get(method, HARMLESS.get(method))

    def once(*args: Any) -> Any:
        chosen = wrongs[0] if wrongs else plain
        return chosen(*args) if callable(chosen) else chosen

    cluster = beside_defaults(misbehaving(method, once))
    cluster.apply(make_pod(BAD))
    cluster.schedule()
    assert failure(cluster, BAD)
    assert cluster.schedule() == []  # an error waits for its backoff
    wrongs.clear()
    cluster.advance(3)
    assert cluster.node_of(BAD)


def test_the_traceback_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    cluster = only(probe("Bad", filter=raising))
    cluster.apply(make_pod())
    with caplog.at_level(logging.ERROR):
        cluster.schedule()
    (record,) = caplog.records
    assert record.getMessage() == "plugin Bad raised in filter"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


@pytest.mark.parametrize("answer", [raising, 7, Status(Code.ERROR, "broken"), NO])
def test_a_pre_enqueue_that_fails_keeps_its_pod_out_and_no_other(answer: Any) -> None:
    cluster = only(probe("Bad", pre_enqueue=for_bad(answer)))
    cluster.apply(make_pod(BAD), make_pod("other"))
    cluster.schedule()
    assert cluster.node_of("other")
    queued = cluster.scheduler.queue.get(f"default/{BAD}")
    assert queued is not None
    assert queued.gating_plugin == "Bad"
    assert cluster.scheduler.queue.counts()["gated"] == 1


@pytest.mark.parametrize("answer", [raising, 7])
def test_an_unreserve_that_fails_does_not_keep_others_from_giving_back(answer: Any) -> None:
    calls: list[str] = []
    cluster = only(
        probe("First", calls, reserve=None, unreserve=None),
        probe("Bad", unreserve=answer, permit=NO, events_to_register=NEVER),
    )
    cluster.apply(make_pod())
    cluster.schedule()
    assert calls == ["First.reserve", "First.unreserve"]
    assert list(cluster.scheduler.cluster.pods()) == []


@pytest.mark.parametrize("answer", [raising, 7, "no"])
def test_a_post_filter_that_fails_leaves_the_pod_unschedulable(answer: Any) -> None:
    cluster = only(
        probe("Refuser", filter=for_bad(NO), events_to_register=NEVER),
        probe("Bad", post_filter=answer, events_to_register=NEVER),
    )
    cluster.apply(make_pod(BAD), make_pod("other"))
    cluster.schedule()
    assert cluster.decision(BAD).message.startswith("0/2 nodes are available: 2 no. ")
    assert cluster.node_of("other")


@pytest.mark.parametrize("method", ["filter", "filter_nodes"])
def test_refusals_that_were_kept_survive_a_failure(method: str) -> None:
    """A failed attempt leaves nothing half-done behind: the next one has the answers of a fresh start."""
    failing = [True]

    def sometimes(state: Any, pod: Any, nodes: Any) -> Any:
        if failing:
            raise ValueError("boom")
        return None

    bad = probe("Bad", None, **{method: sometimes})
    cluster = beside_defaults(bad, nodes=())
    cluster.apply(make_node("small", cpu="1"), make_node("large"))
    cluster.apply(make_pod("one", requests={"cpu": "2"}))
    cluster.schedule()
    assert failure(cluster, "one")
    failing.clear()
    cluster.apply(make_pod("two", requests={"cpu": "2"}))
    cluster.schedule()
    assert cluster.node_of("two") == "large"
    assert cluster.decision("two").refusals["small"].reasons == ["Insufficient cpu"]


@pytest.mark.parametrize("hint", [raising, None, 7, "Queue"])
def test_a_hint_that_fails_costs_an_attempt_and_no_more(hint: Any) -> None:
    full = [True]
    cluster = only(
        probe(
            "Bad",
            filter=lambda *args: NO if full else None,
            events_to_register=[
                requeue_on(Resource.NODE, Action.ADD, hint if callable(hint) else lambda *a: hint)
            ],
        )
    )
    cluster.apply(make_pod())
    cluster.schedule()
    full.clear()
    cluster.apply(make_node("new"))
    cluster.advance(3)
    assert cluster.node_of("pod")


def test_a_wait_whose_time_is_over_before_it_begins_ends_at_once() -> None:
    cluster = only(probe("Bad", permit=wait(-5, "held"), events_to_register=NEVER))
    cluster.apply(make_pod())
    cluster.advance(0)
    assert len(cluster.scheduler.waiting) == 0
    assert "rejected due to timeout" in cluster.pod("pod").status.conditions[0].message


# ---- answers that only look right


def test_a_pre_enqueue_of_the_wrong_type_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = only(probe("Bad", pre_enqueue=True))
    cluster.apply(make_pod())
    assert 'running PreEnqueue plugin "Bad": pre_enqueue returned True; expected' in caplog.text


def test_a_post_filter_of_the_wrong_type_is_named() -> None:
    cluster = only(probe("Bad", filter=NO, post_filter=True))
    cluster.apply(make_pod())
    cluster.schedule()
    expected = "post_filter returned True; expected None, a Status or a PostFilterResult"
    assert f'running PostFilter plugin "Bad": {expected}' in cluster.decision("pod").message


def test_events_of_the_wrong_type_are_named() -> None:
    with pytest.raises(PluginError, match=r'"Bad": events_to_register: .*yielded .Node.; expected requ'):
        only(probe("Bad", filter=NO, events_to_register=["Node"]))


@pytest.mark.parametrize("answer", [False, "no room", 7])
def test_a_filter_that_answers_no_status_is_told_what_is_expected(answer: Any) -> None:
    cluster = only(probe("Bad", filter=answer))
    cluster.apply(make_pod())
    cluster.schedule()
    expected = 'expected None or a Status, such as unschedulable("reason")'
    assert failure(cluster, "pod").endswith(f"filter returned {answer!r}; {expected}")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(PreFilterResult(["a"]), id="a list"),  # type: ignore[arg-type]
        pytest.param(PreFilterResult("a"), id="a string"),  # type: ignore[arg-type]
        pytest.param(PreFilterResult(None), id="nothing"),  # type: ignore[arg-type]
        pytest.param(PreFilterResult(frozenset({1})), id="numbers"),  # type: ignore[arg-type]
    ],
)
def test_a_restriction_that_is_no_set_of_names(wrong: Any) -> None:
    cluster = only(
        probe("Good", pre_filter=PreFilterResult(frozenset({"a", "b"}))),
        probe("Bad", pre_filter=for_bad(wrong)),
    )
    cluster.apply(make_pod(BAD), make_pod("other"))
    cluster.schedule()
    assert '"Bad"' in failure(cluster, BAD)
    assert cluster.node_of("other")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(verdicts(np.array([1, 2], np.int32), {1: NO}), id="a code without a status"),
        pytest.param(verdicts(np.array([-1, 0], np.int32), {1: NO}), id="a negative code"),
        pytest.param(verdicts(np.array([1, 0], np.int32), None), id="no statuses"),
    ],
)
def test_verdicts_that_explain_nothing(wrong: Any) -> None:
    cluster = only(probe("Bad", filter_nodes=for_bad(wrong)))
    cluster.apply(make_pod(BAD), make_pod("other"))
    cluster.schedule()
    assert '"Bad"' in failure(cluster, BAD)
    assert cluster.node_of("other")


@pytest.mark.parametrize("timeout", ["soon", None, float("nan")])
def test_a_wait_without_a_sensible_time(timeout: Any) -> None:
    """Either an error that names the plugin, or a wait that ends; never a pod that is held for ever."""
    cluster = only(probe("Bad", permit=for_bad(wait(timeout, "held")), events_to_register=NEVER))
    cluster.apply(make_pod(BAD), make_pod("other"))
    cluster.schedule()
    assert cluster.node_of("other")
    cluster.advance(15 * 60)
    assert len(cluster.scheduler.waiting) == 0
    assert BAD not in {pod.name for pod in cluster.scheduler.cluster.pods()}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(PostFilterResult("a", None, ("victim",)), id="victims that are no pods"),  # type: ignore[arg-type]
        pytest.param(PostFilterResult("a", "no"), id="a string as a status"),  # type: ignore[arg-type]
        pytest.param(PostFilterResult(7), id="a number as a node"),  # type: ignore[arg-type]
    ],
)
def test_a_post_filter_result_that_makes_no_sense(wrong: Any) -> None:
    cluster = only(
        probe("Refuser", filter=for_bad(NO), events_to_register=NEVER),
        probe("Bad", post_filter=wrong, events_to_register=NEVER),
    )
    cluster.apply(make_pod(BAD), make_pod("other"))
    cluster.schedule()
    assert cluster.node_of("other")
    assert cluster.node_of(BAD) == ""
    assert "Bad" in cluster.pod(BAD).status.conditions[0].message


def test_a_post_filter_that_fails_is_named() -> None:
    cluster = only(probe("Refuser", filter=NO, events_to_register=NEVER), probe("Bad", post_filter=raising))
    cluster.apply(make_pod())
    cluster.schedule()
    assert "Bad" in cluster.decision("pod").message


def test_a_queue_sort_that_raises_does_not_stop_the_scheduler() -> None:
    cluster = only(probe("Bad", sorts_before=raising))
    cluster.apply(*(make_pod(f"pod-{i}") for i in range(3)))
    cluster.schedule()
    assert all(pod.spec.node_name for pod in cluster.pods())


def test_events_to_register_that_raises_is_an_error_that_names_the_plugin() -> None:
    with pytest.raises(Exception, match="Bad"):
        only(probe("Bad", filter=None, events_to_register=raising))


# ---- a filter that fails for one node, where kube-scheduler goes on with the others


def failing_on(*names: str) -> type[Plugin]:
    def refuse(state: Any, pod: Any, node: Any) -> None:
        if node.name in names:
            raise ValueError(f"boom on {node.name}")

    return probe("Bad", filter=refuse, events_to_register=NEVER)


def preempting(*names: str) -> Cluster:
    """Two full nodes, and an important pod; the filter fails for some nodes, once there is room on them."""
    cluster = beside_defaults(failing_on(*names), nodes=())
    cluster.apply(make_node("a", cpu="1"), make_node("b", cpu="1"))
    for node in "ab":
        cluster.apply(make_pod(f"victim-{node}", requests={"cpu": "1"}, node_name=node))
    cluster.apply(make_pod("urgent", requests={"cpu": "1"}, priority=10))
    cluster.schedule()
    return cluster


def test_preemption_goes_on_with_other_nodes() -> None:
    for _ in range(3):  # the candidates are tried from a random one on
        cluster = preempting("b")
        cluster.advance(3)
        assert cluster.node_of("urgent") == "a"


def test_preemption_reports_what_failed_where_no_node_is_left() -> None:
    message = preempting("a", "b").decision("urgent").message
    failures = [f'running "Bad" filter plugin: ValueError: boom on {name}' for name in "ab"]
    assert any(f"preemption: [{', '.join(each)}]" in message for each in (failures, failures[::-1])), message


def test_a_pod_goes_to_its_nominated_node_though_a_filter_fails_for_others() -> None:
    cluster = beside_defaults(failing_on("b"))
    cluster.apply(make_pod("urgent", nominated_node="a"), make_pod("other"))
    cluster.schedule()
    assert cluster.node_of("urgent") == "a"
    assert '"Bad" filter plugin: ValueError: boom on b' in failure(cluster, "other")


class Halves(Plugin):
    """Normalises in place, as in Go, where NormalizeScore writes into the list it is given."""

    name = "Halves"
    cache_key = CacheKey.NODE

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 80 if node.name == "a" else 40

    def normalize_score(self, state: Any, pod: Any, scores: Any, nodes: Any) -> Any:
        scores //= 2
        return scores


def test_scores_normalised_in_place_are_normalised_once() -> None:
    cluster = only(Halves, nodes="abcdefgh")
    totals = []
    for i in range(4):
        cluster.apply(make_node("b", labels={"turn": str(i)}), make_pod(f"pod-{i}"))  # b is asked about again
        cluster.schedule()
        totals.append(cluster.decision(f"pod-{i}").total)
    assert totals == [[40, *[20] * 7]] * 4
