"""What is kept from cycle to cycle must not be seen in any decision.

The same events go to schedulers that differ in what they may remember, and every attempt must come out the
same, in all its parts: refusals, scores, totals, the choice, and what preemption found.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.api.decode import KINDS
from mooring.api.objects import Node, Pod
from mooring.config import LoadedConfig, from_object
from mooring.core.decision import Decision
from tests.state.odd_plugins import ODD_PLUGINS
from tests.state.world import Event, Rules, World
from tests.strategies import NODE_NAMES, examples, labels, nodes, templates, things


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """Bindings fail by the hundred here, and each would log its traceback."""
    logger = logging.getLogger("mooring")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


def configured(*profiles: Mapping[str, Any]) -> LoadedConfig:
    return from_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": list(profiles),
        }
    )


def args(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "args": fields}


CONFIGS = {
    "default": None,
    "packing": configured(
        {
            "pluginConfig": [
                args(
                    "NodeResourcesFit",
                    scoringStrategy={
                        "type": "MostAllocated",
                        "resources": [{"name": "cpu", "weight": 2}, {"name": "example.com/gpu", "weight": 1}],
                    },
                ),
                args(
                    "PodTopologySpread",
                    defaultingType="List",
                    defaultConstraints=[
                        {
                            "maxSkew": 1,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "DoNotSchedule",
                        },
                        {
                            "maxSkew": 2,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                        },
                    ],
                ),
                args("InterPodAffinity", hardPodAffinityWeight=0, ignorePreferredTermsOfExistingPods=True),
            ]
        }
    ),
    "odd": configured(
        {"plugins": {"multiPoint": {"enabled": [{"name": cls.name, "weight": 2} for cls in ODD_PLUGINS]}}}
    ),
}
RULES = st.builds(
    lambda config, **others: Rules(CONFIGS[config], ODD_PLUGINS if config == "odd" else (), **others),
    st.sampled_from(sorted(CONFIGS)),
    seed=st.integers(0, 3),
    graceful=st.booleans(),
    late=st.booleans(),
)

_number = st.integers(0, 20)
_node_name = st.sampled_from(NODE_NAMES)
_KINDS: dict[str, Sequence[st.SearchStrategy[Any]]] = {
    "node": (nodes(),),
    "gone": (_number,),
    "thing": (things,),
    "no_thing": (_number,),
    "pods": (st.integers(0, 3), st.integers(1, 5)),
    "placed": (st.integers(0, 3), _node_name),
    "crowd": (st.integers(0, 3),),
    "urgent": (st.integers(0, 3),),
    "delete": (_number,),
    "recreate": (_number,),
    "terminate": (_number,),
    "finish": (_number,),
    "relabel": (_number, labels),
    "resize": (_number, st.sampled_from(["2", "50m"])),
    "start": (_number,),
    "nominate": (_number, _node_name),
    "ungate": (_number,),
    "bound_elsewhere": (_number, _node_name),
    "tick": (st.sampled_from([0.5, 3.0, 301.0]),),
    "refuse": (st.integers(1, 2),),
    "settle": (),
}
_OFTEN = ["node", "thing", "thing", *["pods"] * 5, "placed", "crowd", "urgent", "delete", "tick", "settle"]


@st.composite
def events(draw: st.DrawFn) -> Event:
    kind = draw(st.sampled_from([*_OFTEN, *_KINDS]))
    attempts = draw(st.sampled_from([12, 12, 1, 0]))
    return Event(kind, tuple(draw(arg) for arg in _KINDS[kind]), attempts)


class History(NamedTuple):
    rules: Rules
    templates: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    events: list[Event]


histories = st.builds(
    History,
    RULES,
    st.lists(templates(), min_size=2, max_size=4),
    st.lists(nodes(), min_size=2, max_size=6, unique_by=lambda node: str(node["name"])),
    st.lists(events(), min_size=10, max_size=25),
)


def agree(mine: Sequence[Decision], theirs: Sequence[Decision]) -> None:
    assert [decision.pod for decision in mine] == [decision.pod for decision in theirs]
    for a, b in zip(mine, theirs, strict=True):
        if a != b:
            told = msgspec.to_builtins(a), msgspec.to_builtins(b)
            assert told[0] == told[1]


@given(histories)
@examples(300)
def test_a_scheduler_that_remembers_decides_like_one_that_does_not(history: History) -> None:
    worlds = [World(history.rules, templates=history.templates, reuse=reuse) for reuse in (True, False)]
    for event in (*(Event("node", (node,), 0) for node in history.nodes), *history.events):
        with_reuse, without = (world.happen(event) for world in worlds)
        agree(with_reuse, without)
    mine, theirs = worlds
    assert mine.cluster.pods == theirs.cluster.pods
    assert [vars_of(e) for e in mine.cluster.events] == [vars_of(e) for e in theirs.cluster.events]


def vars_of(event: Any) -> tuple[str, ...]:
    return (event.regarding.key, event.type, event.reason, event.action, event.note)


# ---- a scheduler that was just started

_KINDS_KEPT = [kind for kind in KINDS.values() if kind not in (Pod, Node)]


class Moment:
    """All that a scheduler knows before an attempt, as plain objects."""

    def __init__(self, world: World) -> None:
        scheduler = world.scheduler
        self.now, self.luck = world.now, world.random.getstate()
        self.nodes = [row.node for row in scheduler.cluster.table.nodes]
        self.placed = [(info.pod, info.node_name) for info in scheduler.cluster.pods()]
        self.things = [obj for kind in _KINDS_KEPT for obj in scheduler.store.list(kind)]
        self.nominated = {
            name: [info.pod for info in pods]
            for name, pods in scheduler.queue.nominator.nodes_with_nominations().items()
        }
        self.pending = {pod.key: pod for pod in world.cluster.pods.values() if not pod.spec.node_name}

    def again(self, rules: Rules, key: str) -> Decision:
        """The attempt at a pod as a scheduler makes it that has never seen anything else."""
        world = World(rules)
        world.now = self.now
        scheduler = world.scheduler
        for obj in (*self.nodes, *self.things):
            scheduler.apply(obj)
        for pod, node_name in self.placed:
            scheduler.apply(replace(pod, spec=replace(pod.spec, node_name=node_name)))
        for node_name, pods in self.nominated.items():
            for pod in pods:
                scheduler.queue.nominator.add(scheduler.cluster.info(pod), node_name)
        scheduler.apply(self.pending[key])
        world.random.setstate(self.luck)
        decision = scheduler.schedule_one()
        assert decision is not None
        return decision


def volumes_in_flight(world: World) -> bool:
    """Whether volumes are promised to pods of which only this scheduler knows."""
    cycles = [bind.cycle for bind in world.cluster.held]
    cycles += [held.cycle for held in world.scheduler.waiting]
    return any(cycle.pod.spec.volumes for cycle in cycles)


@given(histories)
@examples(60)
def test_a_scheduler_that_was_just_started_decides_the_same(history: History) -> None:
    world = World(history.rules, templates=history.templates)
    for event in (*(Event("node", (node,), 0) for node in history.nodes), *history.events):
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
