"""A checked scenario: its sources, policies and settings, ready to run for any policy and seed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from itertools import chain
from math import inf
from os.path import isdir, isfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import mooring
from mooring.api.meta import KubeObject, Tree
from mooring.api.objects import Node, Pod
from mooring.config.findings import ConfigError, Finding, Report, did_you_mean
from mooring.config.findings import Path as Where
from mooring.framework.registration import RegistrationError
from mooring.runtime.runners import PluginError
from mooring.simulate.arrivals import Arrivals, merge
from mooring.simulate.autoscaling import AutoscalerPlan, compile_autoscaler
from mooring.simulate.capture.replaying import Replay, SnapshotObjects
from mooring.simulate.controlled import Controlled
from mooring.simulate.cron_jobs import first_endless
from mooring.simulate.manifests import warn_of_changes
from mooring.simulate.policies import TIES, Policy, check_unique
from mooring.simulate.probes import Probe, find_probe
from mooring.simulate.scenario import DEPTHS, ClusterEntry, ExpectSpec, Scenario, WorkloadEntry
from mooring.simulate.scenario_events import Event, compile_event
from mooring.simulate.sources import (
    ArrivalSource,
    GeneratedArrivals,
    GeneratedNodes,
    ManifestPods,
    Manifests,
    ObjectSource,
    TraceArrivals,
    TraceNodes,
)
from mooring.simulate.templates import read_manifests
from mooring.simulate.units import parse_rate, parse_seeds, parse_span

T = TypeVar("T")


_FOLDERS = ("manifests", "apply", "delete", "snapshot")
"""Fields that may name a folder."""


class Plan(msgspec.Struct, eq=False):
    """What to run: the same inputs for every policy, different ones for every seed."""

    name: str
    policies: list[Policy]
    seeds: list[int]
    objects: Sequence[ObjectSource] = ()
    workload: Sequence[ArrivalSource] = ()
    events: Sequence[Event] = ()
    depth: str = "core"
    kubeconfig: str = ""  # of a real API server, at depth `perf`
    autoscaler: AutoscalerPlan | None = None
    manifests: Sequence[Tree] = ()  # what controllers work on, at depths `cluster` and `perf`
    until: float = inf
    retry: bool = True
    attempt_cost: float = 0.0
    load_axis: str = ""
    prices: dict[str, float] = {}
    probes: Sequence[Callable[..., Probe]] = ()
    expect: Sequence[ExpectSpec] = ()
    warnings: Sequence[Finding] = ()  # about what has no effect at this depth
    digest: str = ""

    def inputs(self, seed: int) -> tuple[list[KubeObject], Arrivals]:
        """The cluster and the arrivals of a seed. Raises ValueError."""
        cluster = [obj for source in self.objects for obj in source.objects(seed)]
        parts = []
        for source in self.workload:
            arrivals, others = source.arrivals(seed, cluster)
            parts.append(arrivals)
            cluster += others
        arrivals = merge(parts)
        return cluster, arrivals.until(self.until) if self.until < inf else arrivals


class _Checker:
    """Collects problems by where they are in the file."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def get(self, path: Where, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except ConfigError as error:
            for finding in error.findings:
                self.report.add(path, str(finding))
        except OSError as error:
            self.report.add(path, f"{error.filename}: {error.strerror}")
        except (ValueError, RegistrationError, PluginError, TypeError) as error:
            message, *hint = re.split(r"\n *hint: ", str(error), maxsplit=1)
            self.report.add(path, message, *hint)
        return None


def compile_plan(scenario: Scenario) -> Plan:
    """Check everything, and read what the scenario refers to. Raises ConfigError with all problems."""
    report, spec, folder = scenario.report(), scenario.spec, scenario.folder
    check = _Checker(report)
    until = inf
    if spec.until != "drained":
        until = check.get(("spec", "until"), lambda: parse_span(spec.until)) or inf
    _one_of(report, ("spec", "depth"), spec.depth, DEPTHS)
    _one_of(report, ("spec", "unschedulable"), spec.unschedulable, ("retry", "reject"))
    _one_of(report, ("spec", "ties"), spec.ties, TIES)
    _check_depth(scenario, report)
    manifests: list[Tree] = []
    objects: list[ObjectSource] = []
    for i, entry in enumerate(spec.cluster):
        where: Where = ("spec", "cluster", i)
        if _exactly_one(report, where, entry, ("trace", "manifests", "generate", "snapshot", "recording")):
            if entry.manifests is not None and spec.depth != "core":
                path = folder / entry.manifests
                manifests += check.get((*where, "manifests"), lambda path=path: read_manifests(path)) or []  # type: ignore[misc]
                continue
            source = check.get(_inside(where, entry), lambda entry=entry: _objects(entry, folder))  # type: ignore[misc]
            if source is not None:
                objects.append(source)
    workload: list[ArrivalSource] = []
    for i, item in enumerate(spec.workload):
        where = ("spec", "workload", i)
        if _exactly_one(report, where, item, ("trace", "generate", "manifests")):
            if item.manifests is not None and spec.depth != "core":
                path = folder / item.manifests
                manifests += check.get((*where, "manifests"), lambda path=path: read_manifests(path)) or []  # type: ignore[misc]
                continue
            name = item.name or f"workload-{i}"
            arrival = check.get(
                _inside(where, item),
                lambda item=item, name=name: _arrivals(item, name, folder, until, spec.report.load_axis),  # type: ignore[misc]
            )
            if arrival is not None:
                workload.append(arrival)
    events = []
    for i, change in enumerate(spec.events):
        where = ("spec", "events", i)
        if _exactly_one(report, where, change, ("apply", "delete", "nodes")):
            event = check.get(where, lambda change=change: compile_event(change, folder))  # type: ignore[misc]
            if event is not None:
                events.append(event)
    for replay in (source for source in objects if isinstance(source, Replay)):
        workload.append(replay)
        events += replay.events
    autoscaler = None
    if spec.autoscaler is not None:
        scaling = spec.autoscaler
        autoscaler = check.get(("spec", "autoscaler"), lambda: compile_autoscaler(scaling, folder))
    policies = _policies(scenario, check)
    rate = spec.scheduler_rate
    plan = Plan(
        name=scenario.metadata.name,
        policies=policies,
        seeds=check.get(("spec", "seeds"), lambda: parse_seeds(spec.seeds)) or [0],
        objects=objects,
        workload=workload,
        events=events,
        depth=spec.depth,
        autoscaler=autoscaler,
        manifests=manifests,
        until=until,
        retry=spec.unschedulable == "retry",
        attempt_cost=0.0
        if rate is None
        else 1 / (check.get(("spec", "schedulerRate"), lambda: parse_rate(rate)) or 1.0),
        load_axis=spec.report.load_axis,
        prices=check.get(("spec", "prices"), lambda: _prices(spec.prices)) or {},
        probes=[
            probe
            for i, text in enumerate(spec.report.probes)
            if (probe := check.get(("spec", "report", "probes", i), lambda t=text: find_probe(t, folder)))  # type: ignore[misc]
        ],
        expect=spec.expect,
        warnings=_warnings([*objects, *workload, *events]) if spec.depth == "core" else [],
    )
    if autoscaler is not None:
        plan.prices = {
            **{group.name: group.price for group in autoscaler.groups if group.price},
            **plan.prices,
        }
    _check_expectations(scenario, report)
    if not report.findings:
        _check_inputs(plan, report)
    report.raise_if_any()
    plan.digest = digest_of(scenario)
    return plan


def _warnings(parts: Sequence[object]) -> list[Finding]:
    """What of manifests has no effect, each once."""
    contents = [each for part in parts if (each := getattr(part, "contents", None)) is not None]
    return list(dict.fromkeys([*(w for each in contents for w in each.warnings), *warn_of_changes(contents)]))


def _check_depth(scenario: Scenario, report: Report) -> None:
    """Some settings have a meaning at depth `core` only."""
    spec = scenario.spec
    if spec.depth not in ("cluster", "perf"):
        return
    for field, is_set in (
        ("unschedulable", spec.unschedulable != "retry"),
        ("schedulerRate", spec.scheduler_rate is not None),
        ("autoscaler", spec.autoscaler is not None),
        ("report", bool(spec.report.probes)),
    ):
        if is_set:
            what = "probes are" if field == "report" else f"{field} is"
            report.add(("spec", field), f"{what} not supported at depth {spec.depth}", "set depth: core")


def _objects(entry: ClusterEntry, folder: Path) -> ObjectSource:
    if entry.trace is not None:
        return TraceNodes(entry.trace, folder)
    if entry.generate is not None:
        return GeneratedNodes(entry.generate, folder)
    if entry.snapshot is not None:
        return SnapshotObjects(folder / entry.snapshot)
    if entry.recording is not None:
        return Replay(folder / entry.recording.path, entry.recording.speed)
    return Manifests(folder / str(entry.manifests))


def _arrivals(entry: WorkloadEntry, name: str, folder: Path, until: float, load_axis: str) -> ArrivalSource:
    if entry.trace is not None:
        return TraceArrivals(name, entry.trace, folder, load_axis)
    if entry.generate is not None:
        return GeneratedArrivals(name, entry.generate, folder, until)
    return ManifestPods(folder / str(entry.manifests))


def _policies(scenario: Scenario, check: _Checker) -> list[Policy]:
    spec = scenario.spec
    policies = [
        Policy(
            each.name,
            each.config,
            tuple(each.plugins),
            each.args,
            each.ties or spec.ties,
            scenario.folder,
            each.compat,
        )
        for each in spec.policies
    ] or [Policy("default", ties=spec.ties, folder=scenario.folder)]
    records = any(entry.recording is not None for entry in spec.cluster)
    twice = check_unique(policy.name for policy in policies)
    if twice is not None:
        check.report.add(("spec", "policies"), f'two policies are named "{twice}"')
    for i, policy in enumerate(policies):
        where: Where = ("spec", "policies", i)
        _one_of(check.report, (*where, "ties"), policy.ties, TIES)
        if not policy.name or "/" in policy.name or policy.name.startswith("."):
            check.report.add((*where, "name"), "expected a name that can be a directory's")
        if policy.ties == "recorded" and not (records and spec.depth == "core"):
            check.report.add(
                (*where, "ties") if spec.policies else ("spec", "ties"),
                "recorded needs a recording in cluster, and depth core",
                "cluster: [{recording: {path: FILE}}], from mooring simulate record -o FILE",
            )
        check.get(where, lambda policy=policy: policy.scheduler(lambda: 0.0, 0))  # type: ignore[misc]
    return policies


def _check_inputs(plan: Plan, report: Report) -> None:
    check = _Checker(report)
    inputs = check.get(("spec",), lambda: plan.inputs(plan.seeds[0]))
    if inputs is None:
        return
    objects, arrivals = inputs
    applied = [event.contents.objects for event in plan.events if event.contents is not None]
    endless = first_endless([*objects, *chain.from_iterable(applied)]) if plan.depth == "core" else None
    if endless is not None and plan.until == inf:
        message = f"CronJob {endless.key} creates Jobs without end"
        report.add(("spec", "until"), message, "set until: 7d, or --until 7d")
    if (
        not any(isinstance(obj, Node) for obj in objects)
        and not any(tree.get("kind") == "Node" for tree in plan.manifests)
        and plan.autoscaler is None
    ):
        report.add(("spec", "cluster"), "no nodes", "add an entry such as generate: {template: node.yaml}")
    pods_come = len(arrivals) or plan.events or plan.manifests
    if not pods_come and not any(isinstance(obj, (Pod, Controlled)) for obj in objects):
        report.add(
            ("spec", "workload"), "no pods arrive", "add an entry such as generate: {template: pod.yaml}"
        )


def _check_expectations(scenario: Scenario, report: Report) -> None:
    names = [policy.name for policy in scenario.spec.policies] or ["default"]
    for i, expectation in enumerate(scenario.spec.expect):
        where: Where = ("spec", "expect", i)
        within = expectation.within
        if len(within) != 2 or not within[0] <= within[1]:
            report.add((*where, "within"), "expected two numbers: [lowest, highest]")
        if expectation.policy and expectation.policy not in names:
            report.add(
                (*where, "policy"),
                f'no policy "{expectation.policy}"',
                did_you_mean(expectation.policy, names),
            )
        unknown = set(expectation.at) - {"arrived"}
        if unknown:
            report.add((*where, "at"), f'unknown field "{sorted(unknown)[0]}"', "expected arrived: 100%")


def _one_of(report: Report, path: Where, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        hint = did_you_mean(value, choices)
        report.add(path, f'expected {" or ".join(choices)}, found "{value}"', hint)


def _exactly_one(report: Report, path: Where, entry: Any, fields: Sequence[str]) -> bool:
    present = [field for field in fields if getattr(entry, field) is not None]
    if len(present) == 1:
        return True
    actual = " and ".join(present) or "none"
    report.add(path, f"expected exactly one of {', '.join(fields)}, found {actual}")
    return False


def _inside(path: Where, entry: Any) -> Where:
    """Where the part of an entry is that is set."""
    for field in ("trace", "generate", "manifests", "snapshot", "recording"):
        if getattr(entry, field, None) is not None:
            return (*path, field)
    return path


def _prices(raw: dict[str, Any]) -> dict[str, float]:
    prices: dict[str, float] = {}
    for name, value in raw.items():
        pairs = (
            [(f"{name}.{part}", amount) for part, amount in value.items()]
            if isinstance(value, dict)
            else [(name, value)]
        )
        for key, amount in pairs:
            if not isinstance(amount, (int, float)) or isinstance(amount, bool) or amount < 0:
                raise ValueError(f"{key}: expected a price per hour, found {amount}")
            prices[key] = float(amount)
    return prices


def mentioned_files(scenario: Scenario) -> list[tuple[str, Path]]:
    """The files that a scenario may refer to, as it names them, and the modules in its folder."""
    folder = scenario.folder
    mentioned: list[tuple[str, Path]] = []
    for path, field in sorted(_mentioned(msgspec.to_builtins(scenario.spec))):
        if isdir(folder / path):
            files = sorted((folder / path).rglob("*")) if field in _FOLDERS else []
        else:
            files = [folder / path]
        mentioned += [(path, file) for file in filter(isfile, files)]
    return mentioned + [(file.name, file) for file in sorted(folder.glob("*.py"))]


def digest_of(scenario: Scenario) -> str:
    """Changes with the scenario, with any file in its folder that it may refer to, and with this program."""
    digest = sha256(msgspec.json.encode(scenario.spec))
    for name, file in mentioned_files(scenario):
        digest.update(name.encode() + file.read_bytes())
    digest.update(_package_digest())
    return digest.hexdigest()[:32]


@cache
def _package_digest() -> bytes:
    digest, package = sha256(), Path(mooring.__file__).parent
    for file in sorted(package.rglob("*.py")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.digest()


def _mentioned(tree: Any, field: str = "") -> set[tuple[str, str]]:
    """Every text in a scenario that may be a path, with the name of its field."""
    if isinstance(tree, str):
        return {(tree, field)} if tree else set()
    if isinstance(tree, dict):
        return {file for name, value in tree.items() for file in _mentioned(value, name)}
    if isinstance(tree, (list, tuple)):
        return {file for value in tree for file in _mentioned(value, field)}
    return set()
