"""The scenario file: what to simulate. Decoding is strict; problems come with file, line and field."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from mooring.config.decode import decode
from mooring.config.findings import ConfigError, Finding, Place, Places, Report
from mooring.config.load import read_text
from mooring.config.tree import LocatedMap, parse, places_of

API_VERSION, KIND = "mooring/v1alpha1", "Simulation"
DEPTHS = ("core", "cluster", "perf")


class Spec(msgspec.Struct, rename="camel", kw_only=True):
    """The base of what a scenario is made of."""


class JobGangSpec(Spec):
    """The pods of each job of a trace are a gang."""

    min_count: int | None = None  # that must start together; all by default
    topology: str = ""  # the node label whose value all of them share


class TraceSpec(Spec):
    """A published trace: `format` names its importer, `options` are the importer's own."""

    format: str
    path: str
    arrivals: str = "recorded"  # or shuffled: in random order, one per second
    order: str = ""  # a CSV file with columns s<seed>: rows, or ranks of nodes; or "shuffled", of nodes
    fill: float | None = None  # total request of the load axis as a share of the cluster's capacity
    lives: str = "recorded"  # or forever
    speed: float = 1.0  # of recorded arrivals
    options: dict[str, Any] = {}
    gang: JobGangSpec | None = None


class GangSpec(Spec):
    """Each arrival is a gang of `size` pods (a number or a distribution), which start together."""

    size: Any
    min_count: int | None = None  # that must start together; all by default
    topology: str = ""  # the node label whose value all of them share


class GenerateSpec(Spec):
    """Objects made of a template."""

    template: str
    count: int | None = None
    labels: dict[str, list[str]] = {}  # of nodes: values in turn
    arrivals: Any = None
    run_time: Any = None
    start_delay: Any = None
    for_: Any = msgspec.field(default=None, name="for")
    from_: Any = msgspec.field(default=None, name="from")
    gang: GangSpec | None = None
    name: str = ""


class RecordingSpec(Spec):
    """A file of `mooring simulate record`: what was there, arrived and changed."""

    path: str
    speed: float = 1.0


class ClusterEntry(Spec):
    """One source of objects that are there at the beginning; exactly one field is set."""

    snapshot: str | None = None
    recording: RecordingSpec | None = None
    trace: TraceSpec | None = None
    manifests: str | None = None
    generate: GenerateSpec | None = None


class WorkloadEntry(Spec):
    """One source of pods that arrive; exactly one of trace, generate and manifests is set."""

    trace: TraceSpec | None = None
    generate: GenerateSpec | None = None
    manifests: str | None = None
    name: str = ""


class NodesEvent(Spec):
    """Nodes that fail (and come back after `for`), or leave; chosen at random, or by name."""

    count: int = 1
    names: list[str] = []
    for_: Any = msgspec.field(default=None, name="for")


class NodesChange(Spec):
    fail: NodesEvent | None = None
    remove: NodesEvent | None = None
    cordon: NodesEvent | None = None


class EventSpec(Spec):
    """Something that happens at a time; exactly one of apply, delete and nodes is set."""

    at: Any
    apply: str | None = None
    delete: str | None = None
    nodes: NodesChange | None = None


class PolicySpec(Spec):
    """A scheduler configuration with its plugins. `args` are merged into the plugins' own."""

    name: str
    config: str = ""
    plugins: list[str] = []
    args: dict[str, dict[str, Any]] = {}
    ties: str = ""  # random, first or recorded; "" as the scenario has it
    compat: bool = False  # treat groups as kube-scheduler does


class ReportSpec(Spec):
    load_axis: str = ""
    probes: list[str] = []  # MODULE:FUNCTION, called with the run after each instant


class ExpectSpec(Spec):
    """A bound on a metric; outside of it the command exits with 1."""

    metric: str
    within: list[float]
    policy: str = ""  # "" for every policy
    at: dict[str, Any] = {}


class NodeGroupSpec(Spec):
    """Nodes that an autoscaler adds and removes; `price` is per hour, `delay` from the request to Ready."""

    name: str
    template: str
    min: int = 0
    max: int = 100
    price: float = 0.0
    delay: Any = "60s"


class AutoscalerSpec(Spec):
    """`kind` is cluster-autoscaler or karpenter."""

    kind: str
    groups: list[NodeGroupSpec]
    expander: str = "least-waste"
    interval: Any = None
    empty_for: Any = None
    drain_below: float | None = None


class ScenarioSpec(Spec):
    depth: str = "core"
    until: Any = "drained"
    seeds: Any = 0
    unschedulable: str = "retry"  # or reject: each pod has one attempt
    ties: str = "random"  # or first in the order of the cluster, or the recorded node
    scheduler_rate: Any = None
    cluster: list[ClusterEntry] = []
    workload: list[WorkloadEntry] = []
    events: list[EventSpec] = []
    prices: dict[str, Any] = {}
    autoscaler: AutoscalerSpec | None = None
    policies: list[PolicySpec] = []
    report: ReportSpec = msgspec.field(default_factory=ReportSpec)
    expect: list[ExpectSpec] = []


class Metadata(Spec):
    name: str = "simulation"


class Scenario(Spec):
    """A scenario as written, with where it stands for messages."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: ScenarioSpec = msgspec.field(default_factory=ScenarioSpec)

    file: str = ""
    places: Any = None

    @property
    def folder(self) -> Path:
        return Path(self.file).parent

    def report(self) -> Report:
        return Report(self.places or Places(self.file))


class _File(Spec):
    spec: ScenarioSpec
    metadata: Metadata = msgspec.field(default_factory=Metadata)


def load_scenario(path: str | PathLike[str], changes: dict[str, Any] | None = None) -> Scenario:
    """The scenario in a file, with values replaced by path, such as {"spec.seeds": 3}. Raises OSError and
    ConfigError."""
    return parse_scenario(read_text(path), str(path), changes)


def parse_scenario(text: str, source: str, changes: dict[str, Any] | None = None) -> Scenario:
    report = Report(Places(source))
    documents = parse(text, report)
    report.raise_if_any()
    if len(documents) != 1 or not isinstance(documents[0], LocatedMap):
        report.add_at(Place(), f"expected one YAML document of kind {KIND}")
        report.raise_if_any()
    tree = documents[0]
    report.places = places_of(tree, source)
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        actual, _ = tree.take(field)
        if actual != expected:
            report.add(
                (field,), f'expected "{expected}", found "{actual or ""}"', f"write {field}: {expected}"
            )
    for where, value in (changes or {}).items():
        try:
            _replace(tree, where, value)
        except ValueError as error:
            raise ConfigError([Finding(f"--set {where}: {error}")]) from None
    decoded = decode(tree, _File, (), report)
    report.raise_if_any()
    assert decoded is not None
    return Scenario(metadata=decoded.metadata, spec=decoded.spec, file=source, places=report.places)


def _replace(tree: Any, where: str, value: object) -> None:
    """Replace a value by its path; items of lists are found by their name or index."""
    parts = where.split(".")
    if parts[0] != "spec":
        parts.insert(0, "spec")
    for part in parts[:-1]:
        tree = _step(tree, part)
    last = parts[-1]
    if isinstance(tree, LocatedMap):
        tree.put(last, value, tree.places.get(last, tree.place))
    elif isinstance(tree, list) and last.isdigit() and int(last) < len(tree):
        tree[int(last)] = value
    else:
        raise ValueError("no such field")


def _step(tree: Any, part: str) -> Any:
    if isinstance(tree, LocatedMap):
        value = tree.get(part)
        return value if isinstance(value, list) else tree.child(part, tree.place)
    if isinstance(tree, list):
        for item in tree:
            if isinstance(item, dict) and item.get("name") == part:
                return item
        if part.isdigit() and int(part) < len(tree):
            return tree[int(part)]
    raise ValueError(f'no "{part}"')
