"""Events of a scenario: objects applied or deleted at a time, nodes that fail, leave or are cordoned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from mooring.api.meta import KubeObject
from mooring.api.objects import Node
from mooring.simulate.engine import CoreRun, Order
from mooring.simulate.pod_log import Outcome
from mooring.simulate.random_streams import stream
from mooring.simulate.scenario import EventSpec, NodesEvent
from mooring.simulate.templates import read_objects
from mooring.simulate.units import parse_span

MOST_NAMES = 100_000


class Event(msgspec.Struct, eq=False):
    """Something that happens at a time; `work` does it to a run, with the random numbers of its seed."""

    at: float
    order: Order
    work: Callable[[CoreRun, np.random.Generator], None]
    what: str


def plan_events(run: CoreRun, events: list[Event], seed: int) -> None:
    """Have the events happen in a run."""
    for index, event in enumerate(events):
        random = stream(seed, f"event-{index}")
        run.at(event.at, event.order, lambda event=event, random=random: event.work(run, random))  # type: ignore[misc]


def compile_event(spec: EventSpec, folder: Path) -> Event:
    """Raises ValueError."""
    at = parse_span(spec.at)
    if spec.apply is not None:
        return Event(at, Order.CHANGE, _applying(read_objects(folder / spec.apply)), f"apply {spec.apply}")
    if spec.delete is not None:
        return Event(at, Order.CHANGE, _deleting(read_objects(folder / spec.delete)), f"delete {spec.delete}")
    change = spec.nodes
    assert change is not None
    given = [name for name in ("fail", "remove", "cordon") if getattr(change, name) is not None]
    if len(given) != 1:
        raise ValueError(f"nodes: expected exactly one of fail, remove, cordon, found {len(given)}")
    nodes: NodesEvent = getattr(change, given[0])
    if not 0 < nodes.count <= MOST_NAMES:
        raise ValueError(f"nodes: count: expected a number from 1 to {MOST_NAMES}, found {nodes.count}")
    back = None if nodes.for_ is None else parse_span(nodes.for_)
    if given[0] == "remove" and back is not None:
        raise ValueError("nodes: remove: nodes that come back fail; use fail with for")
    work = _cordoning if given[0] == "cordon" else _failing
    return Event(at, Order.NODE, work(nodes, back), f"{given[0]} {nodes.count} nodes")


def _applying(objects: list[KubeObject]) -> Callable[[CoreRun, np.random.Generator], None]:
    def work(run: CoreRun, random: np.random.Generator) -> None:
        for obj in objects:
            run.apply(obj)

    return work


def _deleting(objects: list[KubeObject]) -> Callable[[CoreRun, np.random.Generator], None]:
    def work(run: CoreRun, random: np.random.Generator) -> None:
        for obj in objects:
            run.delete(obj, Outcome.DELETED)

    return work


def _chosen(run: CoreRun, spec: NodesEvent, random: np.random.Generator) -> list[Node]:
    present = sorted(run.nodes.present(), key=lambda node: node.name)
    if spec.names:
        return [node for node in present if node.name in spec.names]
    count = min(spec.count, len(present))
    return [present[i] for i in sorted(random.choice(len(present), count, replace=False).tolist())]


def _failing(spec: NodesEvent, back: float | None) -> Callable[[CoreRun, np.random.Generator], None]:
    """Nodes go with their pods, and come back empty."""

    def work(run: CoreRun, random: np.random.Generator) -> None:
        for node in _chosen(run, spec, random):
            run.delete(node)
            if back is not None:
                run.at(run.clock.now + back, Order.NODE, lambda node=node: run.apply(node))  # type: ignore[misc]

    return work


def _cordoning(spec: NodesEvent, back: float | None) -> Callable[[CoreRun, np.random.Generator], None]:
    def work(run: CoreRun, random: np.random.Generator) -> None:
        for node in _chosen(run, spec, random):
            closed = msgspec.structs.replace(
                node, spec=msgspec.structs.replace(node.spec, unschedulable=True)
            )
            run.apply(closed)
            if back is not None:
                run.at(run.clock.now + back, Order.NODE, lambda node=node: run.apply(node))  # type: ignore[misc]

    return work
