"""The decision log: what is kept of each attempt, for how long, and at which length."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.core.decision import Decision, Ranked
from mooring.explain.log import LONGEST_MESSAGE, DecisionLog, Recording
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Status, error, unschedulable, wait
from mooring.testing import make_node, make_pod
from tests.explain.kit import Setting


def info(name: str = "pod", uid: str = "") -> PodInfo:
    pod = make_pod(name, uid=uid)
    return PodInfo.of(pod, Shape(pod))


def refusal(message: str = "no room", pod: str = "default/pod") -> Decision:
    return Decision(pod, "default-scheduler", "unschedulable", message=message)


# ---- what is in a record


def test_a_placed_pod_has_its_score_its_margin_and_who_made_the_difference() -> None:
    log = DecisionLog()
    setting = Setting(log)
    setting.apply(make_node("small", cpu="4"), make_node("large", cpu="8"), make_node("no", cpu="100m"))
    setting.apply(make_pod("web", requests={"cpu": "2"}))
    [attempt] = log.of("default/web")
    decision = attempt.decision
    assert (decision.result, decision.node, decision.attempts) == ("scheduled", "large", 1)
    assert (decision.nodes, decision.feasible_nodes, decision.best_nodes) == (3, 2, 1)
    assert [each.node for each in decision.ranking] == ["large", "small"]
    assert decision.margin == decision.ranking[0].total - decision.ranking[1].total > 0
    for each in decision.ranking:
        assert sum(each.scores) == each.total
    assert "NodeResourcesFit" in decision.scored_by
    assert not decision.full
    assert not decision.scores
    assert (attempt.first, attempt.last, attempt.count) == (setting.clock(), setting.clock(), 1)


def test_a_refused_pod_has_its_refusals_counted_by_plugin_and_reason() -> None:
    log = DecisionLog()
    setting = Setting(log)
    setting.apply(
        *(make_node(f"small-{i}", cpu="1") for i in range(3)), make_node("kept", taints="a=b:NoSchedule")
    )
    setting.apply(make_pod("web", requests={"cpu": "2"}))
    decision = log.of("default/web")[0].decision
    counted = {(each.plugin, *each.reasons): each.nodes for each in decision.refused}
    assert counted == {
        ("NodeResourcesFit", "Insufficient cpu"): 3,
        ("TaintToleration", "node(s) had untolerated taint(s)"): 1,
    }
    assert decision.unschedulable_plugins == ["NodeResourcesFit", "TaintToleration"]
    assert decision.message.startswith("0/4 nodes are available:")


def test_nodes_that_a_plugin_ruled_out_beforehand_are_counted_too() -> None:
    log = DecisionLog()
    setting = Setting(log)
    setting.apply(*(make_node(f"n{i}") for i in range(5)))
    pod = make_pod("web", requests={"cpu": "9"})
    fields = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [fields]}]
            }
        }
    }
    spec = {**msgspec.to_builtins(pod.spec), "affinity": affinity}
    setting.apply(msgspec.structs.replace(pod, spec=msgspec.convert(spec, type(pod.spec))))
    refused = log.of("default/web")[0].decision.refused
    assert [(each.nodes, each.reasons) for each in refused] == [
        (4, ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]),
        (1, ["Insufficient cpu"]),
    ]


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    asked=st.lists(st.integers(1, 4), min_size=1, max_size=8),
)
def test_the_summary_says_what_the_full_record_says(sizes: list[int], asked: list[int]) -> None:
    log = DecisionLog(Recording.FULL)
    setting = Setting(log)
    setting.apply(*(make_node(f"n{i}", cpu=size) for i, size in enumerate(sizes)))
    for i, cpu in enumerate(asked):
        setting.apply(make_pod(f"p{i}", requests={"cpu": cpu}))
        decision = log.of(f"default/p{i}")[-1].decision
        assert decision.full
        assert decision.feasible_nodes == len(decision.feasible)
        assert sum(each.nodes for each in decision.refused) == (
            0 if decision.node else len(decision.refusals)
        )
        if len(decision.feasible) > 1:
            order = sorted(zip(decision.total, decision.feasible, strict=True), reverse=True)
            mine = dict(zip(decision.feasible, decision.total, strict=True))[decision.node]
            assert (decision.ranking[0].node, decision.ranking[0].total) == (decision.node, mine)
            assert decision.best_nodes == len(decision.best)
            others = [total for total, name in order if name != decision.node]
            assert decision.margin == (mine - max(others) if others else None)
            _agree(decision, decision.ranking)


def _agree(decision: Decision, ranking: list[Ranked]) -> None:
    for each in ranking:
        place = decision.feasible.index(each.node)
        weighted = [decision.scores[name].weighted[place] for name in decision.scored_by]
        assert weighted == each.scores


# ---- repeats


def test_the_same_outcome_in_a_row_is_one_entry_with_a_count() -> None:
    log = DecisionLog()
    setting = Setting(log)
    setting.apply(make_node("small", cpu="1"), make_pod("web", requests={"cpu": "2"}))
    began = setting.clock()
    for _ in range(3):
        setting.advance(400)
    [attempt] = log.of("default/web")
    assert (attempt.count, attempt.first, attempt.last) == (4, began, began + 1200)
    assert attempt.decision.attempts == 4
    setting.apply(make_node("other", cpu="1"))
    setting.advance(400)
    assert [each.count for each in log.of("default/web")] == [4, 1]
    setting.apply(make_node("large", cpu="2"))
    assert [each.result for each in log.of("default/web")] == ["unschedulable", "unschedulable", "scheduled"]


def test_another_outcome_in_between_starts_a_new_entry() -> None:
    log = DecisionLog()
    for now, message in enumerate(("a", "a", "b", "a")):
        log.add(info(), refusal(message), now)
    assert [(each.message, each.count, each.first) for each in log.of("default/pod")] == [
        ("a", 2, 0),
        ("b", 1, 2),
        ("a", 1, 3),
    ]


def test_a_pod_created_anew_under_its_name_is_another_pod() -> None:
    log = DecisionLog()
    log.add(info(uid="1"), refusal(), 1)
    log.add(info(uid="2"), refusal(), 2)
    [attempt] = log.of("default/pod")
    assert (attempt.uid, attempt.count) == ("2", 1)


# ---- bounds


def test_the_pods_heard_of_longest_ago_make_room() -> None:
    log = DecisionLog(pods=3)
    for name in ("a", "b", "c", "a", "d"):
        log.add(info(name), refusal(pod=f"default/{name}"), 0)
    assert list(log) == ["default/d", "default/a", "default/c"]


def test_a_pod_keeps_its_last_outcomes_even_when_it_is_gone() -> None:
    log = DecisionLog(attempts=2)
    setting = Setting(log)
    pod = make_pod("web", requests={"cpu": "2"})
    setting.apply(pod)
    for name in ("a", "b"):
        setting.apply(make_node(name, cpu="1"))
        setting.advance(400)
    setting.cluster.delete(pod)
    assert [each.message[:5] for each in log.of("default/web")] == ["0/1 n", "0/2 n"]


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz"), st.integers(0, 3000)), max_size=60)
)
def test_no_history_exceeds_the_bounds(history: list[tuple[str, str, int]]) -> None:
    log = DecisionLog(Recording.FULL, pods=3, attempts=2, full_bytes=5000)
    for now, (name, message, nodes) in enumerate(history):
        decision = refusal(message, f"default/{name}")
        decision.full, decision.feasible = True, ["n"] * nodes
        log.add(info(name), decision, now)
        [*_, last] = log.of(f"default/{name}")
        assert last.message == message
    assert len(log) <= 3
    kept = [attempt for key in log for attempt in log.of(key)]
    assert all(len(log.of(key)) <= 2 for key in log)
    assert sum(len(attempt.full) for attempt in kept if attempt.full is not None) <= 5000


def test_a_message_without_end_is_cut() -> None:
    log = DecisionLog()
    log.add(info(), refusal("no " * LONGEST_MESSAGE), 0)
    log.add(info(), refusal("no " * LONGEST_MESSAGE), 1)
    [attempt] = log.of("default/pod")
    assert attempt.count == 2
    assert len(attempt.decision.message) == LONGEST_MESSAGE
    assert attempt.decision.message.endswith("…")


class Chatty(Plugin):
    name = "Chatty"

    def filter(self, state: Any, pod: Any, node: Any) -> Status:
        return unschedulable(f"not on {node.name}")


def test_a_plugin_with_a_reason_for_every_node_does_not_swell_the_summary() -> None:
    log = DecisionLog()
    setting = Setting(log, Chatty)
    setting.apply(*(make_node(f"n{i}") for i in range(40)), make_pod("web"))
    refused = log.of("default/web")[0].decision.refused
    assert len(refused) == 17
    assert (refused[-1].plugin, refused[-1].reasons, refused[-1].nodes) == ("", [], 24)


# ---- modes


def test_summary_keeps_summaries_even_of_decisions_made_in_full() -> None:
    log = DecisionLog()
    setting = Setting(log, record=True)
    setting.apply(make_node("a"), make_pod("web"))
    assert log.of("default/web")[0].full is None
    assert not log.of("default/web")[0].decision.scores


def test_one_in_so_many_is_told_in_full() -> None:
    log = DecisionLog(Recording.SAMPLED, sample=3)
    setting = Setting(log)
    setting.apply(make_node("a"), make_node("b"))
    for i in range(6):
        setting.apply(make_pod(f"p{i}"))
    assert [log.of(f"default/p{i}")[0].decision.full for i in range(6)] == [False, False, True] * 2


def test_recording_changes_no_decision() -> None:
    placed = []
    for log in (None, DecisionLog(), DecisionLog(Recording.SAMPLED, sample=2), DecisionLog(Recording.FULL)):
        setting = Setting(log)
        setting.apply(*(make_node(f"n{i}") for i in range(6)))
        setting.apply(*(make_pod(f"p{i}", requests={"cpu": "500m"}) for i in range(30)))
        placed.append([pod.spec.node_name for pod in setting.cluster.pods.values()])
    assert all(each == placed[0] for each in placed)
    assert len(set(placed[0])) == 6


class BadScore(Plugin):
    name = "BadScore"

    def score(self, state: Any, pod: Any, node: Any) -> int:
        raise RuntimeError("what is a score?")


def test_recording_in_full_asks_nobody_who_would_not_be_asked() -> None:
    setting = Setting(DecisionLog(Recording.FULL), BadScore)
    setting.apply(make_node("a"), make_node("b", cpu="100m"), make_pod("web", requests={"cpu": "1"}))
    [pod] = setting.cluster.pods.values()
    assert pod.spec.node_name == "a"


@pytest.mark.parametrize("bad", [{"sample": 0}, {"pods": 0}, {"attempts": 0}])
def test_bounds_that_leave_nothing_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected at least 1 each"):
        DecisionLog(**bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no log"):
        DecisionLog(Recording.OFF)


# ---- attempts that fail after a node was chosen


class Holds(Plugin):
    name = "Holds"

    def permit(self, state: Any, pod: Any, node_name: str) -> Status:
        return wait(10, "for its gang")


def test_a_permit_that_runs_out_is_recorded_when_it_does() -> None:
    log = DecisionLog()
    setting = Setting(log, Holds)
    setting.apply(make_node("a"), make_pod("web"))
    began = setting.clock()
    setting.clock.advance(10)
    setting.scheduler.tick()
    [attempt] = log.of("default/web")  # the choice and the refusal are one
    assert (attempt.result, attempt.first) == ("unschedulable", began + 10)
    assert (attempt.decision.tried_node, attempt.decision.feasible_nodes) == ("a", 1)
    assert attempt.decision.unschedulable_plugins == ["Holds"]
    assert "timeout" in attempt.message


class CannotBind(Plugin):
    name = "CannotBind"

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status:
        return error("the disk is on fire")


def test_a_binding_that_fails_is_recorded() -> None:
    log = DecisionLog()
    setting = Setting(log, CannotBind)
    setting.apply(make_node("a"))
    setting.cluster.apply(make_pod("web"))
    setting.cluster.run(limit=1)
    [attempt] = log.of("default/web")
    assert attempt.result == "error"
    assert "the disk is on fire" in attempt.message
    assert attempt.decision.tried_node == "a"


class Breaks(Plugin):
    name = "Breaks"

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        raise RuntimeError("no idea")


def test_an_attempt_that_a_plugin_broke_is_recorded() -> None:
    log = DecisionLog()
    setting = Setting(log, Breaks)
    setting.apply(make_node("a"))
    setting.cluster.apply(make_pod("web"))
    setting.cluster.run(limit=1)
    [attempt] = log.of("default/web")
    assert attempt.result == "error"
    assert "no idea" in attempt.message
