"""PodResizeValidator: reject a resize that the node of a pod can never have room for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from mooring.api.objects import Node, Pod
from mooring.api.quantity import milli_value, parse, value
from mooring.api.resources import CPU, MEMORY, total_requests
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.objects import Tree

_OS: Final = "kubernetes.io/os"
_NODES: Final[msgspec.json.Decoder[Node]] = msgspec.json.Decoder(Node)


class PodResizeValidator(AdmissionPlugin):
    operations = frozenset({"UPDATE"})
    storages = frozenset({"pods"})
    subresources = True

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.subresource != "resize" or old is None or obj["spec"] == old["spec"]:
            return
        name = obj["spec"].get("nodeName")
        if not name:
            return
        record = write.api.record("nodes", name)
        if record is None:
            raise forbidden("", "pods", write.name, f'node "{name}" not found')
        node = _NODES.decode(record.body)
        system = node.metadata.labels.get(_OS, "linux")
        if system != "linux":
            why = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
            raise _rejection(write, why, "UnsupportedPlatform")
        if lacking := "; ".join(_lacking(msgspec.convert({"spec": obj["spec"]}, Pod), node)):
            why = f"node didn't have enough allocatable resources: {lacking}"
            raise _rejection(write, why, "NodeCapacity")


def _lacking(pod: Pod, node: Node) -> Iterator[str]:
    """Yield what a pod requests that is more than all of its node."""
    requests, allocatable = total_requests(pod, use_status=False), node.status.allocatable
    for name, whole in ((CPU, milli_value), (MEMORY, value)):
        requested, amount = requests.get(name, 0), parse(allocatable.get(name, "0"))
        if requested > amount:
            yield f"{name}, requested: {whole(requested)}, allocatable: {whole(amount)}"


def _rejection(write: Write, why: str, reason: str) -> ApiError:
    error = forbidden("", "pods", write.name, why)
    error.details = {**(error.details or {}), "causes": [{"reason": reason}]}
    return error
