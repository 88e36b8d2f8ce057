"""Topology spread constraints in compiled form, and the selector that default constraints work with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mooring.api.meta import KubeObject
from mooring.api.objects import TopologySpreadConstraint
from mooring.api.selectors import EVERYTHING, NOTHING, Selector, SelectorError, compile_selector, from_map
from mooring.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from mooring.framework.handle import Listers
from mooring.framework.pod import Shape
from mooring.plugins.predicates import PodsSelected

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HONOR = "Honor"
DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY),
)


class Constraint(NamedTuple):
    """One constraint of a pod, with the API's defaults filled in."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    def counted(self, namespace: str) -> PodsSelected:
        """The pods that count. An empty selector counts none (though the pod itself matches it)."""
        selector = NOTHING if self.selector.empty else self.selector
        return PodsSelected(frozenset((namespace,)), selector, count_terminating=False)

    def moved(self, namespace: str) -> PodsSelected:
        """The pods whose hypothetical coming and going counts, which an empty selector all matches."""
        return PodsSelected(frozenset((namespace,)), self.selector, count_terminating=False)


class Constraints(NamedTuple):
    """A pod's constraints by what happens when they cannot be met."""

    hard: tuple[Constraint, ...]
    soft: tuple[Constraint, ...]

    def with_selector(self, selector: Selector) -> Constraints:
        """Return these constraints with another selector, or none if the selector is empty."""
        if selector.empty:
            return NO_CONSTRAINTS
        return Constraints(
            tuple(c._replace(selector=selector) for c in self.hard),
            tuple(c._replace(selector=selector) for c in self.soft),
        )


NO_CONSTRAINTS = Constraints((), ())


def compile_constraints(
    constraints: Sequence[TopologySpreadConstraint], labels: Mapping[str, str]
) -> Constraints:
    """The constraints of a pod that has these labels. Raises SelectorError."""
    return Constraints(
        tuple(_compile(c, labels) for c in constraints if c.when_unsatisfiable == DO_NOT_SCHEDULE),
        tuple(_compile(c, labels) for c in constraints if c.when_unsatisfiable == SCHEDULE_ANYWAY),
    )


def own_constraints(shape: Shape) -> Constraints:
    """What the pod's spec says, compiled once per shape."""
    constraints: Constraints | None = shape.derived.get(own_constraints)
    if constraints is None:
        constraints = compile_constraints(shape.spec.topology_spread_constraints, shape.labels)
        shape.derived[own_constraints] = constraints
    return constraints


def _compile(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Constraint:
    selector = compile_selector(constraint.label_selector)
    same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return Constraint(
        constraint.max_skew,
        constraint.topology_key,
        selector.conjoin(from_map(same)),
        1 if constraint.min_domains is None else constraint.min_domains,
        constraint.node_affinity_policy in (None, HONOR),
        constraint.node_taints_policy == HONOR,
    )


# ---- default constraints --------------------------------------------------------------------------

_CONTROLLERS: dict[tuple[str, str], type[ReplicationController | ReplicaSet | StatefulSet]] = {
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
}


def selector_sources(shape: Shape) -> tuple[type[KubeObject], ...]:
    """The kinds of objects that the default selector of such a pod follows from."""
    owner = shape.controller
    kind = None if owner is None else _CONTROLLERS.get((owner.api_version, owner.kind))
    return (Service,) if kind is None else (Service, kind)


def default_selector(shape: Shape, listers: Listers) -> Selector:
    """What the pod's Services and its controller select, all together; empty where there are none."""
    services = _matching(listers.list(Service, shape.namespace), shape.labels)
    merged = {key: value for service in services for key, value in service.items()}
    owner = shape.controller
    kind = None if owner is None else _CONTROLLERS.get((owner.api_version, owner.kind))
    workload = None if owner is None or kind is None else listers.get(kind, owner.name, shape.namespace)
    if isinstance(workload, ReplicationController):
        merged |= workload.spec.selector or {}
    selector = from_map(merged)
    if isinstance(workload, ReplicaSet | StatefulSet):
        selector = selector.conjoin(_set_selector(workload))
    return selector


def _matching(services: Iterable[Service], labels: Mapping[str, str]) -> Iterable[dict[str, str]]:
    for service in services:
        selector = service.spec.selector
        if selector is not None and all(labels.get(key) == value for key, value in selector.items()):
            yield selector


def _set_selector(workload: ReplicaSet | StatefulSet) -> Selector:
    """A controller's selector; one that is missing or does not parse adds nothing."""
    try:
        selector = compile_selector(workload.spec.selector)
    except SelectorError:
        return EVERYTHING
    return EVERYTHING if selector.nothing else selector
