"""The tables of a run: what it leaves behind, in columns."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isnan, nan
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.resources import allocatable, pod_requests
from mooring.simulate.arrivals import FloatArray, Template
from mooring.simulate.cluster_depth import ClusterRun
from mooring.simulate.engine import CoreRun
from mooring.simulate.pod_log import Outcome

IntArray = npt.NDArray[np.int64]
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
PODS = "pods"
_NONE: FloatArray = np.zeros(0)


class Shape(msgspec.Struct):
    """What the pods of one template share."""

    namespace: str
    owner: str
    priority: int
    requests: dict[str, int]
    group: str = ""  # the PodGroup of the pods
    min_count: int = 0  # of the group; 0: not known


class PodTable(msgspec.Struct, eq=False):
    """One row per pod, in order of creation. Times are virtual seconds; nan: it did not happen."""

    name: Sequence[str]
    shape: IntArray
    created: FloatArray
    run_time: FloatArray
    first_attempt: FloatArray
    bound: FloatArray
    node: IntArray  # the row of the node; -1: none
    started: FloatArray
    ended: FloatArray
    outcome: IntArray
    attempts: IntArray
    reason: Sequence[str]  # the plugins that rejected the last attempt, of pods without a node
    replaces: IntArray
    recorded_node: Sequence[str] = ()  # in the recording that was replayed; none without one
    recorded_bound: FloatArray = _NONE

    def __len__(self) -> int:
        return len(self.created)


class NodeTable(msgspec.Struct, eq=False):
    name: list[str]
    type: list[str]
    added: FloatArray
    removed: FloatArray  # inf: it was there at the end
    resources: dict[str, FloatArray]


class Tables(msgspec.Struct, eq=False):
    """Everything that a run leaves behind."""

    policy: str
    seed: int
    end: float
    attempts: int
    shapes: list[Shape]
    pods: PodTable
    nodes: NodeTable
    samples: dict[str, FloatArray]  # what probes measured after each arrival

    def requests(self, resource: str) -> FloatArray:
        """What each pod requests."""
        by_shape = np.array([shape.requests.get(resource, 0) for shape in self.shapes], np.float64)
        return by_shape[self.pods.shape] if len(by_shape) else np.zeros(len(self.pods))

    def resources(self) -> list[str]:
        """The resources that pods request and nodes have."""
        requested = {name for shape in self.shapes for name, amount in shape.requests.items() if amount}
        return [name for name in self.nodes.resources if name in requested and name != PODS]


def collect(
    run: CoreRun | ClusterRun, policy: str, seed: int, samples: Mapping[str, Sequence[float]]
) -> Tables:
    """The tables of a run that is over."""
    log, nodes = run.log, run.nodes
    reasons = list(log.reasons)
    pods = PodTable(
        name=log.names,
        shape=log.integers("template"),
        created=log.column("created"),
        run_time=log.column("run_time"),
        first_attempt=log.column("first_attempt"),
        bound=log.column("bound"),
        node=log.integers("node"),
        started=log.column("started"),
        ended=log.column("ended"),
        outcome=log.integers("outcome"),
        attempts=log.integers("attempts"),
        reason=[reasons[reason] for reason in log.reason],
        replaces=log.integers("replaces"),
    )
    if any(template.recorded_node for template in run.templates):
        templates = [run.templates[row] for row in log.template]
        pods.recorded_node = [template.recorded_node for template in templates]
        pods.recorded_bound = np.array([template.recorded_bound for template in templates])
    amounts = [allocatable(node) for node in nodes.objects]
    names = dict.fromkeys(name for each in amounts for name in each)
    table = NodeTable(
        name=nodes.names,
        type=[node.metadata.labels.get(INSTANCE_TYPE, "") for node in nodes.objects],
        added=np.array(nodes.added),
        removed=np.array(nodes.removed),
        resources={name: np.array([each.get(name, 0) for each in amounts], np.float64) for name in names},
    )
    return Tables(
        policy=policy,
        seed=seed,
        end=run.end,
        attempts=run.attempts,
        shapes=[_shape(template) for template in run.templates],
        pods=pods,
        nodes=table,
        samples={name: np.array(values, np.float64) for name, values in samples.items()},
    )


def _shape(template: Template) -> Shape:
    pod = template.pod
    requests = pod_requests(pod, use_status=False, pod_level=True, non_missing=False)
    group = pod.spec.scheduling_group
    return Shape(
        pod.namespace,
        template.owner,
        pod.priority,
        {name: int(n) for name, n in requests.items()},
        (group.pod_group_name or "") if group is not None else "",
        template.min_count,
    )


# ---- files


def write_tables(tables: Tables, folder: Path) -> None:
    """Write pods.csv.gz, nodes.csv.gz, samples.csv.gz and shapes.json."""
    pods, nodes = tables.pods, tables.nodes
    shapes = tables.shapes
    namespace, owner = [s.namespace for s in shapes], [s.owner for s in shapes]
    priority = [s.priority for s in shapes]
    rows = pods.shape.tolist()
    texts = [outcome.text for outcome in Outcome]
    columns: dict[str, Iterable[object]] = {
        "namespace": (namespace[row] for row in rows),
        "name": pods.name,
        "owner": (owner[row] for row in rows),
        "shape": rows,
        "priority": (priority[row] for row in rows),
        "created": numbers(pods.created),
        "run_time": numbers(pods.run_time),
        "first_attempt": numbers(pods.first_attempt),
        "bound": numbers(pods.bound),
        "node": (nodes.name[row] if row >= 0 else "" for row in pods.node.tolist()),
        "started": numbers(pods.started),
        "ended": numbers(pods.ended),
        "outcome": (texts[code] for code in pods.outcome.tolist()),
        "attempts": pods.attempts.tolist(),
        "reason": pods.reason,
        "replaces": (row if row >= 0 else "" for row in pods.replaces.tolist()),
    }
    if any(shape.group for shape in shapes):
        columns["group"] = (shapes[row].group for row in rows)
    if pods.recorded_node:
        columns |= {"recorded_node": pods.recorded_node, "recorded_bound": numbers(pods.recorded_bound)}
    write_csv(folder / "pods.csv.gz", columns)
    write_csv(
        folder / "nodes.csv.gz",
        {
            "name": nodes.name,
            "type": nodes.type,
            "added": numbers(nodes.added),
            "removed": numbers(nodes.removed),
            **{name: numbers(amounts) for name, amounts in nodes.resources.items()},
        },
    )
    if tables.samples:
        write_csv(folder / "samples.csv.gz", {k: numbers(v) for k, v in tables.samples.items()})
    (folder / "shapes.json").write_bytes(msgspec.json.encode(shapes))


def read_tables(folder: Path, policy: str, seed: int, end: float, attempts: int) -> Tables:
    """What `write_tables` wrote. Raises OSError and ValueError."""
    shapes = msgspec.json.decode((folder / "shapes.json").read_bytes(), type=list[Shape])
    nodes = _read_csv(folder / "nodes.csv.gz")
    row_of: dict[str, int] = {name: row for row, name in enumerate(nodes["name"])}
    pods = _read_csv(folder / "pods.csv.gz")
    codes = {outcome.text: int(outcome) for outcome in Outcome}
    table = PodTable(
        name=pods["name"],
        shape=np.array(pods["shape"], np.int64),
        created=_floats(pods["created"]),
        run_time=_floats(pods["run_time"]),
        first_attempt=_floats(pods["first_attempt"]),
        bound=_floats(pods["bound"]),
        node=np.array([row_of.get(name, -1) for name in pods["node"]], np.int64),
        started=_floats(pods["started"]),
        ended=_floats(pods["ended"]),
        outcome=np.array([codes[text] for text in pods["outcome"]], np.int64),
        attempts=np.array(pods["attempts"], np.int64),
        reason=pods["reason"],
        replaces=np.array([int(row) if row else -1 for row in pods["replaces"]], np.int64),
        recorded_node=pods.get("recorded_node", ()),
        recorded_bound=_floats(pods.get("recorded_bound", ())),
    )
    fixed = ("name", "type", "added", "removed")
    node_table = NodeTable(
        nodes["name"],
        nodes["type"],
        _floats(nodes["added"]),
        _floats(nodes["removed"]),
        {name: _floats(values) for name, values in nodes.items() if name not in fixed},
    )
    samples = folder / "samples.csv.gz"
    sampled = {k: _floats(v) for k, v in _read_csv(samples).items()} if samples.exists() else {}
    return Tables(policy, seed, end, attempts, shapes, table, node_table, sampled)


def numbers(values: FloatArray) -> list[object]:
    """Numbers as text: whole ones without a point, none where there is none."""
    return ["" if isnan(v) else "inf" if v == inf else int(v) if v == int(v) else v for v in values.tolist()]


def _floats(texts: Sequence[str]) -> FloatArray:
    return np.array([float(text) if text else nan for text in texts], np.float64)


def write_csv(path: Path, columns: Mapping[str, Iterable[object]]) -> None:
    """Write columns; equal columns give equal bytes on any machine."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", 5, file, mtime=0) as packed:
        text = io.TextIOWrapper(packed, newline="", write_through=False)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        text.flush()
        text.detach()


def _read_csv(path: Path) -> dict[str, list[str]]:
    with gzip.open(path, "rt", newline="") as file:
        reader = csv.reader(file)
        names = next(reader)
        columns = list(zip(*reader, strict=True))
    return {name: list(columns[i]) if columns else [] for i, name in enumerate(names)}
