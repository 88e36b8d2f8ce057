"""Nodes from files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.sandbox.kubelet import NodesFileError, load_nodes
from mooring.sandbox.kubelet.nodes_file import read_nodes

GROUPS = """
- name: web
  count: 3
  zones: [local-a, local-b]
- name: gpu
  capacity: {cpu: 32, memory: 256Gi, nvidia.com/gpu: 8}
  labels: {accelerator: a100}
  annotations: {team: ml}
  instanceType: large
  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata:
  name: worker
  uid: "1234"
  resourceVersion: "7"
  labels: {disk: ssd}
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "20"}
"""


def test_groups_of_equal_nodes() -> None:
    nodes = read_nodes(GROUPS, "nodes.yaml")
    assert [node["metadata"]["name"] for node in nodes] == ["web-1", "web-2", "web-3", "gpu"]
    zones = [node["metadata"]["labels"].get("topology.kubernetes.io/zone") for node in nodes]
    assert zones == ["local-a", "local-b", "local-a", None]
    gpu = nodes[3]
    capacity = gpu["status"]["capacity"]
    assert (capacity["cpu"], capacity["nvidia.com/gpu"], capacity["pods"]) == ("32", "8", "110")
    assert gpu["metadata"]["labels"]["accelerator"] == "a100"
    assert gpu["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "large"
    assert gpu["metadata"]["annotations"] == {"team": "ml"}
    assert gpu["spec"]["taints"] == [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]


def test_the_items_of_a_node_list_need_no_kind(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    items = [{"metadata": {"name": name}} for name in ("a", "b")]
    file.write_text(json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": items}))
    assert [(node["kind"], node["metadata"]["name"]) for node in load_nodes(file)] == [
        ("Node", "a"),
        ("Node", "b"),
    ]


def test_node_objects_beside_groups_and_in_lists(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    listed = NODE.replace("worker", "listed").replace("\n", "\n    ").strip()
    file.write_text(f"{NODE}\n---\n{{name: small, count: 1}}\n---\nkind: List\nitems:\n  - {listed}\n")
    worker, small, other = load_nodes(file)
    assert worker["metadata"]["labels"]["disk"] == "ssd"
    assert worker["metadata"]["labels"]["kubernetes.io/hostname"] == "worker"
    assert "uid" not in worker["metadata"]
    assert "resourceVersion" not in worker["metadata"]
    assert worker["status"]["allocatable"]["pods"] == "20"
    assert small["metadata"]["name"] == "small-1"
    assert other["metadata"]["name"] == "listed"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "found no nodes, expected Node objects or groups"),
        ("just text", 'entry 1: found "just text", expected a Node or a group of nodes'),
        ("[{count: 3}]", "nodes entry 1: name: found nothing, expected a name"),
        ("[{name: a}, {name: b, count: many}]", 'nodes entry 2: count: found "many", expected an integer'),
        ("{name: a, count: -1}", "nodes entry 1: count: found -1, expected a number from 0 to"),
        ("{name: a, cpu: 4}", "nodes entry 1: cpu: found 4, expected one of the fields name, count"),
        ("{name: a, capacity: {cpu: lots}}", 'Node a: status.capacity.cpu: found "lots", expected a quant'),
        ("{name: a, taints: [{key: k, effect: Never}]}", 'Node a: spec.taints[0].effect: found "Never"'),
        ("[{name: a}, {name: a}]", "Node a: defined twice"),
        ("{kind: Pod, apiVersion: v1, metadata: {name: p}}", "Pod p: expected a Node"),
        ("{kind: Node, metadata: {}}", "Node: metadata.name: found nothing, expected a name"),
        ("{kind: Node, metadata: {name: n}, spec: {taints: 7}}", "Node n: spec.taints: found 7, expected"),
        ("a: [", "not YAML"),
        ("{name: a, labels: {1: b}}", "labels"),
    ],
)
def test_what_is_wrong_is_told_by_file_and_field(text: str, told: str) -> None:
    with pytest.raises(NodesFileError) as error:
        read_nodes(text, "nodes.yaml")
    assert str(error.value).startswith("nodes.yaml: ")
    assert told in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NodesFileError, match=r"none\.yaml: No such file or directory"):
        load_nodes(tmp_path / "none.yaml")
    file = tmp_path / "bytes.yaml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(NodesFileError, match="expected YAML or JSON in UTF-8"):
        load_nodes(file)
