"""Bugs outside of plugins: they cost the pod a retry, and nobody else anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from mooring.core.queue import Place
from mooring.framework import CycleState, EventHint, Plugin, PodInfo, Status
from mooring.framework.cycle_state import PODS_TO_ACTIVATE
from tests.state.facts import whole
from tests.state.histories import configured
from tests.state.objects import node, pod
from tests.state.world import Rules, World


class Stasher(Plugin):
    """Leaves nonsense where the scheduler looks for pods to activate; it counts what it holds reserved."""

    name = "Stasher"
    reserved = 0

    def events_to_register(self) -> Iterable[EventHint]:
        return []

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        type(self).reserved += 1
        if "nonsense" in pod.labels:
            nonsense: Any = {"other": object()}
            state.write(PODS_TO_ACTIVATE, nonsense)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        type(self).reserved -= 1


STASHING = configured({"plugins": {"multiPoint": {"enabled": [{"name": Stasher.name}]}}})


def test_a_bug_while_choosing_fails_one_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(Rules())
    world.add(node("n0"))
    choose = world.scheduler.algorithm.choose

    def broken(profile: Any, pod: PodInfo, **more: Any) -> Any:
        if pod.name == "unlucky" and pod.name not in tried:
            tried.append(pod.name)
            raise IndexError("index 7 is out of bounds")
        return choose(profile, pod, **more)

    tried: list[str] = []
    monkeypatch.setattr(world.scheduler.algorithm, "choose", broken)
    world.add(pod("unlucky"), pod("other"))
    unlucky, other = world.run()
    assert (unlucky.result, unlucky.message) == ("error", "IndexError: index 7 is out of bounds")
    assert other.result == "scheduled"
    assert world.notes("FailedScheduling") == ["IndexError: index 7 is out of bounds"]
    assert "scheduling pod default/unlucky" in caplog.text
    assert "in broken" in caplog.text  # the traceback

    queued = world.scheduler.queue.get("default/unlucky")
    assert queued is not None
    assert queued.place is Place.ERROR_BACKOFF
    (again,) = world.wait(3)
    assert (again.pod, again.result, again.attempts) == ("default/unlucky", "scheduled", 2)


def test_a_bug_after_the_choice_is_undone() -> None:
    world = World(Rules(STASHING, (Stasher,)))
    Stasher.reserved = 0
    world.add(node("n0"))
    empty = whole(world.scheduler.cluster)
    world.add(pod("p", {"cpu": "1"}, labels={"nonsense": ""}))
    (decision,) = world.run()
    assert (decision.result, decision.node, decision.tried_node) == ("error", "", "n0")
    assert "AttributeError" in decision.message
    assert Stasher.reserved == 0
    assert whole(world.scheduler.cluster) == empty
    assert not list(world.scheduler.queue.in_flight())


def test_what_was_kept_for_the_shape_is_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory that a bug has spoilt does not spoil the retry."""
    world = World(Rules())
    world.add(node("n0"))
    world.add(pod("first"))
    world.run()
    (profile,) = world.scheduler.profiles.values()
    (memory,) = profile._caches.values()
    monkeypatch.setattr(memory, "filtering", None)
    world.add(pod("second"))
    (decision,) = world.run()
    assert decision.result == "error"
    (again,) = world.wait(3)
    assert again.result == "scheduled"
