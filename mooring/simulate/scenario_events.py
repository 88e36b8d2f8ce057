"""Events of a scenario: objects applied or deleted at a time, nodes that fail, leave or are cordoned.

At depth `cluster` manifests go to the API server, so a changed Deployment is rolled out, and a changed quota
counts; at depth `core` only what the scheduler reads has an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from mooring.api.meta import KubeObject, Tree
from mooring.api.objects import Node, Pod
from mooring.simulate.agenda import Order
from mooring.simulate.cluster_depth import ClusterRun
from mooring.simulate.engine import CoreRun
from mooring.simulate.manifests import Contents, read_contents
from mooring.simulate.node_log import NodeLog
from mooring.simulate.pod_log import Outcome
from mooring.simulate.random_streams import stream
from mooring.simulate.scenario import EventSpec, NodesEvent
from mooring.simulate.templates import read_manifests
from mooring.simulate.units import parse_span

MOST_NAMES = 100_000


class Changeable(Protocol):
    """What an event changes: a run of any depth."""

    @property
    def clock(self) -> HasNow: ...
    @property
    def nodes(self) -> NodeLog: ...
    def at(self, time: float, order: Order, work: Callable[[], None]) -> None: ...
    def apply(self, obj: KubeObject) -> None: ...
    def amend(self, pod: Pod) -> None: ...
    def delete(self, obj: KubeObject, outcome: Outcome = Outcome.DELETED) -> None: ...


class HasNow(Protocol):
    @property
    def now(self) -> float: ...


Work = Callable[[Changeable, np.random.Generator], None]


class Event(msgspec.Struct, eq=False):
    """Something that happens at a time; `work` does it to a run, with the random numbers of its seed.

    `apply` and `delete` are the manifests as they are, for a run with an API server.
    """

    at: float
    order: Order
    work: Work
    what: str
    apply: Sequence[Tree] = ()
    delete: Sequence[Tree] = ()
    contents: Contents | None = None  # of `apply`, as depth `core` takes it


def plan_events(run: CoreRun | ClusterRun, events: list[Event], seed: int) -> None:
    """Have the events happen in a run."""
    for index, event in enumerate(events):
        random = stream(seed, f"event-{index}")
        run.at(event.at, event.order, lambda event=event, random=random: _happen(run, event, random))  # type: ignore[misc]


def _happen(run: CoreRun | ClusterRun, event: Event, random: np.random.Generator) -> None:
    if isinstance(run, ClusterRun) and (event.apply or event.delete):
        run.apply_trees(event.apply)
        run.delete_trees(event.delete)
    else:
        event.work(run, random)


def compile_event(spec: EventSpec, folder: Path) -> Event:
    """Raises ValueError."""
    try:
        at = parse_span(spec.at)
    except ValueError as error:
        raise ValueError(f"at: {error}") from None
    if spec.apply is not None:
        contents = read_contents(folder / spec.apply)
        work = _applying(contents.objects)
        trees = read_manifests(folder / spec.apply)
        return Event(at, Order.CHANGE, work, f"apply {spec.apply}", apply=trees, contents=contents)
    if spec.delete is not None:
        work = _deleting(read_contents(folder / spec.delete).objects)
        trees = read_manifests(folder / spec.delete)
        return Event(at, Order.CHANGE, work, f"delete {spec.delete}", delete=trees)
    change = spec.nodes
    assert change is not None
    present = [name for name in ("fail", "remove", "cordon") if getattr(change, name) is not None]
    if len(present) != 1:
        raise ValueError(f"nodes: expected exactly one of fail, remove, cordon, found {len(present)}")
    nodes: NodesEvent = getattr(change, present[0])
    if not 0 < nodes.count <= MOST_NAMES:
        raise ValueError(f"nodes: count: expected a number from 1 to {MOST_NAMES}, found {nodes.count}")
    back = None if nodes.for_ is None else parse_span(nodes.for_)
    if present[0] == "remove" and back is not None:
        raise ValueError("nodes: remove: nodes that come back fail; use fail with for")
    change_nodes = _cordoning if present[0] == "cordon" else _failing
    return Event(at, Order.NODE, change_nodes(nodes, back), f"{present[0]} {nodes.count} nodes")


def _applying(objects: list[KubeObject]) -> Work:
    def work(run: Changeable, random: np.random.Generator) -> None:
        for obj in objects:
            run.apply(obj)

    return work


def _deleting(objects: list[KubeObject]) -> Work:
    def work(run: Changeable, random: np.random.Generator) -> None:
        for obj in objects:
            run.delete(obj, Outcome.DELETED)

    return work


def _chosen(run: Changeable, spec: NodesEvent, random: np.random.Generator) -> list[Node]:
    present = sorted(run.nodes.present(), key=lambda node: node.name)
    if spec.names:
        return [node for node in present if node.name in spec.names]
    count = min(spec.count, len(present))
    return [present[i] for i in sorted(random.choice(len(present), count, replace=False).tolist())]


def _failing(spec: NodesEvent, back: float | None) -> Work:
    """Nodes go with their pods, and come back empty."""

    def work(run: Changeable, random: np.random.Generator) -> None:
        for node in _chosen(run, spec, random):
            run.delete(node)
            if back is not None:
                run.at(run.clock.now + back, Order.NODE, lambda node=node: run.apply(node))  # type: ignore[misc]

    return work


def _cordoning(spec: NodesEvent, back: float | None) -> Work:
    def work(run: Changeable, random: np.random.Generator) -> None:
        for node in _chosen(run, spec, random):
            closed = msgspec.structs.replace(
                node, spec=msgspec.structs.replace(node.spec, unschedulable=True)
            )
            run.apply(closed)
            if back is not None:
                run.at(run.clock.now + back, Order.NODE, lambda node=node: run.apply(node))  # type: ignore[misc]

    return work
