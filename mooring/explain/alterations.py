"""Copies of a pod with one change: what a user might drop or add to make it fit.

Each copy is evaluated by running the filters again, so nothing here depends on what plugins do with it. A
change of a node or of another object is represented by a pod that does not need it: to the filters, a pod
that tolerates a taint is what a node without the taint is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from mooring.api.objects import (
    Affinity,
    Container,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    Taint,
    Toleration,
    Volume,
)
from mooring.api.storage import PersistentVolumeClaim
from mooring.api.tolerations import HARD_EFFECTS, Tolerations
from mooring.explain import words

MOST_OF_A_KIND = 16  # of taints, labels, terms and so on that are tried: a spec may be as long as it likes
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CONDITIONS = "node.kubernetes.io/"  # taints that Kubernetes sets for the conditions of a node


class Alteration(NamedTuple):
    """A pod as it would be, and how to say what is different."""

    kind: str
    text: str
    field: str
    pod: Pod
    number: int = -1  # of the one thing that differs: a taint, constraint or volume, or the port number
    key: str = ""  # the resource or label that differs
    patch: Mapping[str, Any] | None = None  # of the pod's spec, where it is the pod that would change
    claim: PersistentVolumeClaim | None = None  # that would exist, in addition


class Group(NamedTuple):
    """Alterations of one kind; all of them together are tried where none of them does."""

    each: list[Alteration]
    together: Alteration | None = None


def altered(pod: Pod, **spec: Any) -> Pod:
    """The pod with some fields of its spec changed."""
    return replace(pod, spec=replace(pod.spec, **spec))


def alterations(
    pod: Pod, taints: Iterable[Taint], requests: Iterable[str], offered: Iterable[str]
) -> Iterator[Group]:
    """Everything that could be given up of the pod and its requests, or tolerated of these taints."""
    yield resources(pod, requests, offered)
    yield cordon(pod)
    yield tolerations(pod, taints)
    yield node_selector(pod)
    yield node_affinity(pod)
    yield spread(pod)
    yield pod_affinity(pod)
    yield pod_anti_affinity(pod)
    yield host_ports(pod)
    yield volumes(pod)


# ---- resources


def resources(pod: Pod, requests: Iterable[str], offered: Iterable[str]) -> Group:
    """Less of each resource; of one that no node offers, another with a similar name instead."""
    names, there = list(requests), set(offered)
    each = []
    for name in names[:MOST_OF_A_KIND]:
        close = [] if name in there else get_close_matches(name, there, n=1, cutoff=0.8)
        field = f"spec.containers[*].resources.requests[{name}]"
        if close:
            each.append(
                Alteration("resourceName", close[0], field, renamed_resource(pod, name, close[0]), key=name)
            )
        else:
            each.append(Alteration("resource", "", field, without_resources(pod, {name}), key=name))
    field = "spec.containers[*].resources.requests"
    nothing = without_resources(pod, set(names))
    return Group(each, Alteration("resource", "", field, nothing) if len(names) > 1 else None)


def renamed_resource(pod: Pod, old: str, new: str) -> Pod:
    """The pod with requests for another resource in the place of one."""
    return altered(
        pod,
        containers=[_renamed(each, old, new) for each in pod.spec.containers],
        init_containers=[_renamed(each, old, new) for each in pod.spec.init_containers],
    )


def _renamed(container: Container, old: str, new: str) -> Container:
    requests = {new if name == old else name: raw for name, raw in container.resources.requests.items()}
    return replace(container, resources=replace(container.resources, requests=requests))


def without_resources(pod: Pod, resources: Set[str]) -> Pod:
    """The pod with no request for these resources, anywhere in it."""
    spec = pod.spec
    whole = spec.resources
    return altered(
        pod,
        containers=[_without(each, resources) for each in spec.containers],
        init_containers=[_without(each, resources) for each in spec.init_containers],
        overhead=_others(spec.overhead, resources),
        resources=None if whole is None else replace(whole, requests=_others(whole.requests, resources)),
    )


def _without(container: Container, resources: Set[str]) -> Container:
    requests = container.resources.requests
    if resources.isdisjoint(requests):
        return container
    kept = _others(requests, resources)
    return replace(container, resources=replace(container.resources, requests=kept))


def _others(amounts: Mapping[str, Any], resources: Set[str]) -> dict[str, Any]:
    return {name: raw for name, raw in amounts.items() if name not in resources}


# ---- taints


def cordon(pod: Pod) -> Group:
    """A node that is uncordoned loses spec.unschedulable and the taint that goes with it: to the pod that is
    as if it tolerated both."""
    return Group([Alteration("uncordon", "uncordon a node", "", _tolerating(pod, UNSCHEDULABLE))])


def tolerations(pod: Pod, taints: Iterable[Taint]) -> Group:
    """Each taint that keeps the pod off some node, as many as are worth trying."""
    untolerated_taints = [taint for taint in untolerated(pod, taints) if taint.key != UNSCHEDULABLE.key]
    each = [
        Alteration(
            "toleration", _toleration_text(taint), "spec.tolerations", _tolerating(pod, taint), i, taint.key
        )
        for i, taint in enumerate(untolerated_taints[:MOST_OF_A_KIND])
    ]
    anything = altered(pod, tolerations=[*pod.spec.tolerations, Toleration(operator="Exists")])
    together = Alteration("toleration", "remove all taints", "spec.tolerations", anything)
    return Group(each, together if len(untolerated_taints) > 1 else None)


def untolerated(pod: Pod, taints: Iterable[Taint]) -> list[Taint]:
    """The taints among these that keep the pod off a node."""
    mine = Tolerations(pod.spec.tolerations)
    return [taint for taint in taints if taint.effect in HARD_EFFECTS and mine.find(taint) is None]


def _toleration_text(taint: Taint) -> str:
    if is_condition(taint):
        return f"end the condition behind the taint {words.taint(taint)}"
    return f"remove the taint {words.taint(taint)}, or tolerate it"


def is_condition(taint: Taint) -> bool:
    """Whether Kubernetes sets the taint for a condition of the node, so that removing it has no effect."""
    return taint.key.startswith(_CONDITIONS)


def _tolerating(pod: Pod, taint: Taint) -> Pod:
    toleration = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
    return altered(pod, tolerations=[*pod.spec.tolerations, toleration])


# ---- labels of nodes


def node_selector(pod: Pod) -> Group:
    selector = pod.spec.node_selector or {}
    field = "spec.nodeSelector"
    each = [
        Alteration(
            "nodeSelector",
            f"drop the node selector {key}={value}",
            f"{field}[{key}]",
            altered(pod, node_selector={k: v for k, v in selector.items() if k != key}),
            key=key,
            patch={"nodeSelector": {key: None}},
        )
        for key, value in [*selector.items()][:MOST_OF_A_KIND]
    ]
    together = Alteration(
        "nodeSelector",
        "drop the node selector",
        field,
        altered(pod, node_selector=None),
        patch={"nodeSelector": None},
    )
    return Group(each, together if len(each) > 1 else None)


def node_affinity(pod: Pod) -> Group:
    affinity = pod.spec.affinity
    node = None if affinity is None else affinity.node_affinity
    if affinity is None or node is None or node.required is None:
        return Group([])
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}"

    def requiring(selector: NodeSelector | None) -> Pod:
        return altered(pod, affinity=replace(affinity, node_affinity=replace(node, required=selector)))

    def patch(selector: NodeSelector | None) -> Mapping[str, Any]:
        return {"affinity": {"nodeAffinity": {_REQUIRED: selector}}}

    each = []
    terms = node.required.node_selector_terms
    for i, term in enumerate(terms[:MOST_OF_A_KIND]):
        for less, text in islice(_looser(term), MOST_OF_A_KIND):
            changed = NodeSelector(node_selector_terms=[*terms[:i], less, *terms[i + 1 :]])
            text = f"drop {text} from the required node affinity"
            place = f"{field}.nodeSelectorTerms[{i}]"
            each.append(Alteration("nodeAffinity", text, place, requiring(changed), patch=patch(changed)))
    text = "drop the required node affinity"
    whole = Alteration("nodeAffinity", text, field, requiring(None), patch=patch(None))
    return Group(each, whole) if each else Group([whole])


def _looser(term: NodeSelectorTerm) -> Iterator[tuple[NodeSelectorTerm, str]]:
    """A term without each of its requirements; one that lost its last would match no node at all."""
    labels, fields = term.match_expressions, term.match_fields
    if len(labels) + len(fields) < 2:
        return
    for i, dropped in enumerate(labels):
        yield replace(term, match_expressions=labels[:i] + labels[i + 1 :]), words.node_requirement(dropped)
    for i, dropped in enumerate(fields):
        yield replace(term, match_fields=fields[:i] + fields[i + 1 :]), words.node_requirement(dropped)


# ---- other pods


def spread(pod: Pod) -> Group:
    constraints = pod.spec.topology_spread_constraints
    field = "spec.topologySpreadConstraints"
    hard = [i for i, each in enumerate(constraints) if each.when_unsatisfiable == "DoNotSchedule"]
    each = [
        Alteration(
            "topologySpread",
            f"drop the spread of {words.selector(constraints[i].label_selector)} "
            f"over {constraints[i].topology_key} (maxSkew {constraints[i].max_skew})",
            f"{field}[{i}]",
            altered(pod, topology_spread_constraints=constraints[:i] + constraints[i + 1 :]),
            i,
            patch={"topologySpreadConstraints": constraints[:i] + constraints[i + 1 :]},
        )
        for i in hard[:MOST_OF_A_KIND]
    ]
    soft = [each for each in constraints if each.when_unsatisfiable != "DoNotSchedule"]
    text = "drop all topology spread constraints"
    together = Alteration(
        "topologySpread",
        text,
        field,
        altered(pod, topology_spread_constraints=soft),
        patch={"topologySpreadConstraints": soft},
    )
    return Group(each, together if len(each) > 1 else None)


def with_max_skew(pod: Pod, index: int, max_skew: int) -> Pod:
    constraints = list(pod.spec.topology_spread_constraints)
    constraints[index] = replace(constraints[index], max_skew=max_skew)
    return altered(pod, topology_spread_constraints=constraints)


def pod_affinity(pod: Pod) -> Group:
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return Group([])
    return _terms(pod, affinity, affinity.pod_affinity, "podAffinity", "affinity to", "pod_affinity")


def pod_anti_affinity(pod: Pod) -> Group:
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return Group([])
    against = affinity.pod_anti_affinity
    return _terms(pod, affinity, against, "podAntiAffinity", "anti-affinity against", "pod_anti_affinity")


def _terms(pod: Pod, affinity: Affinity, rules: PodAffinity, kind: str, called: str, attribute: str) -> Group:
    field = f"spec.affinity.{kind}.{_REQUIRED}"
    terms = rules.required

    def requiring(kept: list[Any]) -> Pod:
        return altered(pod, affinity=replace(affinity, **{attribute: replace(rules, required=kept)}))

    def patch(kept: list[Any]) -> Mapping[str, Any]:
        return {"affinity": {kind: {_REQUIRED: kept}}}

    each = [
        Alteration(
            kind,
            f"drop the {called} {words.selector(term.label_selector)} per {term.topology_key}",
            f"{field}[{i}]",
            requiring(terms[:i] + terms[i + 1 :]),
            patch=patch(terms[:i] + terms[i + 1 :]),
        )
        for i, term in enumerate(terms[:MOST_OF_A_KIND])
    ]
    text = f"drop the whole required {called.split()[0]}"
    together = Alteration(kind, text, field, requiring([]), patch=patch([]))
    return Group(each, together if len(each) > 1 else None)


# ---- ports and volumes


def host_ports(pod: Pod) -> Group:
    return Group(list(islice(_without_port(pod), MOST_OF_A_KIND)))


def _without_port(pod: Pod) -> Iterator[Alteration]:
    for i, container in enumerate(pod.spec.containers):
        for j, port in enumerate(container.ports):
            if port.host_port:
                containers = list(pod.spec.containers)
                containers[i] = replace(container, ports=container.ports[:j] + container.ports[j + 1 :])
                text = f"free host port {port.host_port}/{port.protocol or 'TCP'}, or do without it"
                field = f"spec.containers[{i}].ports[{j}].hostPort"
                yield Alteration("hostPort", text, field, altered(pod, containers=containers), port.host_port)


def volumes(pod: Pod) -> Group:
    return Group(list(islice(_without_volume(pod), MOST_OF_A_KIND)))


def _without_volume(pod: Pod) -> Iterator[Alteration]:
    volumes = pod.spec.volumes
    for i, volume in enumerate(volumes):
        if volume == Volume(name=volume.name):
            continue  # of a kind that ties it to no node
        claim = volume.persistent_volume_claim
        called = f"volume {volume.name}" if claim is None else f"claim {claim.claim_name}"
        less = altered(pod, volumes=volumes[:i] + volumes[i + 1 :])
        yield Alteration("volume", f"remove the {called}", f"spec.volumes[{i}]", less, i)
