"""What is kept from cycle to cycle must not be seen in any decision.

The same events go to schedulers that differ in what they may remember, and every attempt must come out the
same, in all its parts: refusals, scores, totals, the choice, and what preemption found.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.core.decision import Decision
from tests.state.histories import HISTORIES, THEMES, History
from tests.state.moment import Moment
from tests.state.objects import node, pod
from tests.state.world import Rules, World
from tests.strategies import examples


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """Bindings fail by the hundred here, and each would log its traceback."""
    logger = logging.getLogger("mooring")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


LINES = st.sampled_from([0, 1, 64, 64])  # that the node table has for scalar resources


def agree(mine: Sequence[Decision], theirs: Sequence[Decision]) -> None:
    assert [decision.pod for decision in mine] == [decision.pod for decision in theirs]
    for a, b in zip(mine, theirs, strict=True):
        if a != b:
            told = msgspec.to_builtins(a), msgspec.to_builtins(b)
            assert told[0] == told[1]


QUICK = ("anything", "nodes", "spread")


@pytest.mark.parametrize(
    "theme",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in THEMES],
)
@given(data=st.data())
@examples(90)
def test_a_scheduler_that_remembers_decides_like_one_that_does_not(theme: str, data: st.DataObject) -> None:
    check(data.draw(HISTORIES[theme]), lines=data.draw(LINES))


@pytest.mark.parametrize("theme", THEMES)
@given(data=st.data())
@examples(15)
def test_with_more_nodes_than_ever_change_at_once(theme: str, data: st.DataObject) -> None:
    history = data.draw(HISTORIES[theme])
    check(history._replace(herds=data.draw(st.sampled_from([5, 12]))), lines=data.draw(LINES))


def check(history: History, lines: int) -> None:
    worlds = [World(history.rules, templates=history.templates, reuse=reuse) for reuse in (True, False)]
    worlds[0].scheduler.cluster.table.MOST_LINES = lines
    for event in history.all_events:
        with_reuse, without = (world.happen(event) for world in worlds)
        agree(with_reuse, without)
    mine, theirs = worlds
    assert mine.cluster.pods == theirs.cluster.pods
    assert [vars_of(e) for e in mine.cluster.events] == [vars_of(e) for e in theirs.cluster.events]


def vars_of(event: Any) -> tuple[str, ...]:
    return (event.regarding.key, event.type, event.reason, event.action, event.note)


@pytest.mark.parametrize("others", [1, 2, 12, 100])
def test_a_node_comes_and_another_goes_between_two_pods(others: int) -> None:
    """As many rows as before, and one of those that changed meanwhile is not there any more."""
    world = World(Rules())
    world.add(*(node(f"n{i}") for i in range(others)), node("last", {"cpu": "1", "pods": "0"}), pod("p"))
    world.run()
    world.add(node("new", {"cpu": "64", "memory": "64Gi", "pods": "110"}))
    world.remove(node("n0"))
    world.add(pod("q"))
    (decision,) = world.run()
    assert decision.node == "new"
    assert set(decision.refusals) == {"last"}
    assert len(decision.feasible) == others


# ---- a scheduler that was just started


def volumes_in_flight(world: World) -> bool:
    """Whether volumes are promised to pods of which only this scheduler knows."""
    cycles = [bind.cycle for bind in world.cluster.held]
    cycles += [held.cycle for held in world.scheduler.waiting]
    return any(cycle.pod.spec.volumes for cycle in cycles)


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
@given(data=st.data())
@examples(30)
def test_a_scheduler_that_was_just_started_decides_the_same(theme: str, data: st.DataObject) -> None:
    history = data.draw(HISTORIES[theme])
    world = World(history.rules, templates=history.templates)
    for event in history.all_events:
        world.happen(event._replace(attempts=0))
        for _ in range(event.attempts):
            before = Moment(world)
            comparable = not volumes_in_flight(world)
            decision = world.attempt()
            if decision is None:
                break
            if comparable:
                again = before.again(history.rules, decision.pod)
                again.attempts = decision.attempts
                agree([decision], [again])
