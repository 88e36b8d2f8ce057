"""createNodes: nodes with labels and resources of their own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mooring.api.kinds import CSI_NODES, NODES
from mooring.simulate.perf.suite import CreateNodes
from mooring.simulate.perf.templates import NODE
from mooring.simulate.perf.workspace import Workspace, name_node, parallel


async def create_nodes(space: Workspace, index: int, operation: CreateNodes) -> None:
    fixed = {**NODE, "metadata": {"generateName": f"node-{index}-"}}
    template = space.template(operation.node_template_path, fixed)
    unique, label = operation.unique_node_label_strategy, operation.label_node_prepare_strategy
    strategy = operation.node_allocatable_strategy
    if label is not None and not label.label_values:
        raise ValueError("labelNodePrepareStrategy: labelValues: expected at least one")

    async def make(i: int) -> None:
        node = template.object(i, operation.count)
        name_node(node, space.bench.random)
        labels = node["metadata"]["labels"]
        if label is not None:
            labels[label.label_key] = label.label_values[i % len(label.label_values)]
        if unique is not None:
            labels[unique.label_key] = str(UUID(int=space.bench.random.getrandbits(128), version=4))
        if strategy is not None:
            status = node.setdefault("status", {})
            allocatable = status.get("allocatable") or status.get("capacity") or {}
            status["allocatable"] = {**allocatable, **strategy.node_allocatable}
        made = await space.create(NODES, node)
        if strategy is not None:
            await space.create(CSI_NODES, _csi_node(made.name, strategy))

    await parallel(operation.count, make)


def _csi_node(name: str, strategy: Any) -> dict[str, Any]:
    annotation = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(strategy.migrated_plugins)}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "annotations": annotation},
        "spec": {
            "drivers": [
                {"name": driver, "nodeID": name, "allocatable": amount}
                for driver, amount in strategy.csi_node_allocatable.items()
            ]
        },
    }
