"""Eager checks of what scheduling would otherwise trip over later, far from the object that caused it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mooring.api.errors import MISSING, MalformedObject
from mooring.api.meta import KubeObject, LabelSelector, Quantity
from mooring.api.objects import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from mooring.api.quantity import QuantityError, parse
from mooring.api.resources import QUANTITY_EXPECTED, quantity_fields
from mooring.api.selectors import LABEL_OPERATORS, NODE_OPERATORS, field_problem, operator_problem
from mooring.api.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from mooring.api.tolerations import EFFECTS, OPERATORS
from mooring.api.workloads import PodDisruptionBudget, ReplicaSet, StatefulSet

Fail = Callable[[str, object, str], None]
"""Raises for (field, found, expected)."""

_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = (None, "Honor", "Ignore")


def validate(obj: KubeObject) -> None:
    """Raises MalformedObject for the first field that scheduling could not use.

    It checks form, not policy: what it lets through may still be refused by an API server, and what it
    refuses an API server would refuse too.
    """

    def fail(field: str, value: object, expected: str) -> None:
        raise MalformedObject(obj.kind or type(obj).__name__, obj.key, field, value, expected)

    if not obj.metadata.name:
        fail("metadata.name", MISSING, "a name")
    if isinstance(obj, Pod):
        _pod(obj, fail)
    elif isinstance(obj, Node):
        _node(obj, fail)
    elif isinstance(obj, ReplicaSet | StatefulSet | PodDisruptionBudget):
        _label_selector("spec.selector", obj.spec.selector, fail)
    else:
        _storage(obj, fail)


def _pod(pod: Pod, fail: Fail) -> None:
    for field, raw in quantity_fields(pod):
        _quantity(field, raw, fail)
    if pod.spec.affinity is not None:
        _affinity(pod.spec.affinity, fail)
    for index, constraint in enumerate(pod.spec.topology_spread_constraints):
        _spread(f"spec.topologySpreadConstraints[{index}]", constraint, fail)
    for index, toleration in enumerate(pod.spec.tolerations):
        _toleration(f"spec.tolerations[{index}]", toleration, fail)


def _node(node: Node, fail: Fail) -> None:
    for field, raw in quantity_fields(node):
        _quantity(field, raw, fail)
    for index, taint in enumerate(node.spec.taints):
        _one_of(f"spec.taints[{index}].effect", taint.effect, EFFECTS, fail)


def _storage(obj: KubeObject, fail: Fail) -> None:
    if isinstance(obj, PersistentVolume):
        for name, raw in obj.spec.capacity.items():
            _quantity(f"spec.capacity.{name}", raw, fail)
        affinity = obj.spec.node_affinity
        if affinity is not None and affinity.required is not None:
            _node_terms("spec.nodeAffinity.required", affinity.required.node_selector_terms, fail)
    elif isinstance(obj, PersistentVolumeClaim):
        for name, raw in obj.spec.resources.requests.items():
            _quantity(f"spec.resources.requests.{name}", raw, fail)
        _label_selector("spec.selector", obj.spec.selector, fail)
    elif isinstance(obj, CSIStorageCapacity):
        for name, size in (("capacity", obj.capacity), ("maximumVolumeSize", obj.maximum_volume_size)):
            if size is not None:
                _quantity(name, size, fail)
        _label_selector("nodeTopology", obj.node_topology, fail)


def _quantity(field: str, raw: Quantity, fail: Fail) -> None:
    try:
        if parse(raw) < 0:
            fail(field, raw, "a quantity of zero or more")
    except QuantityError:
        fail(field, raw, QUANTITY_EXPECTED)


def _one_of(field: str, value: str | None, choices: Sequence[str | None], fail: Fail) -> None:
    if value not in choices:
        names = ", ".join(name for name in choices if name)
        fail(field, value or MISSING, f"one of {names}")


def _toleration(path: str, toleration: Toleration, fail: Fail) -> None:
    _one_of(f"{path}.operator", toleration.operator, OPERATORS, fail)
    _one_of(f"{path}.effect", toleration.effect, ("", *EFFECTS), fail)


def _spread(path: str, constraint: TopologySpreadConstraint, fail: Fail) -> None:
    if constraint.max_skew <= 0:
        fail(f"{path}.maxSkew", constraint.max_skew, "a number above 0")
    if not constraint.topology_key:
        fail(f"{path}.topologyKey", MISSING, "the name of a node label")
    if constraint.min_domains is not None and constraint.min_domains <= 0:
        fail(f"{path}.minDomains", constraint.min_domains, "a number above 0")
    _one_of(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, _UNSATISFIABLE, fail)
    _one_of(f"{path}.nodeAffinityPolicy", constraint.node_affinity_policy, _POLICIES, fail)
    _one_of(f"{path}.nodeTaintsPolicy", constraint.node_taints_policy, _POLICIES, fail)
    _label_selector(f"{path}.labelSelector", constraint.label_selector, fail)


def _affinity(affinity: Affinity, fail: Fail) -> None:
    if affinity.node_affinity is not None:
        _node_affinity("spec.affinity.nodeAffinity", affinity.node_affinity, fail)
    if affinity.pod_affinity is not None:
        _pod_affinity("spec.affinity.podAffinity", affinity.pod_affinity, fail)
    if affinity.pod_anti_affinity is not None:
        _pod_affinity("spec.affinity.podAntiAffinity", affinity.pod_anti_affinity, fail)


def _node_affinity(path: str, affinity: NodeAffinity, fail: Fail) -> None:
    if affinity.required is not None:
        required = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
        _node_terms(required, affinity.required.node_selector_terms, fail)
    for index, preferred in enumerate(affinity.preferred or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference"
        _node_term(where, preferred.preference, fail)


def _node_terms(path: str, terms: Sequence[NodeSelectorTerm], fail: Fail) -> None:
    for index, term in enumerate(terms):
        _node_term(f"{path}.nodeSelectorTerms[{index}]", term, fail)


def _node_term(path: str, term: NodeSelectorTerm, fail: Fail) -> None:
    for index, item in enumerate(term.match_expressions):
        _requirement(f"{path}.matchExpressions[{index}]", item.operator, item.values, NODE_OPERATORS, fail)
    for index, item in enumerate(term.match_fields):
        problem = field_problem(item.operator, item.values)
        if problem is not None:
            at_values = "value" in problem
            field = f"{path}.matchFields[{index}].{'values' if at_values else 'operator'}"
            fail(field, item.values if at_values else item.operator, problem)


def _pod_affinity(path: str, affinity: PodAffinity, fail: Fail) -> None:
    for index, term in enumerate(affinity.required):
        _pod_term(f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]", term, fail)
    for index, weighted in enumerate(affinity.preferred):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}].podAffinityTerm"
        _pod_term(where, weighted.pod_affinity_term, fail)


def _pod_term(path: str, term: PodAffinityTerm, fail: Fail) -> None:
    if not term.topology_key:
        fail(f"{path}.topologyKey", MISSING, "the name of a node label")
    _label_selector(f"{path}.labelSelector", term.label_selector, fail)
    _label_selector(f"{path}.namespaceSelector", term.namespace_selector, fail)


def _label_selector(path: str, selector: LabelSelector | None, fail: Fail) -> None:
    if selector is not None:
        for index, item in enumerate(selector.match_expressions):
            where = f"{path}.matchExpressions[{index}]"
            _requirement(where, item.operator, item.values, LABEL_OPERATORS, fail)


def _requirement(
    path: str, operator: str, values: Sequence[str], operators: Sequence[str], fail: Fail
) -> None:
    problem = operator_problem(operator, values, operators)
    if problem is None:
        return
    if operator in operators:
        fail(f"{path}.values", values, problem)
    else:
        fail(f"{path}.operator", operator, problem)
