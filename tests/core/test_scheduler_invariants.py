"""What must hold whatever happens: no pod bound twice, no node overfilled, none lost, nothing by chance."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import resources
from mooring.api.objects import Pod
from mooring.core.decision import Decision
from mooring.core.effects import Bind, Effect, EmitEvent, Evict, PatchPodStatus
from tests.state.histories import History, Setting, histories
from tests.state.moment import Moment
from tests.state.world import Event, World
from tests.strategies import examples


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """Bindings fail by the hundred here, and each would log its traceback."""
    logger = logging.getLogger("mooring")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


# ---- the same again


def told(effect: Effect) -> tuple[Any, ...]:
    """An effect by content."""
    if isinstance(effect, Bind):
        return "bind", effect.cycle.pod.key, effect.cycle.pod.uid, effect.cycle.node_name
    if isinstance(effect, EmitEvent):
        return "event", effect.regarding.uid, effect.type, effect.reason, effect.action, effect.note
    if isinstance(effect, PatchPodStatus):
        return "patch", effect.pod.uid, effect.condition, effect.nominated_node
    assert isinstance(effect, Evict)
    return "evict", effect.victim.uid, effect.preemptor.uid, effect.condition


@given(histories)
@examples(60)
def test_the_same_events_seed_and_clock_give_the_same_decisions_and_effects(history: History) -> None:
    runs = []
    for _ in range(2):
        world = World(history.rules, templates=history.templates)
        for event in history.all_events:
            world.happen(event)
        runs.append((world.decisions, [told(effect) for effect in world.cluster.effects]))
    assert runs[0] == runs[1]


# ---- room


class Ledger:
    """Checks each placement with plain arithmetic over the objects, without any of the scheduler's sums."""

    def __init__(self, world: World) -> None:
        self.world = world

    def pending(self) -> dict[str, Pod]:
        return {pod.key: pod for pod in self.world.cluster.pods.values() if not pod.spec.node_name}

    def check(self, decision: Decision, before: dict[str, Pod]) -> None:
        if not decision.node:
            return
        scheduler = self.world.scheduler
        pod = before[decision.pod]  # it existed and had no node
        assert pod.spec.scheduler_name in scheduler.profiles
        assert not pod.terminating
        assert not pod.spec.scheduling_gates
        node = self.world.nodes[decision.node]
        assert scheduler.cluster.node(node.name) is not None
        on_node = {info.uid: info.pod for info in scheduler.cluster.table.nodes[self.row(node.name)].pods}
        bound = {p.uid for p in self.world.cluster.pods.values() if p.spec.node_name == node.name}
        assert bound - {pod.uid} <= on_node.keys()  # all that run there count
        if pod.uid not in on_node:
            return  # it failed after the choice, and left again
        allocatable = resources.allocatable(node)
        assert len(on_node) <= allocatable.get("pods", 0)
        used: Counter[str] = Counter()
        for other in on_node.values():
            used.update(requests_of(other, use_status=True))
        for name, amount in requests_of(pod, use_status=False).items():
            if amount and name in (
                "cpu",
                "memory",
                "ephemeral-storage",
                "example.com/gpu",
                "example.com/late",
            ):
                assert used[name] <= allocatable.get(name, 0), f"{name} on {node.name}"

    def row(self, name: str) -> int:
        return self.world.scheduler.cluster.table.row_of[name]


def requests_of(pod: Pod, use_status: bool) -> dict[str, int]:
    return resources.pod_requests(pod, use_status=use_status, pod_level=True, non_missing=False)


def step(world: World, event: Event, ledger: Ledger) -> None:
    world.happen(event._replace(attempts=0))
    for _ in range(event.attempts):
        before = ledger.pending()
        decision = world.attempt()
        if decision is None:
            break
        ledger.check(decision, before)


@given(histories)
@examples(120)
def test_no_pod_is_bound_twice_no_node_overfilled_and_nobody_bound_who_should_not_be(
    history: History,
) -> None:
    world = World(history.rules, templates=history.templates)
    ledger = Ledger(world)
    for event in history.all_events:
        step(world, event, ledger)
        table = world.scheduler.cluster
        assert table.assumed_count() == len(world.cluster.held) + len(world.scheduler.waiting) - gone(world)
    twice = [uid for uid, times in Counter(uid for uid, _ in world.cluster.bound).items() if times > 1]
    assert not twice
    ours = world.scheduler.profiles
    foreign = {p.uid for p in world.cluster.pods.values() if p.spec.scheduler_name not in ours}
    assert not foreign & {uid for uid, _ in world.cluster.bound}


def gone(world: World) -> int:
    """The bindings under way whose pod is gone or elsewhere: nothing of them is assumed any more."""
    return sum(not world.scheduler.cluster.is_assumed(bind.cycle.pod.uid) for bind in world.cluster.held)


# ---- nothing is lost


def calm_down(world: World) -> None:
    """Nothing more goes wrong, and time passes until everyone has had a chance."""
    world.cluster.refusing = 0
    for _ in range(8):
        world.cluster.settle()
        for held in world.scheduler.waiting:
            held.allow("OddPermit")
        for pod in [pod for pod in world.cluster.pods.values() if pod.terminating]:
            world.cluster.delete(pod)
        world.happen(Event("tick", (340.0,), attempts=60))


@pytest.mark.slow
@given(histories)
@examples(60)
def test_in_the_end_no_pod_waits_that_a_new_scheduler_would_place(history: History) -> None:
    world = World(history.rules, templates=history.templates)
    for event in history.all_events:
        world.happen(event)
    calm_down(world)
    assert world.scheduler.cluster.assumed_count() == 0
    assert not list(world.scheduler.queue.in_flight())
    moment = Moment(world)
    for key, pod in moment.pending.items():
        if pod.spec.scheduler_name not in world.scheduler.profiles:
            continue
        assert world.scheduler.queue.get(key) is not None, f"{key} is in no queue"
        if not pod.spec.scheduling_gates:
            again = moment.again(history.rules, key)
            assert again.result != "scheduled", f"{key} would fit on {again.node}"


# ---- time


@given(histories)
@examples(60)
def test_nothing_is_due_before_the_time_it_names_and_something_is_then(history: History) -> None:
    """A driver sleeps until `next_wake` and misses nothing, and it never spins."""
    world = World(history.rules, templates=history.templates)
    for event in history.all_events:
        world.happen(event._replace(attempts=200))
        if world.attempt() is not None:
            continue  # still busy
        wake = world.scheduler.next_wake()
        assert wake is None or wake > world.now
        early = 1000.0 if wake is None else (wake - world.now) * 0.999
        assert world.happen(Event("tick", (early,))) == []
        if wake is not None:
            world.happen(Event("tick", (wake - world.now,), attempts=200))
            again = world.scheduler.next_wake()
            assert again is None or again > world.now or world.attempt() is not None


def test_a_node_that_shrinks_gets_no_more_pods() -> None:
    setting = Setting()
    world = World(setting.rules, templates=[{"requests": {"cpu": "1"}}])
    ledger = Ledger(world)
    node = {"name": "n0", "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    for event in (
        Event("node", (node,)),
        Event("pods", (0, 3)),
        Event("node", ({**node, "allocatable": {"cpu": "2", "pods": "110"}},)),
        Event("pods", (0, 2)),
    ):
        step(world, event, ledger)
    assert len(world.cluster.bound) == 3
    world.happen(Event("node", (node,)))
    assert len(world.cluster.bound) == 4


@given(st.lists(st.sampled_from([0, 250, 500, 1000, 1500]), min_size=1, max_size=12), st.integers(0, 3))
@examples(60)
def test_first_come_first_served_until_it_is_full(requests: list[int], seed: int) -> None:
    """One node, pods without anything else: whoever fits in what is left is placed, nobody else."""
    world = World(Setting(seed=seed).rules)
    world.happen(Event("node", ({"name": "n0", "allocatable": {"cpu": "3", "pods": "9"}},)))
    templates = [{"requests": {"cpu": f"{cpu}m"}} for cpu in requests]
    world.templates = templates
    room, count = 3000, 9
    for i, cpu in enumerate(requests):
        fits = (cpu <= room or cpu == 0) and count > 0
        decisions = world.happen(Event("pods", (i, 1)))
        placed = next(d for d in decisions if d.pod == f"default/p{i + 1}")
        assert (placed.result == "scheduled") == fits
        if fits:
            room, count = room - cpu, count - 1
    bound = [pod for pod in world.cluster.pods.values() if pod.spec.node_name]
    assert sum(requests_of(pod, use_status=False).get("cpu", 0) for pod in bound) == 3000 - room
