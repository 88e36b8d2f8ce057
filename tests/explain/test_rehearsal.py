"""Asking changes nothing, whatever the cluster has been through, and the answer is what an attempt gives."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.objects import Node
from mooring.core.decision import Decision, record_choice
from mooring.core.scheduler import Scheduler
from mooring.explain.explain import decisions, recent
from mooring.explain.now import now
from mooring.explain.report import report
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status
from mooring.runtime.runners import PluginError
from mooring.testing import make_node, make_pod
from tests.explain.kit import Setting
from tests.state.histories import HISTORIES, THEMES, History
from tests.state.world import World
from tests.strategies import examples


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("mooring")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


def played(history: History) -> World:
    world = World(history.rules, templates=history.templates)
    for event in history.all_events:
        world.happen(event)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
@given(data=st.data())
@examples(5)
def test_a_scheduler_that_is_asked_decides_like_one_that_is_not(theme: str, data: st.DataObject) -> None:
    history = data.draw(HISTORIES[theme])
    asked, left_alone = (World(history.rules, templates=history.templates) for _ in range(2))
    for event in history.all_events:
        asked.happen(event)
        left_alone.happen(event)
        for pod in list(asked.cluster.pods.values()):
            explanation = decisions(asked.scheduler, None, pod.namespace, pod.name)
            if explanation is not None:
                assert list(report(explanation))
                assert (
                    msgspec.json.decode(msgspec.json.encode(explanation), type=type(explanation))
                    == explanation
                )
        asked.scheduler.queue.validate()
    assert asked.decisions == left_alone.decisions
    assert [event.note for event in asked.cluster.events] == [e.note for e in left_alone.cluster.events]
    assert asked.random.random() == left_alone.random.random()


@pytest.mark.parametrize("theme", THEMES)
@given(data=st.data())
@examples(12)
def test_a_rehearsal_comes_to_what_an_attempt_comes_to(theme: str, data: st.DataObject) -> None:
    scheduler = played(data.draw(HISTORIES[theme])).scheduler
    for queued in list(scheduler.queue):
        assert told(scheduler, queued.pod, rehearse=True) == told(scheduler, queued.pod, rehearse=False)


def told(scheduler: Scheduler, pod: PodInfo, rehearse: bool) -> Any:
    """What an attempt comes to, but for the choice among equals."""
    try:
        if rehearse:
            choice = scheduler.rehearse(pod)
        else:
            profile = scheduler.profiles[pod.scheduler_name]
            choice = scheduler.algorithm.choose(profile, pod, score_anyway=True)
    except PluginError as exc:
        return str(exc)
    decision = Decision(pod.key, "", "")
    record_choice(decision, choice, scheduler.cluster.table.names)
    if pod.status.nominated_node_name:  # which an attempt takes without looking at scores
        decision.scores, decision.total, decision.best, decision.skipped_scores = {}, [], [], []
    return decision


@pytest.mark.parametrize("theme", ["anything", "neighbours", "spread", "nodes"])
@given(data=st.data())
@examples(25)
def test_a_new_node_that_would_do_does(theme: str, data: st.DataObject) -> None:
    history = data.draw(HISTORIES[theme])
    if history.setting.config == "odd":
        history = history._replace(setting=history.setting._replace(config="default"))
    scheduler = played(history).scheduler
    for queued in list(scheduler.queue):
        found, _ = now(scheduler, queued.pod)
        for change in found.changes:
            if change.kind == "newNode":
                model = scheduler.cluster.node(change.examples[0])
                assert model is not None
                scheduler.apply(like(model.node))
                fits = scheduler.rehearse(queued.pod, score=False).feasible
                row = scheduler.cluster.table.row_of["new"]
                assert fits is not None
                assert fits[row], change.text
                scheduler.delete(like(model.node))


def like(node: Node) -> Node:
    labels = {**node.metadata.labels, "kubernetes.io/hostname": "new"}
    meta = msgspec.structs.replace(node.metadata, name="new", labels=labels, uid="new")
    return msgspec.structs.replace(node, metadata=meta)


def test_what_plugins_draw_and_emit_in_a_rehearsal_counts_for_nothing() -> None:
    class Busy(Plugin):
        name = "Busy"

        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            self.handle.random_below(1000)
            self.handle.emit_event(pod, "Normal", "Thinking", "Scheduling", "hm")
            return None

    drawn: list[int] = []
    setting = Setting(None, Busy)
    pick = setting.scheduler.pick

    def counted(n: int) -> int:
        drawn.append(n)
        return pick(n)

    setting.scheduler.pick = counted
    setting.apply(make_node("a"), make_node("b"))
    setting.cluster.apply(make_pod("web"))
    explanation = decisions(setting.scheduler, None, "default", "web")
    assert explanation is not None
    assert explanation.now is not None
    assert explanation.now.feasible == 2
    assert not drawn
    assert not setting.scheduler.effects
    setting.cluster.run()
    assert 1000 in drawn


def test_all_nodes_are_looked_at_whatever_share_is_to_be_scored() -> None:
    setting = Setting(None)
    profile = setting.scheduler.profiles["default-scheduler"]
    profile.percentage_of_nodes_to_score = 5
    setting.apply(*(make_node(f"n{i}") for i in range(300)))
    setting.cluster.apply(make_pod("web"))
    choice = setting.scheduler.rehearse(setting.scheduler.queue.get("default/web").pod)  # type: ignore[union-attr]
    assert choice.feasible is not None
    assert np.count_nonzero(choice.feasible) == 300


def test_a_plugin_that_fails_is_part_of_the_answer() -> None:
    class Breaks(Plugin):
        name = "Breaks"

        def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
            raise RuntimeError("out of ideas")

    setting = Setting(None, Breaks)
    setting.apply(make_node("a"))
    setting.cluster.apply(make_pod("web"))
    explanation = decisions(setting.scheduler, None, "default", "web")
    assert explanation is not None
    assert "out of ideas" in explanation.summary
    assert recent(setting.scheduler, None).pods == []
