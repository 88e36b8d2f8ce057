"""Amounts, selectors, taints, events and times in the words that people use for them."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.api.counts import count as count
from mooring.api.kinds import COSCHEDULING_POD_GROUPS, WORKLOADS
from mooring.api.meta import LabelSelector
from mooring.api.objects import NodeSelectorRequirement, Taint
from mooring.api.resources import CPU
from mooring.framework.events import Action, Resource

_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_BYTES = ("memory", "ephemeral-storage")

_KINDS = {
    Resource.POD: "a pod",
    Resource.ASSIGNED_POD: "a pod on a node",
    Resource.UNSCHEDULABLE_POD: "a pending pod",
    Resource.NODE: "a node",
    COSCHEDULING_POD_GROUPS.name: "a PodGroup",
    WORKLOADS.name: "a Workload",
}
_PARTS = {
    Action.UPDATE_NODE_ALLOCATABLE: "allocatable resources",
    Action.UPDATE_NODE_LABEL: "labels",
    Action.UPDATE_NODE_TAINT: "taints",
    Action.UPDATE_NODE_CONDITION: "conditions",
    Action.UPDATE_NODE_ANNOTATION: "annotations",
    Action.UPDATE_NODE_DECLARED_FEATURE: "declared features",
    Action.UPDATE_POD_LABEL: "labels",
    Action.UPDATE_POD_SCALE_DOWN: "requests",
    Action.UPDATE_POD_TOLERATION: "tolerations",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "scheduling gates",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "generated resource claims",
}


def amount(resource: str, count: int, *, up: bool = False) -> str:
    """An amount as the scheduler counts it, in a form for manifests: `500m`, `2`, `1.5Gi`.

    Bytes that are no round number are rounded to a tenth: down, or `up` for what is lacking.
    """
    if resource == CPU:
        return str(count // 1000) if count % 1000 == 0 else f"{count}m"
    if resource not in _BYTES and not resource.startswith("hugepages-"):
        return str(count)
    for power, suffix in zip(range(60, 0, -10), _BINARY, strict=True):
        if count >> power:
            tenths = -(-count * 10 >> power) if up else count * 10 >> power
            whole, tenth = divmod(tenths, 10)
            return f"{whole}.{tenth}{suffix}" if tenth else f"{whole}{suffix}"
    return str(count)


def quantity(resource: str, count: int) -> str:
    """An amount exactly, for manifests and commands: `1500m`, `1536Mi`."""
    if resource == CPU:
        return amount(resource, count)
    for power, suffix in zip(range(60, 0, -10), _BINARY, strict=True):
        if resource in _BYTES and count and count % (1 << power) == 0:
            return f"{count >> power}{suffix}"
    return str(count)


def taint(node_taint: Taint) -> str:
    """As for `kubectl taint`: `dedicated=gpu:NoSchedule`."""
    return (
        f"{node_taint.key}={node_taint.value}:{node_taint.effect}"
        if node_taint.value
        else f"{node_taint.key}:{node_taint.effect}"
    )


def requirement(key: str, operator: str, values: Sequence[str]) -> str:
    """In the notation of `kubectl get -l`."""
    listed = f"({', '.join(values)})"
    return {
        "In": f"{key}={values[0]}" if len(values) == 1 else f"{key} in {listed}",
        "NotIn": f"{key} notin {listed}",
        "Exists": key,
        "DoesNotExist": f"!{key}",
        "Gt": f"{key}>{', '.join(values)}",
        "Lt": f"{key}<{', '.join(values)}",
    }.get(operator, f"{key} {operator} {listed}")


def node_requirement(expression: NodeSelectorRequirement) -> str:
    return requirement(expression.key, expression.operator, expression.values)


def selector(label_selector: LabelSelector | None) -> str:
    """A label selector as one text."""
    if label_selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in label_selector.match_labels.items()]
    parts += [requirement(each.key, each.operator, each.values) for each in label_selector.match_expressions]
    return ",".join(parts) or "all pods"


def listed(names: Sequence[str], total: int | None = None) -> str:
    """List some names, and the number of the others: `a, b and 3 more`."""
    more = (len(names) if total is None else total) - len(names)
    text = ", ".join(names)
    return f"{text} and {more} more" if more > 0 and names else text


def joined(parts: Sequence[str], last: str = "or") -> str:
    """`a, b or c`."""
    return " ".join((", ".join(parts[:-1]), last, parts[-1])) if len(parts) > 1 else "".join(parts)


def event(resource: str, action: Action) -> str:
    """`a node is added, or its labels or taints change`."""
    if resource == Resource.WILDCARD:
        return "anything happens"
    kind = _KINDS.get(resource) or f"a {resource.rpartition('/')[2]}"
    verbs = ["is added"] if action & Action.ADD else []
    verbs += ["is deleted"] if action & Action.DELETE else []
    if action & Action.UPDATE == Action.UPDATE:
        return f"{kind} {joined([*verbs, 'changes'])}"
    parts = list(dict.fromkeys(part for each, part in _PARTS.items() if action & each))
    if not parts:
        return f"{kind} {joined(verbs)}"
    changing = f"{joined(parts)} change"
    return f"{kind} {joined(verbs)}, or its {changing}" if verbs else f"{kind}'s {changing}"


def duration(seconds: float) -> str:
    """Format a duration roughly, as kubectl formats ages: `12s`, `5m12s`, `3h`, `2d`."""
    total = max(0, int(seconds))
    if total < 120:
        return f"{total}s"
    minutes, rest = divmod(total, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"
