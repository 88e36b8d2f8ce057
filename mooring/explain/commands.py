"""kubectl commands that carry out an advice: a user pastes them into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.meta import OwnerReference
from mooring.api.objects import Pod, Taint

_TEMPLATED = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController")
_TEMPLATE_HASH = "pod-template-hash"
_REPLACE = "kubectl replace --force -f -"


def kubectl(*words: str, namespace: str = "") -> str:
    scope = ("-n", namespace) if namespace else ()
    return shlex.join(("kubectl", *words, *scope))


def workload(pod: Pod) -> tuple[str, str]:
    """Return kind and name of the object whose template the pod is made from; ("pod", name) if it has none,
    and ("", "") if its template cannot be changed, as a Job's."""
    owner: OwnerReference | None = pod.metadata.controller()
    if owner is None:
        return "pod", pod.name
    kind, name = owner.kind, owner.name
    template_hash = pod.metadata.labels.get(_TEMPLATE_HASH, "")
    if kind == "ReplicaSet" and template_hash and name.endswith(f"-{template_hash}"):
        kind, name = "Deployment", name.removesuffix(f"-{template_hash}")
    return (kind.lower(), name) if kind in _TEMPLATED else ("", "")


def patch_spec(pod: Pod, spec: Mapping[str, Any], *, merge: str = "merge") -> str:
    """Return the command that changes the pod's spec where it comes from.

    Most fields of a pod are immutable, so a pod without a controller is created again.
    """
    kind, name = workload(pod)
    if not kind:
        return ""
    patch: dict[str, Any] = {"spec": dict(spec)}
    if kind != "pod":
        patch = {"spec": {"template": patch}}
    text = msgspec.json.encode(patch).decode()
    command = kubectl("patch", kind, name, f"--type={merge}", "-p", text, namespace=pod.namespace)
    return command if kind != "pod" else f"{command} --dry-run=client -o yaml | {_REPLACE}"


def set_request(pod: Pod, container: str, resource: str, quantity: str) -> str:
    """Return the command that sets a container's request, and its limit for an extended resource."""
    kind, name = workload(pod)
    if not kind:
        return ""
    amounts = [f"--requests={resource}={quantity}"]
    if "/" in resource:
        amounts.append(f"--limits={resource}={quantity}")
    command = kubectl("set", "resources", kind, name, "-c", container, *amounts, namespace=pod.namespace)
    return command if kind != "pod" else f"{command} --dry-run=client -o yaml | {_REPLACE}"


def create(tree: Mapping[str, Any]) -> str:
    """Return the command that creates an object."""
    return f"echo {shlex.quote(msgspec.json.encode(tree).decode())} | kubectl create -f -"


def remove_taints(node: str, *taints: Taint) -> str:
    return kubectl("taint", "node", node, *(f"{each.key}:{each.effect}-" for each in taints))
