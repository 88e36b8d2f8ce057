"""scheduler_perf's files: test cases, their operations and workloads. Decoding is strict, as upstream's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from mooring.config.decode import decode
from mooring.config.findings import Path as Where
from mooring.config.findings import Place, Places, Report, did_you_mean
from mooring.config.load import read_text
from mooring.config.tree import parse, places_of
from mooring.simulate.units import parse_span

THROUGHPUT = "SchedulingThroughput"


class Spec(msgspec.Struct, rename="camel", kw_only=True):
    """The base of what a suite is made of."""


class Operation(Spec, kw_only=True):
    """One step of a workload."""

    opcode: str

    def check(self) -> None:
        """Raises ValueError where fields contradict each other."""

    @property
    def collects_metrics(self) -> bool:
        return False


class Counted(Operation, kw_only=True):
    """An operation on a number of objects."""

    count: int = 0
    count_param: str = ""

    def check(self) -> None:
        if self.count < 0:
            raise ValueError(f"count: expected 0 or more, found {self.count}")


class NodeAllocatableStrategy(Spec, kw_only=True):
    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, Any] = {}
    migrated_plugins: list[str] = []


class LabelNodePrepareStrategy(Spec, kw_only=True):
    label_key: str
    label_values: list[str] = []


class UniqueNodeLabelStrategy(Spec, kw_only=True):
    label_key: str


class CreateNodes(Counted, kw_only=True):
    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatableStrategy | None = None
    label_node_prepare_strategy: LabelNodePrepareStrategy | None = None
    unique_node_label_strategy: UniqueNodeLabelStrategy | None = None


class CreateNamespaces(Counted, kw_only=True):
    prefix: str = ""
    namespace_template_path: str = ""


class CreatePods(Counted, kw_only=True):
    namespace: str = ""
    pod_template_path: str = ""
    collect_metrics: bool = False
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: Any = 0
    duration_param: str = ""

    def check(self) -> None:
        super().check()
        if self.collect_metrics and self.skip_wait_to_completion:
            raise ValueError("collectMetrics and skipWaitToCompletion are mutually exclusive")
        if self.steady_state and self.skip_wait_to_completion:
            raise ValueError("steadyState and skipWaitToCompletion are mutually exclusive")
        if self.steady_state and not self.duration_param and not parse_span(self.duration):
            raise ValueError("steadyState: duration is required")

    @property
    def collects_metrics(self) -> bool:
        return self.collect_metrics


class CreatePodSets(Counted, kw_only=True):
    namespace_prefix: str = ""
    create_pods_op: CreatePods

    def check(self) -> None:
        super().check()
        self.create_pods_op.check()

    @property
    def collects_metrics(self) -> bool:
        return self.create_pods_op.collect_metrics


class DeletePods(Operation, kw_only=True):
    namespace: str
    label_selector: dict[str, str] = {}
    delete_pods_per_second: int = 0
    skip_wait_to_completion: bool = False

    def check(self) -> None:
        if self.delete_pods_per_second < 0:
            raise ValueError("deletePodsPerSecond: expected 0 or more")


class Churn(Operation, kw_only=True):
    mode: str
    number: int = 0
    interval_milliseconds: int = 0
    namespace: str = ""
    template_paths: list[str]

    def check(self) -> None:
        if self.mode not in ("create", "recreate"):
            raise ValueError(f'mode: expected create or recreate, found "{self.mode}"')
        if self.number < 0 or (self.mode == "recreate" and not self.number):
            raise ValueError("number: expected more than 0")
        if not self.template_paths:
            raise ValueError("templatePaths: expected at least one file")


class CreateAny(Operation, kw_only=True):
    template_path: str
    namespace: str = ""
    count: int | None = None
    count_param: str = ""


class UpdateAny(CreateAny, kw_only=True):
    update_per_second: int = 0
    subresources: list[str] = []

    def check(self) -> None:
        if self.update_per_second < 0:
            raise ValueError("updatePerSecond: expected 0 or more")


class Barrier(Operation, kw_only=True):
    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: str = "Scheduled"

    def check(self) -> None:
        if self.stage_requirement not in ("", "Scheduled", "Attempted"):
            raise ValueError(
                f'stageRequirement: expected Scheduled or Attempted, found "{self.stage_requirement}"'
            )


class Sleep(Operation, kw_only=True):
    duration: Any = 0
    duration_param: str = ""


class StartCollectingMetrics(Operation, kw_only=True):
    name: str = ""
    namespaces: list[str]
    label_selector: dict[str, str] = {}

    def check(self) -> None:
        if not self.namespaces:
            raise ValueError("namespaces: expected at least one")


class StopCollectingMetrics(Operation, kw_only=True):
    @property
    def collects_metrics(self) -> bool:
        return True


class CreateResourceDriver(Operation, kw_only=True):
    driver_name: str
    nodes: str
    max_claims_per_node: int = 0
    max_claims_per_node_param: str = ""


class CreateResourceClaims(Counted, kw_only=True):
    namespace: str
    template_path: str


class AllocResourceClaims(Operation, kw_only=True):
    namespace: str = ""


OPERATIONS: dict[str, type[Operation]] = {
    "createNodes": CreateNodes,
    "createNamespaces": CreateNamespaces,
    "createPods": CreatePods,
    "createPodSets": CreatePodSets,
    "deletePods": DeletePods,
    "churn": Churn,
    "createAny": CreateAny,
    "updateAny": UpdateAny,
    "barrier": Barrier,
    "sleep": Sleep,
    "startCollectingMetrics": StartCollectingMetrics,
    "stopCollectingMetrics": StopCollectingMetrics,
    "createResourceDriver": CreateResourceDriver,
    "createResourceClaims": CreateResourceClaims,
    "allocResourceClaims": AllocResourceClaims,
}


class LabelValues(Spec, kw_only=True):
    label: str
    values: list[str] = []


class MetricsCollectorConfig(Spec, kw_only=True):
    metrics: dict[str, list[LabelValues] | None] = {}


class MetricSelector(Spec, kw_only=True):
    """The measurement that a threshold is for."""

    name: str = THROUGHPUT
    labels: dict[str, str] = {}
    data_bucket: str = "Average"
    expect_lower: bool = False


class Workload(Spec, kw_only=True):
    """The sizes to run a case with."""

    name: str
    params: dict[str, Any] = {}
    labels: list[str] = []
    feature_gates: dict[str, bool] = {}
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: MetricSelector | None = None


class _Case(Spec, kw_only=True):
    name: str
    labels: list[str] = []
    feature_gates: dict[str, bool] = {}
    scheduler_config_path: str = ""
    default_pod_template_path: str = ""
    metrics_collector_config: MetricsCollectorConfig | None = None
    default_threshold_metric_selector: MetricSelector | None = None
    workload_template: list[dict[str, Any]]
    workloads: list[Workload]


class Run(msgspec.Struct):
    """One workload of a case, with its parameters filled in."""

    case: str
    workload: str
    labels: frozenset[str]
    folder: Path
    operations: Sequence[Operation]
    scheduler_config: str
    default_pod_template: str
    metrics: MetricsCollectorConfig | None
    feature_gates: dict[str, bool]
    threshold: float
    selector: MetricSelector
    unused_params: list[str]

    @property
    def name(self) -> str:
        return f"{self.case}/{self.workload}"

    @property
    def uses_claims(self) -> bool:
        return self.feature_gates.get("DynamicResourceAllocation", False) or any(
            isinstance(each, CreateResourceDriver | CreateResourceClaims | AllocResourceClaims)
            for each in self.operations
        )


def load_suite(path: str | PathLike[str]) -> list[Run]:
    """Every workload of a performance-config.yaml. Raises OSError and ConfigError with all problems."""
    return parse_suite(read_text(path), Path(path))


def parse_suite(text: str, source: Path) -> list[Run]:
    report = Report(Places(str(source)))
    documents = parse(text, report)
    report.raise_if_any()
    if len(documents) != 1 or not isinstance(documents[0], list):
        report.add_at(Place(), "expected a list of test cases")
        report.raise_if_any()
    report.places = places_of(documents[0], str(source))
    runs: list[Run] = []
    names: set[str] = set()
    for i, tree in enumerate(documents[0]):
        case = decode(tree, _Case, (i,), report)
        if case is None:
            continue
        if case.name in names:
            report.add((i, "name"), f'two test cases are named "{case.name}"')
        names.add(case.name)
        runs += _runs(case, (i,), source, report)
    report.raise_if_any()
    return runs


def _runs(case: _Case, where: Where, source: Path, report: Report) -> list[Run]:
    operations = [
        _operation(tree, (*where, "workloadTemplate", i), report)
        for i, tree in enumerate(case.workload_template)
    ]
    if not any(each is not None and each.collects_metrics for each in operations):
        report.add((*where, "workloadTemplate"), "no operation collects metrics")
    runs: list[Run] = []
    names: set[str] = set()
    for i, workload in enumerate(case.workloads):
        at: Where = (*where, "workloads", i)
        if workload.name in names:
            report.add((*at, "name"), f'two workloads are named "{workload.name}"')
        names.add(workload.name)
        unused = dict.fromkeys(workload.params)
        filled = _fill([each for each in operations if each is not None], workload.params, unused, at, report)
        runs.append(
            Run(
                case.name,
                workload.name,
                frozenset([*case.labels, *workload.labels]),
                source.parent,
                filled,
                case.scheduler_config_path,
                case.default_pod_template_path,
                case.metrics_collector_config,
                case.feature_gates | workload.feature_gates,
                _threshold(workload.threshold, source),
                workload.threshold_metric_selector
                or case.default_threshold_metric_selector
                or MetricSelector(),
                list(unused),
            )
        )
    return runs


def _operation(tree: dict[str, Any], where: Where, report: Report) -> Operation | None:
    opcode = tree.get("opcode")
    kind = OPERATIONS.get(opcode) if isinstance(opcode, str) else None
    if kind is None:
        report.add((*where, "opcode"), f'unknown opcode "{opcode}"', did_you_mean(str(opcode), OPERATIONS))
        return None
    if kind is CreatePodSets and isinstance(tree.get("createPodsOp"), dict):
        tree["createPodsOp"].setdefault("opcode", "createPods")
    return decode(tree, kind, where, report)


def _fill(
    operations: Iterable[Operation],
    params: dict[str, Any],
    unused: dict[str, None],
    where: Where,
    report: Report,
) -> list[Operation]:
    """The operations with a workload's parameters; those that are used are removed from `unused`."""
    filled = []
    for operation in operations:
        try:
            filled.append(_with_params(operation, params, unused))
        except ValueError as error:
            report.add(where, f"{operation.opcode}: {error}")
    return filled


def _with_params(operation: Operation, params: dict[str, Any], unused: dict[str, None]) -> Operation:
    changes: dict[str, Any] = {}
    for field in msgspec.structs.fields(operation):
        value = getattr(operation, field.name)
        if isinstance(value, Operation):
            changes[field.name] = _with_params(value, params, unused)
        elif field.name.endswith("_param") and value:
            name = value.removeprefix("$")
            if name not in params:
                raise ValueError(f'{field.encode_name}: no parameter "{name}" in the workload')
            unused.pop(name, None)
            changes[field.name.removesuffix("_param")] = params[name]
    filled: Operation = msgspec.structs.replace(operation, **changes)
    for field in msgspec.structs.fields(filled):
        if field.name in changes and not isinstance(changes[field.name], Operation):
            _check_type(field.encode_name, changes[field.name], field.type)
    filled.check()
    return filled


def _check_type(name: str, value: Any, kind: Any) -> None:
    try:
        if name == "duration":
            parse_span(value)
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None


def _threshold(threshold: float | dict[str, float], source: Path) -> float:
    """A number, or that of the topic: the suite's directory names it."""
    if not isinstance(threshold, dict):
        return threshold
    for part in reversed(source.resolve().parts):
        if part in threshold:
            return threshold[part]
    return next(iter(threshold.values()), 0.0)


class LabelFilter:
    """A comma list as upstream has it: `name` or `+name` must be there, `-name` must not."""

    def __init__(self, text: str) -> None:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        self._without = {part[1:] for part in parts if part.startswith("-")}
        self._with = {part.removeprefix("+") for part in parts if not part.startswith("-")}

    def matches(self, labels: frozenset[str]) -> bool:
        return self._with <= labels and not self._without & labels
