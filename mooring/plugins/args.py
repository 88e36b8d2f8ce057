"""The arguments of the in-tree plugins, as `pluginConfig[].args` holds them.

Each class has kube-scheduler's defaults and yields from `problems()` what its validation refuses, in
its words. A message about a value is completed with the value where the problem is printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import total_ordering
from typing import ClassVar

import msgspec

from mooring.api.objects import (
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    TopologySpreadConstraint,
)
from mooring.framework.args import Args, Problem

# ---- durations --------------------------------------------------------------------------------

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern})+)", re.ASCII)


@total_ordering
class Duration:
    """A span of time written as in Go: "15s", "1m30s", "100ms". Exact to the nanosecond.

    Not a dataclass, since msgspec would read and write those as objects rather than through a hook.
    """

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int = 0) -> None:
        self.nanoseconds = nanoseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanoseconds == other.nanoseconds

    def __lt__(self, other: Duration) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    @property
    def seconds(self) -> float:
        return self.nanoseconds / 1e9

    @classmethod
    def parse(cls, text: str) -> Duration:
        """The duration `text` spells; a ValueError says what would be right."""
        if not _DURATION.fullmatch(text):
            raise ValueError(f'expected a duration such as "15s" or "1m30s", found "{text}"')
        total = sum(_nanoseconds(number, _UNITS[unit]) for number, unit in _PART.findall(text))
        if total >= 2**63:
            raise ValueError(f'expected a duration of less than 292 years, found "{text}"')
        return cls(-total if text.startswith("-") else total)

    def __str__(self) -> str:
        """As Go prints it: the largest units first, from hours down, and one small unit below a second."""
        sign, left = ("-", -self.nanoseconds) if self.nanoseconds < 0 else ("", self.nanoseconds)
        if left == 0:
            return "0s"
        if left < _UNITS["s"]:
            unit = next(name for name in ("ms", "µs", "ns") if left >= _UNITS[name])
            return f"{sign}{_decimal(left, _UNITS[unit])}{unit}"
        minutes, rest = divmod(left, _UNITS["m"])
        hours, minutes = divmod(minutes, 60)
        text = f"{_decimal(rest, _UNITS['s'])}s"
        if hours or minutes:
            text = f"{minutes}m{text}"
        return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _nanoseconds(number: str, unit: int) -> int:
    whole, _, fraction = number.partition(".")
    return int(whole or "0") * unit + int(fraction or "0") * unit // int(10 ** len(fraction))


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


# ---- shared parts -----------------------------------------------------------------------------


class _Part(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The base of the structs inside arguments."""


class ResourceSpec(_Part):
    """A resource that counts in scoring. A weight of 0 means 1, as in kube-scheduler."""

    name: str = ""
    weight: int = 1

    def __post_init__(self) -> None:
        self.weight = self.weight or 1


class UtilizationShapePoint(_Part):
    """The score (0 to 10) of a node whose utilization in percent is `utilization`."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatioParam(_Part):
    shape: list[UtilizationShapePoint] = []


def _cpu_and_memory() -> list[ResourceSpec]:
    return [ResourceSpec(name="cpu"), ResourceSpec(name="memory")]


class ScoringStrategy(_Part):
    """How NodeResourcesFit scores. A strategy that is written out has to say its type."""

    TYPES: ClassVar = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")

    type: str = ""
    resources: list[ResourceSpec] = msgspec.field(default_factory=_cpu_and_memory)
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def __post_init__(self) -> None:
        self.resources = self.resources or _cpu_and_memory()


def _outside(field: str, value: int, low: int, high: int | None) -> Iterator[Problem]:
    if value < low or (high is not None and value > high):
        bounds = f"[{low}, inf)" if high is None else f"[{low}, {high}]"
        yield Problem(field, f"not in valid range {bounds}", value)


def _unsupported(field: str, value: str, supported: Sequence[str]) -> Iterator[Problem]:
    if value not in supported:
        names = ", ".join(f'"{name}"' for name in supported)
        yield Problem(field, f'Unsupported value: "{value}": supported values: {names}')


def _shape_problems(field: str, shape: list[UtilizationShapePoint]) -> Iterator[Problem]:
    if not shape:
        yield Problem(field, "Required value: at least one point must be specified")
    for i, point in enumerate(shape):
        if i and shape[i - 1].utilization >= point.utilization:
            yield Problem(
                f"{field}[{i}].utilization", "values must be sorted in increasing order", point.utilization
            )
        yield from _outside(f"{field}[{i}].utilization", point.utilization, 0, 100)
        yield from _outside(f"{field}[{i}].score", point.score, 0, 10)


# ---- one class per plugin ---------------------------------------------------------------------


class DefaultPreemptionArgs(Args):
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def problems(self) -> Iterator[Problem]:
        percentage, absolute = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
        yield from _outside(percentage, self.min_candidate_nodes_percentage, 0, 100)
        yield from _outside(absolute, self.min_candidate_nodes_absolute, 0, None)
        if self.min_candidate_nodes_percentage == 0 and self.min_candidate_nodes_absolute == 0:
            yield Problem(percentage, f"cannot be zero at the same time as {absolute}", 0)
            yield Problem(absolute, f"cannot be zero at the same time as {percentage}", 0)


class InterPodAffinityArgs(Args):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def problems(self) -> Iterator[Problem]:
        yield from _outside("hardPodAffinityWeight", self.hard_pod_affinity_weight, 0, 100)


class NodeAffinityArgs(Args):
    """`added_affinity` applies to every pod of the profile, on top of what the pod asks for."""

    added_affinity: NodeAffinity | None = None

    def problems(self) -> Iterator[Problem]:
        added = self.added_affinity
        if added is None:
            return
        if added.required is not None:
            terms = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
            for i, term in enumerate(added.required.node_selector_terms):
                yield from _term_problems(f"{terms}[{i}]", term)
        preferred = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        for i, weighted in enumerate(added.preferred or ()):
            yield from _term_problems(f"{preferred}[{i}].preference", weighted.preference)


def _term_problems(field: str, term: NodeSelectorTerm) -> Iterator[Problem]:
    for i, requirement in enumerate(term.match_expressions):
        yield from _expression_problems(f"{field}.matchExpressions[{i}]", requirement)
    for i, requirement in enumerate(term.match_fields):
        where = f"{field}.matchFields[{i}]"
        yield from _unsupported(f"{where}.key", requirement.key, ["metadata.name"])
        yield from _unsupported(f"{where}.operator", requirement.operator, ["In", "NotIn"])
        if len(requirement.values) != 1:
            yield Problem(f"{where}.values", "must have one element", requirement.values)


def _expression_problems(field: str, requirement: NodeSelectorRequirement) -> Iterator[Problem]:
    operator, values = requirement.operator, requirement.values
    yield from _label_name_problems(f"{field}.key", requirement.key)
    yield from _unsupported(
        f"{field}.operator", operator, ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    )
    if operator in ("In", "NotIn") and not values:
        yield Problem(f"{field}.values", "for 'in', 'notin' operators, values set can't be empty", values)
    if operator in ("Exists", "DoesNotExist") and values:
        yield Problem(f"{field}.values", "values set must be empty for exists and does not exist", values)
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield Problem(
                f"{field}.values", "for 'Gt', 'Lt' operators, exactly one value is required", values
            )
        elif not re.fullmatch(r"[+-]?\d+", values[0], re.ASCII):
            yield Problem(
                f"{field}.values[0]", "for 'Gt', 'Lt' operators, the value must be an integer", values[0]
            )


class NodeResourcesFitArgs(Args):
    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: ScoringStrategy = msgspec.field(
        default_factory=lambda: ScoringStrategy(type="LeastAllocated")
    )

    def problems(self) -> Iterator[Problem]:
        for i, name in enumerate(self.ignored_resources):
            yield from _label_name_problems(f"ignoredResources[{i}]", name)
        for i, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield Problem(f"ignoredResourceGroups[{i}]", "resource group name can't contain '/'", group)
            else:
                yield from _label_name_problems(f"ignoredResourceGroups[{i}]", group)
        yield from self._strategy_problems()

    def _strategy_problems(self) -> Iterator[Problem]:
        strategy, ratio = self.scoring_strategy, self.scoring_strategy.requested_to_capacity_ratio
        yield from _unsupported("scoringStrategy.type", strategy.type, ScoringStrategy.TYPES)
        for i, resource in enumerate(strategy.resources):
            if not 0 < resource.weight <= 100:
                message = f"resource weight of {resource.name} not in valid range (0, 100]"
                yield Problem(f"scoringStrategy.resources[{i}].weight", message, resource.weight)
        field = "scoringStrategy.requestedToCapacityRatio"
        if strategy.type == "RequestedToCapacityRatio":
            if ratio is None:
                yield Problem(field, f"Required value: must be specified when type is {strategy.type}")
            else:
                yield from _shape_problems(f"{field}.shape", ratio.shape)
        elif ratio is not None:
            yield Problem(field, "Forbidden: must be nil when type is not RequestedToCapacityRatio")


class NodeResourcesBalancedAllocationArgs(Args):
    resources: list[ResourceSpec] = msgspec.field(default_factory=_cpu_and_memory)

    def __post_init__(self) -> None:
        self.resources = self.resources or _cpu_and_memory()

    def problems(self) -> Iterator[Problem]:
        seen: set[str] = set()
        for i, resource in enumerate(self.resources):
            if resource.weight != 1:
                yield Problem(f"resources[{i}].weight", "must be 1", resource.weight)
            if resource.name in seen:
                yield Problem(f"resources[{i}].name", f'Duplicate value: "{resource.name}"')
            seen.add(resource.name)


class PodTopologySpreadArgs(Args):
    default_constraints: list[TopologySpreadConstraint] = []
    defaulting_type: str = "System"

    def __post_init__(self) -> None:
        self.defaulting_type = self.defaulting_type or "System"

    def problems(self) -> Iterator[Problem]:
        yield from _unsupported("defaultingType", self.defaulting_type, ["System", "List"])
        if self.defaulting_type == "System" and self.default_constraints:
            yield Problem("defaultingType", "when .defaultConstraints are not empty", self.defaulting_type)
        seen: set[tuple[str, str]] = set()
        for i, constraint in enumerate(self.default_constraints):
            field = f"defaultConstraints[{i}]"
            yield from _constraint_problems(field, constraint)
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in seen:
                yield Problem(field, f'Duplicate value: "{{{pair[0]}, {pair[1]}}}"')
            seen.add(pair)


def _constraint_problems(field: str, constraint: TopologySpreadConstraint) -> Iterator[Problem]:
    if constraint.max_skew <= 0:
        yield Problem(f"{field}.maxSkew", "not in valid range (0, inf)", constraint.max_skew)
    if not constraint.topology_key:
        yield Problem(f"{field}.topologyKey", "Required value: can not be empty")
    else:
        yield from _label_name_problems(f"{field}.topologyKey", constraint.topology_key)
    if not constraint.when_unsatisfiable:
        yield Problem(f"{field}.whenUnsatisfiable", "Required value: can not be empty")
    else:
        supported = ["DoNotSchedule", "ScheduleAnyway"]
        yield from _unsupported(f"{field}.whenUnsatisfiable", constraint.when_unsatisfiable, supported)
    if constraint.label_selector is not None:
        message = "Forbidden: constraint must not define a selector, as they deduced for each pod"
        yield Problem(f"{field}.labelSelector", message)


class VolumeBindingArgs(Args):
    bind_timeout_seconds: int = 600
    shape: list[UtilizationShapePoint] | None = None

    def problems(self) -> Iterator[Problem]:
        if self.bind_timeout_seconds < 0:
            message = "invalid BindTimeoutSeconds, should not be a negative value"
            yield Problem("bindTimeoutSeconds", message, self.bind_timeout_seconds)
        if self.shape is not None:
            gate = "remove it or turn on the feature gate StorageCapacityScoring"
            yield Problem("shape", f"Forbidden: unexpected field `shape`, {gate}")


class DynamicResourcesArgs(Args):
    filter_timeout: Duration = Duration(10 * _UNITS["s"])
    binding_timeout: Duration = Duration(600 * _UNITS["s"])

    def problems(self) -> Iterator[Problem]:
        if self.filter_timeout.nanoseconds < 0:
            yield Problem("filterTimeout", "must be zero or positive", str(self.filter_timeout))
        if self.binding_timeout.nanoseconds < _UNITS["s"]:
            yield Problem("bindingTimeout", "must be at least 1 second", str(self.binding_timeout))


class GroupArgs(Args):
    """What the plugins for both kinds of PodGroups take; neither original has these.

    `partial_gang` is what becomes of a gang that runs in part and cannot be completed: Keep lets its pods
    run, Evict evicts them after `grace_seconds`. `group_preemption` and `preserve_gangs` are about
    WorkloadAwarePreemption: a gang among the fewest victims keeps minCount members, or leaves as a whole.
    `planning_steps` bounds the search for places where members in order have none; 0: no search. After
    `reserve_after_seconds` without room, nodes are kept for a gang as they become free. `group_retry` is what
    brings a group back that did not start: Events that may help it, or the end of a Backoff as in
    kube-scheduler.
    """

    PREEMPTIONS: ClassVar = ("FewestVictims", "KubeScheduler")
    RETRIES: ClassVar = ("Events", "Backoff")

    partial_gang: str = "Keep"
    grace_seconds: int = 60
    planning_steps: int = 1000
    group_preemption: str = "FewestVictims"
    preserve_gangs: bool = True
    reserve_after_seconds: int | None = None
    group_retry: str = "Events"

    @property
    def preempts_as_kube_scheduler(self) -> bool:
        return self.group_preemption == "KubeScheduler"

    def problems(self) -> Iterator[Problem]:
        yield from _outside("planningSteps", self.planning_steps, 0, None)
        yield from _unsupported("groupPreemption", self.group_preemption, self.PREEMPTIONS)
        yield from _unsupported("groupRetry", self.group_retry, self.RETRIES)
        if self.partial_gang not in ("Keep", "Evict"):
            yield Problem("partialGang", 'supported values: "Keep", "Evict"', self.partial_gang)
        yield from _outside("graceSeconds", self.grace_seconds, 0, None)
        if self.reserve_after_seconds is not None:
            yield from _outside("reserveAfterSeconds", self.reserve_after_seconds, 0, None)


class GangSchedulingArgs(GroupArgs):
    """kube-scheduler's plugin takes no arguments; these are Mooring's."""

    evict_for_unschedulable_groups: bool = False  # as kube-scheduler v1.36 does, although nothing starts


class CoschedulingArgs(GroupArgs):
    """Those of scheduler-plugins. podGroupRejectPercentage has no effect: groups are planned as a whole."""

    permit_waiting_time_seconds: int = 60
    pod_group_backoff_seconds: int = 0
    pod_group_reject_percentage: int = 10

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.permit_waiting_time_seconds < 0:
            message = "must be greater than or equal to 0"
            yield Problem("permitWaitingTimeSeconds", message, self.permit_waiting_time_seconds)
        if self.pod_group_backoff_seconds < 0:
            message = "must be greater than or equal to 0"
            yield Problem("podGroupBackoffSeconds", message, self.pod_group_backoff_seconds)
        if not 0 <= self.pod_group_reject_percentage <= 100:
            yield Problem("podGroupRejectPercentage", "must be in [0, 100]", self.pod_group_reject_percentage)


class TopologyPlacementGeneratorArgs(Args):
    """kube-scheduler's plugin takes no arguments; these are Mooring's.

    `levels` are node labels from wide to narrow. A group that must stay in one domain of a level is placed in
    as few domains of the levels after it as possible.
    """

    levels: list[str] = []


IN_TREE_ARGS: dict[str, type[Args]] = {
    "Coscheduling": CoschedulingArgs,
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "GangScheduling": GangSchedulingArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "TopologyPlacementGenerator": TopologyPlacementGeneratorArgs,
    "VolumeBinding": VolumeBindingArgs,
}

# ---- names ------------------------------------------------------------------------------------

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def _label_name_problems(field: str, value: str) -> Iterator[Problem]:
    """What keeps `found` from being a label name such as "disktype" or "example.com/gpu"."""
    prefix, slash, name = value.rpartition("/")
    if slash and not (_DOMAIN.fullmatch(prefix) and len(prefix) <= 253):
        yield Problem(field, "prefix part must be a lowercase DNS subdomain (e.g. 'example.com')", value)
    if not name:
        yield Problem(field, "name part must be non-empty", value)
    elif len(name) > 63:
        yield Problem(field, "name part must be no more than 63 characters", value)
    elif not _NAME.fullmatch(name):
        message = (
            "name part must consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        yield Problem(field, message, value)
