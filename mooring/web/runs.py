"""Runs of `mooring simulate` as a source for the page: the cluster at a moment of a run.

The tables of a run hold what pods request and where they were, not their whole specifications. So
explanations at a moment consider resources only; the page says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.api.times import format_time
from mooring.config import LoadedConfig
from mooring.core.scheduler import Scheduler
from mooring.runtime.registry import Registry
from mooring.serving.messages import Answer, as_json, failure
from mooring.simulate.arrivals import FloatArray
from mooring.simulate.engine import START
from mooring.simulate.metrics import allocation_steps, capacity_steps, steps, value_at
from mooring.simulate.running import RunRecord, read_record, read_run
from mooring.simulate.tables import INSTANCE_TYPE, Shape, Tables
from mooring.simulate.units import format_span
from mooring.web.service import Action

POINTS = 200  # of the time line


class Moment(msgspec.Struct, forbid_unknown_fields=True):
    """A moment of a run, in virtual seconds; without one, the moment with the most pods on nodes."""

    run: str
    at: float | None = None


class RunSource:
    """A scheduler that has the nodes and pods of a moment, and whose queue nothing works off.

    Raises OSError and ValueError if a run cannot be read.
    """

    mode = "run"
    decisions = None

    def __init__(self, folders: list[Path], config: LoadedConfig, registry: Registry) -> None:
        self.config = config
        self.registry = registry
        self._folders = {f"{folder.parent.name}/{folder.name}": folder for folder in folders}
        if len(self._folders) < len(folders):  # of several scenarios or points of a sweep
            self._folders = {folder.as_posix(): folder for folder in folders}
        self._records = {name: read_record(folder) for name, folder in self._folders.items()}
        self._turn = asyncio.Lock()
        self._show(Moment(next(iter(self._folders))))

    def status(self) -> str:
        record, end = self._record, format_span(self._tables.end)
        return (
            f"{record.scenario}, policy {record.policy}, seed {record.seed}, at {format_span(self._at)} of "
            f"{end}. A run keeps requests and priorities: explanations ignore selectors, affinity, taints "
            "and volumes."
        )

    async def ask(self, question: Callable[[], Any]) -> Any:
        return question()

    def actions(self) -> dict[str, Action]:
        return {"run/show": self._show_action}

    def state(self) -> dict[str, Any]:
        """Return what the page shows on every view."""
        return {"run": self._name, "at": self._at}

    def overview(self) -> dict[str, Any]:
        """Return all runs with their metrics, and the time line of the run that is shown."""
        runs = [
            {"name": name, "policy": record.policy, "seed": record.seed, "metrics": record.metrics}
            for name, record in self._records.items()
        ]
        return {**self.state(), "end": self._tables.end, "runs": runs, "timeline": timeline(self._tables)}

    @property
    def _record(self) -> RunRecord:
        return self._records[self._name]

    async def _show_action(self, body: Any) -> Answer:
        try:
            moment = msgspec.convert(body, Moment)
            if moment.run not in self._folders:
                raise ValueError(f'run: "{moment.run[:100]}" not found')
            async with self._turn:
                await asyncio.to_thread(self._show, moment)
        except (OSError, ValueError) as invalid:  # a ValidationError is a ValueError
            return failure(400, "BadRequest", str(invalid))
        return as_json(self.overview())

    def _show(self, moment: Moment) -> None:
        """Load a moment. The scheduler is replaced at the end, so that no request sees half of it."""
        tables = read_run(self._folders[moment.run])[1]
        at = busiest(tables) if moment.at is None else min(max(moment.at, 0.0), tables.end)
        now = START + at
        core = Scheduler(self.config, clock=lambda: now, pick=Random(0).randrange, registry=self.registry)
        profile = next(iter(core.profiles))
        for created, obj in objects_at(tables, at, profile):
            now = START + created  # so that pods wait in the queue since they were created
            core.apply(obj)
        now = START + at
        self.core, self._tables, self._name, self._at = core, tables, moment.run, at


def objects_at(tables: Tables, at: float, profile: str) -> list[tuple[float, KubeObject]]:
    """Return nodes, and pods that were there, with the time since when they were; pods are last."""
    nodes, pods = tables.nodes, tables.pods
    objects: list[tuple[float, KubeObject]] = []
    for row in np.flatnonzero((nodes.added <= at) & (nodes.removed > at)).tolist():
        amounts = {name: int(values[row]) for name, values in nodes.resources.items()}
        objects.append((float(nodes.added[row]), _node(nodes.name[row], nodes.type[row], amounts)))
    shapes = [_pod(shape, profile) for shape in tables.shapes]
    present = (pods.created <= at) & ~(pods.ended <= at)
    bound = pods.bound <= at
    for row in np.flatnonzero(present).tolist():
        shape = shapes[int(pods.shape[row])]
        metadata = replace(
            shape.metadata,
            name=pods.name[row],
            uid=str(row),
            creation_timestamp=format_time(START + float(pods.created[row])),
        )
        node = nodes.name[int(pods.node[row])] if bound[row] else ""
        spec = replace(shape.spec, node_name=node)
        objects.append((float(pods.created[row]), replace(shape, metadata=metadata, spec=spec)))
    return objects


def busiest(tables: Tables) -> float:
    """Return the first time with the most pods on nodes: many runs end with an empty cluster."""
    pods = tables.pods
    bound = ~np.isnan(pods.bound)
    stop = np.where(np.isnan(pods.ended), np.inf, pods.ended)
    times, totals = steps(pods.bound[bound], stop[bound], np.ones(int(bound.sum())))
    return float(times[np.argmax(totals)]) if len(times) else 0.0


def timeline(tables: Tables) -> dict[str, list[float]]:
    """Return pending pods, and the share of each resource that is allocated in percent, over time."""
    grid = np.linspace(0.0, tables.end, POINTS)
    pods = tables.pods
    ended = np.where(np.isnan(pods.ended), np.inf, pods.ended)
    left = np.where(np.isnan(pods.bound), ended, pods.bound)
    columns = {"seconds": grid, "pending": value_at(*steps(pods.created, left, np.ones(len(pods))), grid)}
    columns |= {resource: _share(tables, resource, grid) for resource in tables.resources()}
    return {name: np.round(values, 3).tolist() for name, values in columns.items()}


def _share(tables: Tables, resource: str, grid: FloatArray) -> FloatArray:
    used = value_at(*allocation_steps(tables, resource), grid)
    capacity = value_at(*capacity_steps(tables, resource), grid)
    return 100 * np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0)


def _node(name: str, instance_type: str, amounts: dict[str, int]) -> KubeObject:
    labels = {INSTANCE_TYPE: instance_type} if instance_type else {}
    return from_dict(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": name, "labels": labels},
            "status": {"allocatable": _quantities(amounts)},
        }
    )


def _pod(shape: Shape, profile: str) -> Pod:
    kind, _, name = shape.owner.partition("/")
    owner = {"apiVersion": "v1", "kind": kind, "name": name, "uid": shape.owner, "controller": True}
    pod = from_dict(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": shape.namespace, "ownerReferences": [owner] if kind else []},
            "spec": {
                "schedulerName": profile,
                "priority": shape.priority,
                "containers": [{"name": "all", "resources": {"requests": _quantities(shape.requests)}}],
            },
        }
    )
    assert isinstance(pod, Pod)
    return pod


def _quantities(amounts: dict[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}
