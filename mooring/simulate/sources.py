"""From a scenario's entries to objects and arrivals, for one seed."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.api.resources import allocatable, pod_requests
from mooring.simulate.annotations import annotated_run_time
from mooring.simulate.arrivals import FOREVER, Arrivals, FloatArray, Numbered, Template
from mooring.simulate.controlled import Controlled
from mooring.simulate.distributions import Draw, fixed, parse_distribution
from mooring.simulate.gangs import Gangs, gangs_of_jobs
from mooring.simulate.manifests import Contents, read_contents, warn_of_template
from mooring.simulate.processes import MOST_ARRIVALS, Process, parse_process
from mooring.simulate.random_streams import stream
from mooring.simulate.scenario import GenerateSpec, JobGangSpec, TraceSpec
from mooring.simulate.templates import Mould, run_time_of, template_of
from mooring.simulate.traces import read_trace
from mooring.simulate.units import parse_span

MOST_NODES = 100_000


class ObjectSource(Protocol):
    """Objects that are there at the beginning."""

    def objects(self, seed: int) -> list[KubeObject]: ...


class ArrivalSource(Protocol):
    """Pods that come; the objects of the cluster are for sources whose load goes by its capacity."""

    def arrivals(self, seed: int, cluster: Sequence[KubeObject]) -> tuple[Arrivals, list[KubeObject]]: ...


# ---- the cluster


class Manifests:
    def __init__(self, path: Path) -> None:
        contents = read_contents(path)
        self._objects, self.contents = contents.objects, contents

    def objects(self, seed: int) -> list[KubeObject]:
        return self._objects


class GeneratedNodes:
    """Nodes of a template, with label values in turn."""

    def __init__(self, spec: GenerateSpec, folder: Path) -> None:
        count = 1 if spec.count is None else spec.count
        if not 0 < count <= MOST_NODES:
            raise ValueError(f"count: expected a number from 1 to {MOST_NODES}, found {count}")
        for key, values in spec.labels.items():
            if not values:
                raise ValueError(f"labels: {key}: expected at least one value")
        mould = Mould(folder / spec.template)
        trees = [mould.objects(index) for index in range(count)] if mould.varies else None
        if trees is None:
            trees = [[_numbered(obj, index) for obj in mould.objects(0)] for index in range(count)]
        self._objects: list[KubeObject] = []
        for index, objects in enumerate(trees):
            for obj in objects:
                if isinstance(obj, Node):
                    labels = {key: values[index % len(values)] for key, values in spec.labels.items()}
                    obj = _labelled(obj, labels)
                self._objects.append(obj)
        if not any(isinstance(obj, Node) for obj in self._objects):
            raise ValueError(f"{folder / spec.template}: no Node in the template")

    def objects(self, seed: int) -> list[KubeObject]:
        return self._objects


def _numbered(obj: KubeObject, index: int) -> KubeObject:
    name = f"{obj.name}-{index}"
    metadata = msgspec.structs.replace(obj.metadata, name=name, uid=f"{obj.kind}/{name}")
    return msgspec.structs.replace(obj, metadata=metadata)


def _labelled(node: Node, labels: dict[str, str]) -> Node:
    merged = {"kubernetes.io/hostname": node.name, **node.metadata.labels, **labels}
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=merged))


SHUFFLED = "shuffled"


class TraceNodes:
    def __init__(self, spec: TraceSpec, folder: Path) -> None:
        rows = read_trace(spec.format, folder / spec.path, **spec.options)
        if not isinstance(rows, list):
            raise ValueError(f'format "{spec.format}" gives pods, not nodes')
        self._nodes: list[Node] = rows
        self._shuffled = spec.order == SHUFFLED
        self._order = None if not spec.order or self._shuffled else folder / spec.order

    def objects(self, seed: int) -> list[KubeObject]:
        if self._shuffled:
            return [self._nodes[i] for i in stream(seed, "nodes").permutation(len(self._nodes)).tolist()]
        if self._order is None:
            return list(self._nodes)
        ranks = read_order(self._order, seed)
        if len(ranks) != len(self._nodes):
            raise ValueError(f"{self._order}: {len(ranks)} ranks for {len(self._nodes)} nodes")
        return [self._nodes[i] for i in np.argsort(ranks, kind="stable").tolist()]


def read_order(path: Path, seed: int) -> npt.NDArray[np.int64]:
    """The column of a seed in a file of orders. Raises ValueError."""
    column = f"s{seed}"
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            reader = csv.DictReader(file)
            if column not in (reader.fieldnames or ()):
                raise ValueError(f"{path}: no column {column} for seed {seed}")
            values = [int(row[column]) for row in reader if row[column]]
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return np.array(values, np.int64)


# ---- the workload


class TraceArrivals:
    """The pods of a trace: as recorded, or in random order until the cluster is filled."""

    def __init__(self, name: str, spec: TraceSpec, folder: Path, load_axis: str) -> None:
        rows = read_trace(spec.format, folder / spec.path, **spec.options)
        if isinstance(rows, list):
            raise ValueError(f'format "{spec.format}" gives nodes, not pods')
        if spec.arrivals not in ("recorded", SHUFFLED):
            raise ValueError(f'arrivals: expected recorded or shuffled, found "{spec.arrivals}"')
        if spec.lives not in ("recorded", "forever"):
            raise ValueError(f'lives: expected recorded or forever, found "{spec.lives}"')
        if not spec.speed > 0 or (spec.fill is not None and not 0 < spec.fill <= 1000):
            raise ValueError("speed and fill: expected more than 0")
        if spec.fill is not None and not load_axis:
            raise ValueError("fill: report.loadAxis must name the resource to fill")
        self._gang = spec.gang or (JobGangSpec() if rows.has_gangs else None)
        if self._gang is not None and (spec.arrivals == SHUFFLED or spec.order or spec.fill is not None):
            raise ValueError("gangs arrive as recorded: expected neither arrivals: shuffled, order nor fill")
        self._name, self._spec, self._trace, self._axis = name, spec, rows, load_axis
        self._order = None if not spec.order else folder / spec.order

    def arrivals(self, seed: int, cluster: Sequence[KubeObject]) -> tuple[Arrivals, list[KubeObject]]:
        trace, spec = self._trace, self._spec
        random = stream(seed, self._name)
        ordered = self._order is not None
        if self._order is not None:
            rows = read_order(self._order, seed)
        elif spec.arrivals == SHUFFLED:
            rows = random.permutation(len(trace))
        else:
            rows = np.argsort(trace.time, kind="stable")
        if spec.fill is not None:
            rows = self._filled(rows, random, cluster)
        taken = trace.take(rows.astype(np.intp))
        if ordered or spec.arrivals == SHUFFLED:
            taken.time = np.arange(len(taken), dtype=np.float64)
        else:
            taken.time = (taken.time - taken.time[0]) / spec.speed
        if spec.lives == "forever":
            taken.run_time = np.full(len(taken), FOREVER)
        taken.names = _unique(taken.names)
        return (taken, []) if self._gang is None else gangs_of_jobs(taken, self._gang)

    def _filled(
        self, rows: npt.NDArray[np.int64], random: np.random.Generator, cluster: Sequence[KubeObject]
    ) -> npt.NDArray[np.int64]:
        """Add pods drawn from the trace, or leave some out, until their requests are a share of capacity."""
        amounts = requests_of(self._trace.templates, self._axis)[self._trace.template]
        capacity = sum(allocatable(obj).get(self._axis, 0) for obj in cluster if isinstance(obj, Node))
        target = (self._spec.fill or 0.0) * capacity
        total = float(amounts[rows].sum())
        if not amounts.any() or not capacity:
            raise ValueError(f"fill: nothing requests {self._axis}, or no node has it")
        if total > target:
            keep = random.permutation(len(rows))
            count = int(np.searchsorted(np.cumsum(amounts[rows][keep]), target, side="right"))
            return rows[np.sort(keep[:count])]
        extra: list[int] = []
        while True:
            row = int(random.integers(0, len(self._trace)))
            total += float(amounts[row])
            if total > target:
                break
            extra.append(row)
            if len(extra) > MOST_ARRIVALS:
                raise ValueError(f"fill: more than {MOST_ARRIVALS} pods")
        return np.concatenate([rows, np.array(extra, np.int64)])


def _unique(names: Sequence[str]) -> list[str]:
    """Names with a number behind those that repeat."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        unique.append(f"{name}-copy{count}" if count else name)
    return unique


def requests_of(templates: Sequence[Template], resource: str) -> FloatArray:
    """What a pod of each template requests."""
    amounts = [
        pod_requests(template.pod, use_status=False, pod_level=True, non_missing=False).get(resource, 0)
        for template in templates
    ]
    return np.array(amounts, np.float64)


class GeneratedArrivals:
    """Pods of a template that arrive by a process and run for a time by a distribution."""

    def __init__(self, name: str, spec: GenerateSpec, folder: Path, until: float) -> None:
        self._name = spec.name or name
        self._mould = Mould(folder / spec.template)
        arrivals = {"burst": {"count": 1}} if spec.arrivals is None else spec.arrivals
        self._process: Process = _at("arrivals", lambda: parse_process(arrivals))
        self._count = spec.count
        if spec.count is not None and not 0 < spec.count <= MOST_ARRIVALS:
            raise ValueError(f"count: expected a number from 1 to {MOST_ARRIVALS}, found {spec.count}")
        self._from = 0.0 if spec.from_ is None else _at("from", lambda: parse_span(spec.from_))
        self._end = until if spec.for_ is None else self._from + _at("for", lambda: parse_span(spec.for_))
        bounded = isinstance(spec.arrivals, dict) and "burst" in spec.arrivals
        if self._end == inf and self._count is None and not bounded and spec.arrivals is not None:
            raise ValueError("arrivals without end: give for, count, or until")
        self._run_time: Draw | None = None
        if spec.run_time is not None:
            self._run_time = _at("runTime", lambda: parse_distribution(spec.run_time, folder))
        self._delay: Draw = fixed(0.0)
        if spec.start_delay is not None:
            self._delay = _at("startDelay", lambda: parse_distribution(spec.start_delay, folder))
        self._templates, self._others = self._mould.pods(0)
        self.contents = Contents([], warn_of_template(self._mould.trees), {})
        self._gangs: Gangs | None = None
        if spec.gang is not None:
            gang = spec.gang
            self._gangs = _at("gang", lambda: Gangs(self._name, gang, folder))
            if self._mould.varies or self._others or len(self._templates) != 1:
                raise ValueError("gang: expected a template with one Pod")

    def arrivals(self, seed: int, cluster: Sequence[KubeObject]) -> tuple[Arrivals, list[KubeObject]]:
        times = self._times(seed)
        if self._gangs is not None:
            first = np.zeros(len(times), np.int32)
            lives = self._lives(seed, first, self._templates)
            return self._gangs.make(self._templates[0], times, lives, seed)
        each = len(self._templates)
        count = len(times) * each
        if self._mould.varies or self._others:
            return self._varying(times, seed)
        time = np.repeat(times, each)
        template = np.tile(np.arange(each, dtype=np.int32), len(times))
        names: Sequence[str] = Numbered(self._name, range(count))
        return Arrivals(
            self._templates, time, template, self._lives(seed, template, self._templates), names
        ), []

    def _times(self, seed: int) -> FloatArray:
        random = stream(seed, f"{self._name}/arrivals")
        end = self._end - self._from
        if self._count is None:
            return self._process(random, min(end, 1e18)) + self._from
        span = min(end, 3600.0)
        while True:  # the same numbers, farther
            times = self._process(stream(seed, f"{self._name}/arrivals"), span)
            if len(times) >= self._count or span >= end or span > 1e12:
                return times[: self._count] + self._from
            span = min(span * 2, end)

    def _lives(self, seed: int, template: npt.NDArray[np.int32], templates: Sequence[Template]) -> FloatArray:
        if self._run_time is not None:
            return self._run_time(stream(seed, f"{self._name}/run-time"), len(template))
        return np.array([run_time_of(each) for each in templates], np.float64)[template]

    def _varying(self, times: FloatArray, seed: int) -> tuple[Arrivals, list[KubeObject]]:
        """Every index has pods of its own."""
        templates: list[Template] = []
        others: list[KubeObject] = []
        names: list[str] = []
        time: list[float] = []
        for index, when in enumerate(times.tolist()):
            made, rest = self._mould.pods(index)
            others += rest
            for template in made:
                names.append(template.pod.name if self._mould.varies else f"{template.pod.name}-{index}")
                templates.append(template)
                time.append(when)
        rows = np.arange(len(templates), dtype=np.int32)
        lives = self._lives(seed, rows, templates)
        return Arrivals(templates, np.array(time), rows, lives, _unique(names)), others


class ManifestPods:
    """Pods of manifests, all at the beginning, and workloads that create pods."""

    def __init__(self, path: Path) -> None:
        contents = read_contents(path)
        self.contents = contents
        self._others = [obj for obj in contents.objects if not isinstance(obj, Pod)]
        self._pods = [obj for obj in contents.objects if isinstance(obj, Pod)]
        if not self._pods and not any(isinstance(obj, Controlled) for obj in self._others):
            raise ValueError(f"{path}: no Pod, and no workload that pods are made of")

    def arrivals(self, seed: int, cluster: Sequence[KubeObject]) -> tuple[Arrivals, list[KubeObject]]:
        templates = [template_of(pod) for pod in self._pods]
        rows = np.arange(len(templates), dtype=np.int32)
        lives = np.array([annotated_run_time(pod) for pod in self._pods], np.float64)
        names = [pod.name for pod in self._pods]
        return Arrivals(templates, np.zeros(len(rows)), rows, lives, names), self._others


def _at(field: str, parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None
