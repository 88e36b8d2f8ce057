"""A recording as a source of a simulation: what was there, pods that arrive, and what else changed."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path

import msgspec
import numpy as np

from mooring.api.decode import from_dict
from mooring.api.errors import MalformedObject
from mooring.api.kinds import PODS, PRIORITY_CLASSES
from mooring.api.meta import KubeObject, Tree
from mooring.api.objects import Node, Pod, PodStatus
from mooring.simulate.agenda import Order
from mooring.simulate.arrivals import FOREVER, Arrivals, Template
from mooring.simulate.capture.recording import read_lines
from mooring.simulate.capture.snapshot import read_snapshot
from mooring.simulate.pod_log import Outcome
from mooring.simulate.scenario_events import Event, Work

_ENDED = ("Succeeded", "Failed")


class SnapshotObjects:
    """The objects of a snapshot: bound pods stay where they are, pending ones are scheduled."""

    def __init__(self, folder: Path) -> None:
        self._objects = read_snapshot(folder)

    def objects(self, seed: int) -> list[KubeObject]:
        return self._objects


class _Life:
    """What a recording shows of one pod."""

    def __init__(self, pod: Pod, time: float) -> None:
        self.pod, self.first = pod, time  # the pod as it was when it arrived
        self.arrival: float | None = None  # when it could be scheduled: without gates
        self.changes: list[tuple[float, Pod]] = []  # of labels, annotations and spec; its deletion
        self.bound = inf
        self.node = ""
        self.ended = inf
        self.completed = False

    def see(self, pod: Pod, time: float) -> None:
        if self.arrival is None:
            self.pod = pod
            if not pod.spec.scheduling_gates:
                self.arrival = time
        elif _changeable(pod) != _changeable(self.changes[-1][1] if self.changes else self.pod):
            self.changes.append((time, pod))
        if pod.spec.node_name and not self.node:
            self.bound, self.node = time, pod.spec.node_name
        if pod.status.phase in _ENDED:
            self.end(time, completed=True)

    def end(self, time: float, completed: bool) -> None:
        if self.ended == inf:
            self.ended, self.completed = time, completed


class Replay:
    """Arrivals and changes of a recording, at its speed or faster.

    Pods that completed run for as long as they did, from when they are bound here. Pods that were deleted are
    deleted at the recorded time. Pods that had a node when they were first seen keep it.
    """

    def __init__(self, path: Path, speed: float = 1.0) -> None:
        if not speed > 0:
            raise ValueError(f"speed: expected more than 0, found {speed}")
        self._path, self._speed = path, speed
        self._start: dict[tuple[str, str], KubeObject] = {}
        self._lives: dict[str, _Life] = {}
        self.events: list[Event] = []
        for time, type, tree in read_lines(path):
            self._read(time / speed, type, self._decode(tree))
        self._order()

    def _decode(self, tree: Tree) -> KubeObject:
        try:
            return from_dict(tree)
        except MalformedObject as error:
            raise ValueError(f"{self._path}: {error}") from None

    def _read(self, time: float, type: str, obj: KubeObject) -> None:
        if isinstance(obj, Pod):
            life = self._lives.get(obj.uid)
            if life is None:
                life = self._lives[obj.uid] = _Life(obj, time)
            if type == "DELETED":
                life.end(time, completed=obj.status.phase in _ENDED)
            else:
                life.see(obj, time)
        elif obj.kind == PRIORITY_CLASSES.kind:
            return
        elif time == 0 and type != "DELETED":
            self._start[obj.kind, obj.key] = obj
        else:
            order = Order.NODE if isinstance(obj, Node) else Order.CHANGE
            work = _delete if type == "DELETED" else _apply
            self.events.append(Event(time, order, work(obj), f"{type.lower()} {obj.kind} {obj.key}"))

    def _order(self) -> None:
        """Sort pods into those that are there, those that arrive, and those that came with a node."""
        self._there: list[Pod] = []
        self._arriving: list[_Life] = []
        for life in self._lives.values():
            if life.arrival is None:
                continue  # gated all the time
            self.events += [
                Event(time, Order.CHANGE, _amend(pod), f"change of {pod.key}")
                for time, pod in life.changes
                if time < life.ended
            ]
            if life.bound == 0 < life.ended:
                self._there.append(_on_node(life))
            elif life.bound <= life.first:
                self.events.append(
                    Event(life.first, Order.CHANGE, _apply(_on_node(life)), f"pod {life.pod.key}")
                )
            else:
                self._arriving.append(life)
                if life.completed:
                    continue
            if life.ended < inf:
                outcome = Outcome.FINISHED if life.completed else Outcome.DELETED
                self.events.append(
                    Event(life.ended, Order.DEPARTURE, _delete(life.pod, outcome), f"end of {life.pod.key}")
                )
        self.events.sort(key=lambda event: event.at)

    def objects(self, seed: int) -> list[KubeObject]:
        return [*self._start.values(), *self._there]

    def arrivals(self, seed: int, cluster: Sequence[KubeObject]) -> tuple[Arrivals, list[KubeObject]]:
        lives = sorted(self._arriving, key=lambda life: life.arrival or 0.0)
        run_time = [life.ended - life.bound if life.completed else FOREVER for life in lives]
        return (
            Arrivals(
                [_template(life) for life in lives],
                np.array([life.arrival for life in lives], np.float64),
                np.arange(len(lives), dtype=np.int32),
                np.array(run_time, np.float64),
                [life.pod.name for life in lives],
            ),
            [],
        )


def _template(life: _Life) -> Template:
    pod = life.pod
    return Template(_unbound(pod), owner=_owner(pod), recorded_node=life.node, recorded_bound=life.bound)


def _on_node(life: _Life) -> Pod:
    spec = msgspec.structs.replace(life.pod.spec, node_name=life.node)
    return msgspec.structs.replace(life.pod, spec=spec)


def _changeable(pod: Pod) -> tuple[object, ...]:
    """What may change of a pod that matters to the scheduler, apart from its node and phase."""
    metadata = pod.metadata
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return metadata.labels, metadata.annotations, metadata.deletion_timestamp, spec


def _unbound(pod: Pod) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name="")
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=None)
    return Pod(
        metadata=metadata, spec=spec, status=PodStatus(phase="Pending"), kind=PODS.kind, api_version="v1"
    )


def _owner(pod: Pod) -> str:
    owner = pod.metadata.controller()
    return "" if owner is None else f"{owner.kind}/{owner.name}"


def _apply(obj: KubeObject) -> Work:
    return lambda run, random: run.apply(obj)


def _amend(pod: Pod) -> Work:
    return lambda run, random: run.amend(pod)


def _delete(obj: KubeObject, outcome: Outcome = Outcome.DELETED) -> Work:
    return lambda run, random: run.delete(obj, outcome)
