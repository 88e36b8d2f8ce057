"""Which pending pods must be bound in the end, by an implementation of its own."""

from __future__ import annotations

from typing import Any

from tests.faults.checker import Checker
from tests.faults.gangs import group_of
from tests.faults.pods import Pod, amount

Tree = dict[str, Any]

DEPENDENT = ("volumes", "resourceClaims", "affinity", "topologySpreadConstraints")


def schedulable_pods(checker: Checker) -> list[Pod]:
    """Return the pending pods that fit on a node, perhaps after preemption. Pods with volumes, claims,
    affinity or spread constraints are left out: their nodes depend on more than the nodes. So are pods of
    gangs that are not whole."""
    return [
        pod
        for pod in checker.pods.values()
        if not (pod.node or pod.gated or pod.terminating or pod.finished)
        and pod.spec.get("schedulerName") == "default-scheduler"
        and not any(pod.spec.get(part) for part in DEPENDENT)
        and not checker.gangs.is_waiting(checker, pod)
        and any(_fits(checker, node, pod) for node in checker.nodes.values())
    ]


def startable_gangs(checker: Checker) -> list[str]:
    """Return the gangs of which too few pods are bound although so many fit as they lack, perhaps after
    preemption. Their pods are alike."""
    startable = []
    for key, minimum in checker.gangs.minimums().items():
        pods = [pod for pod in checker.gangs.pods(checker, key) if not pod.gated]
        lacking = minimum - sum(bool(pod.node) for pod in pods)
        pending = [pod for pod in pods if not pod.node]
        if not 0 < lacking <= len(pending) or any(pending[0].spec.get(part) for part in DEPENDENT):
            continue
        room = sum(_room(checker, node, pending[0], lacking) for node in checker.nodes.values())
        if room >= lacking:
            startable.append(key)
    return startable


def _room(checker: Checker, node: Tree, pod: Pod, enough: int) -> int:
    """Return how many pods like this one fit on the node."""
    room = 0
    while room < enough and _fits(checker, node, pod, room):
        room += 1
    return room


def _fits(checker: Checker, node: Tree, pod: Pod, alike: int = 0) -> bool:
    """Whether the pod fits on the node, in addition to so many that are like it."""
    labels = node["metadata"].get("labels") or {}
    selector = pod.spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    spec = node["spec"]
    tolerant = bool(pod.spec.get("tolerations")) and pod.spec["tolerations"][0] == {"operator": "Exists"}
    taints = [t for t in spec.get("taints") or () if t["effect"] != "PreferNoSchedule"]
    if (spec.get("unschedulable") or taints) and not tolerant:
        return False
    stay = [other for other in checker.on(node["metadata"]["name"]) if other.priority >= pod.priority]
    if any(other.ports & pod.ports for other in stay) or (alike and pod.ports):
        return False
    nominated = [
        other
        for other in checker.pods.values()
        if not other.node
        and other is not pod
        and not other.terminating
        and other.priority >= pod.priority
        and (not group_of(pod) or group_of(other) != group_of(pod))
        and (other.tree.get("status") or {}).get("nominatedNodeName") == node["metadata"]["name"]
    ]
    if _anti_affine(stay, pod):
        return False
    for resource, request in pod.requests.items():
        taken = sum(other.requests.get(resource, 0.0) for other in (*stay, *nominated))
        if (
            request
            and taken + request * (1 + alike)
            > amount(node["status"].get("allocatable", {}).get(resource, 0)) + 1e-6
        ):
            return False
    return True


def _anti_affine(others: list[Pod], pod: Pod) -> bool:
    """Whether another pod's anti-affinity keeps this one away."""
    for other in others:
        terms = (other.spec.get("affinity") or {}).get("podAntiAffinity") or {}
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution", ()):
            wanted = (term.get("labelSelector") or {}).get("matchLabels") or {}
            if all(pod.labels.get(key) == value for key, value in wanted.items()):
                return True
    return False
