"""Pods and the nodes they are on: which are where, and why one has to leave."""

from __future__ import annotations

from typing import Any

from mooring.api.objects import Pod
from mooring.client.cache import Collection
from mooring.client.controller import Controller
from mooring.client.port import PatchType

_INDEX = "node"


def index_by_node(pods: Collection[Pod]) -> None:
    """Have pods found by their node; `pods_on` needs it."""
    pods.index(_INDEX, _node_of)


def pods_on(pods: Collection[Pod], node: str) -> list[Pod]:
    return pods.by(_INDEX, node)


def _node_of(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


async def disrupt(
    controller: Controller, pods: Collection[Pod], pod: Pod, reason: str, message: str, phase: str = ""
) -> Pod:
    """Write into the status of a pod why it is about to be deleted, and in which phase it ends."""
    status: dict[str, Any] = {"phase": phase} if phase else {}
    if reason:
        target = {
            "type": "DisruptionTarget",
            "observedGeneration": pod.metadata.generation,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": controller.context.now(),
        }
        status["conditions"] = [target]
    patch = {"metadata": {"uid": pod.uid}, "status": status}
    written = await controller.cluster.patch(
        pods.resource, pod.name, patch, pod.namespace, subresource="status", kind=PatchType.STRATEGIC
    )
    pods.wrote(written)
    return written
