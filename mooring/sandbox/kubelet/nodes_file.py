"""Nodes from a file: Node objects as `kubectl get nodes -o yaml` writes them, or groups of equal nodes.

    - name: web                    # web-1, web-2 and web-3
      count: 3
      zones: [local-a, local-b]    # in turn
    - name: gpu                    # without a count: one node by this very name
      capacity: {cpu: 32, memory: 256Gi, nvidia.com/gpu: 8}
      labels: {accelerator: a100}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      devices:                     # a fake DRA driver publishes gpu-0 to gpu-7
      - driver: gpu.example.com
        name: gpu
        count: 8
        attributes: {model: A100, numa: [0, 0, 0, 0, 1, 1, 1, 1]}  # lists: in turn
        capacity: {memory: 80Gi}

Both may stand in one file, as documents or in lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.complaints import malformed
from mooring.api.decode import from_dict, strip_nulls
from mooring.api.documents import creatable_metadata, read_objects
from mooring.api.errors import MISSING, MalformedObject, ObjectError, UnknownKind, show
from mooring.api.meta import Quantity, ResourceList, Tree
from mooring.api.objects import Node, Taint
from mooring.api.validation import validate
from mooring.sandbox.apiserver.validation.resource_slices import resource_slice
from mooring.sandbox.kubelet.devices import DEVICES, DeviceError, DeviceGroup, devices_by_driver
from mooring.sandbox.kubelet.dra_driver import MOST_IN_SLICE
from mooring.sandbox.kubelet.machines import CAPACITY, named_node, numbered

MOST_NODES = 100_000
LARGEST_FILE = 64 << 20  # bytes


class NodesFileError(ValueError):
    """The file cannot be used; says where and why."""


class NodeGroup(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Nodes that are alike."""

    name: str
    count: int | None = None
    capacity: ResourceList = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: list[Taint] = []
    zones: list[str] = []
    instance_type: str = "fake"
    devices: list[DeviceGroup] = []


_FIELDS = [field.encode_name for field in msgspec.structs.fields(NodeGroup)]


def load_nodes(path: str | Path) -> list[Tree]:
    """The Node objects of a file. Raises NodesFileError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise NodesFileError(f"{path}: file exceeds {LARGEST_FILE >> 20} MiB")
        text = data.decode()
    except OSError as error:
        raise NodesFileError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NodesFileError(f"{path}: expected YAML or JSON in UTF-8") from None
    return read_nodes(text, str(path))


def read_nodes(text: str, source: str) -> list[Tree]:
    """The Node objects of a text; `source` names it in errors. Raises NodesFileError."""
    nodes: dict[str, Tree] = {}
    try:
        for at, tree in enumerate(_members(text), 1):
            for node in _nodes(tree, f"entry {at}"):
                name = node["metadata"]["name"]
                if name in nodes:
                    raise ObjectError("Node", name, "defined twice")
                nodes[name] = node
                if len(nodes) > MOST_NODES:
                    raise NodesFileError(f"more than {MOST_NODES} nodes")
    except ValueError as error:
        raise NodesFileError(f"{source}: {error}") from None
    if not nodes:
        raise NodesFileError(f"{source}: found no nodes, expected Node objects or groups with name and count")
    return list(nodes.values())


def _members(text: str) -> Iterator[Any]:
    """The entries of all documents; lists are flattened."""
    for tree in read_objects(text):
        if isinstance(tree, ValueError):
            raise tree
        yield from tree if isinstance(tree, list) else [tree]


def _nodes(tree: Any, where: str) -> Iterator[Tree]:
    if not isinstance(tree, dict):
        raise ValueError(f"{where}: found {show(tree)}, expected a Node or a group of nodes")
    if "kind" in tree:
        yield _node(tree)
    else:
        yield from _group(tree, where)


def _node(tree: Tree) -> Tree:
    """A Node object as it can be created; whatever an API server added to it is left out."""
    try:
        node = from_dict(tree)
    except UnknownKind as error:
        raise ObjectError(error.kind, error.key, "expected a Node") from None
    if not isinstance(node, Node):
        raise ObjectError(node.kind, node.key, "expected a Node")
    validate(node)
    metadata = creatable_metadata(tree["metadata"])
    labels = named_node(node.name)["metadata"]["labels"] | (metadata.get("labels") or {})
    return {**strip_nulls(tree), "apiVersion": "v1", "metadata": {**metadata, "labels": labels}}


def _group(tree: Tree, where: str) -> Iterator[Tree]:
    try:
        group = msgspec.convert(strip_nulls(tree), NodeGroup)
    except msgspec.ValidationError as error:
        raise _complaint(tree, where, str(error)) from None
    if group.count is not None and not 0 <= group.count <= MOST_NODES:
        raise MalformedObject("nodes", where, "count", group.count, f"a number from 0 to {MOST_NODES}")
    names = [group.name] if group.count is None else numbered(group.name, group.count)
    for at, name in enumerate(names):
        zone = group.zones[at % len(group.zones)] if group.zones else ""
        node = named_node(name, zone=zone, instance_type=group.instance_type)
        node["metadata"]["labels"] |= group.labels
        annotations = dict(group.annotations)
        if group.devices:
            annotations[DEVICES] = msgspec.json.encode(group.devices).decode()
        if annotations:
            node["metadata"]["annotations"] = annotations
        if group.taints:
            node["spec"]["taints"] = msgspec.to_builtins(group.taints)
        node["status"]["capacity"] = {**CAPACITY, **_texts(group.capacity)}
        if at == 0:
            validate(msgspec.convert(node, Node))
            _check_devices(group, where)
        yield node


def _check_devices(group: NodeGroup, where: str) -> None:
    """Reject what the API server would reject when the devices are published."""
    try:
        drivers = devices_by_driver(group.devices)
    except DeviceError as error:
        raise ObjectError("nodes", where, f"devices: {error}") from None
    pool = {"name": group.name, "generation": 1, "resourceSliceCount": 1}
    for driver, devices in drivers.items():
        spec = {"driver": driver, "nodeName": group.name, "pool": pool, "devices": devices[:MOST_IN_SLICE]}
        names = [device["name"] for device in devices]
        repeated = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if repeated is not None:
            raise ObjectError("nodes", where, f"devices: {driver}: {repeated} defined twice")
        for cause in resource_slice({"spec": spec}):
            raise ObjectError("nodes", where, str(cause).removeprefix("spec."))


def _texts(quantities: dict[str, Quantity]) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in quantities.items()}


def _complaint(tree: Tree, where: str, problem: str) -> ObjectError:
    unknown = next((name for name in tree if name not in _FIELDS), None)
    if unknown is not None:
        expected = f"one of the fields {', '.join(_FIELDS)}"
        return MalformedObject("nodes", where, str(unknown), tree[unknown], expected)
    if "name" not in tree:
        return MalformedObject("nodes", where, "name", MISSING, "a name")
    error = malformed("nodes", tree, problem)
    return MalformedObject("nodes", where, error.field, error.found, error.expected)
