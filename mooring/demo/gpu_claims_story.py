"""GPUs by resource claims: allocated with the pods, explained when they run out, and freed."""

from __future__ import annotations

import msgspec

from mooring.api.devices import ResourceClaim
from mooring.api.objects import Node, Pod
from mooring.demo.examples import EXAMPLES
from mooring.demo.stage import Stage
from mooring.sandbox.kubelet import load_nodes
from mooring.testing.sandbox_cluster import SandboxCluster

EXAMPLE = "gpu-claims"


def play() -> None:
    nodes = [msgspec.convert(tree, Node) for tree in load_nodes(EXAMPLES / EXAMPLE / "nodes.yaml")]
    with SandboxCluster(nodes) as cluster:
        _play_on(Stage(EXAMPLE, cluster), cluster)


def _play_on(stage: Stage, cluster: SandboxCluster) -> None:
    stage.say(
        """Two nodes have two large GPUs each, one has two small ones. A fake DRA driver publishes them as
        ResourceSlices. Each of three trainers claims two GPUs with at least 40Gi by a template."""
    )
    stage.get("resourceslices", show=["NAME", "NODE", "DRIVER", "POOL"])
    stage.apply("train.yaml")
    cluster.wait(lambda: len(_running(cluster)) == 2, what="two trainers run")
    cluster.advance(2)
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "NODE"])
    stage.get("resourceclaims", show=["NAME", "STATE"])
    stage.expect(len(_devices(cluster)) == 4, "four devices are allocated, each once")
    waiting = _pending(cluster)
    stage.explain(waiting.name)
    stage.say("One trainer ends: its claim goes, and the devices are allocated again.")
    first = _running(cluster)[0]
    stage.delete(f"pod/{first.name}")
    cluster.wait(lambda: _by_name(cluster, waiting.name).ready, what="the next trainer runs")
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "NODE"])
    node = first.spec.node_name
    successor = _by_name(cluster, waiting.name)
    stage.expect(successor.spec.node_name == node, f"{successor.name} got the GPUs of {node}")


def _running(cluster: SandboxCluster) -> list[Pod]:
    return [pod for pod in cluster.pods() if pod.ready]


def _pending(cluster: SandboxCluster) -> Pod:
    return next(pod for pod in cluster.pods() if not pod.spec.node_name)


def _by_name(cluster: SandboxCluster, name: str) -> Pod:
    return next(pod for pod in cluster.pods() if pod.name == name)


def _devices(cluster: SandboxCluster) -> set[tuple[str, str]]:
    claims = [msgspec.convert(tree, ResourceClaim) for tree in cluster.list("resourceclaims")]
    allocations = [claim.allocation for claim in claims if claim.allocation is not None]
    return {(result.pool, result.device) for each in allocations for result in each.devices.results}
