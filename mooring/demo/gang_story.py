"""Gangs: two jobs of five pods and room for one. One starts whole, the other when there is room for all."""

from __future__ import annotations

import msgspec

from mooring.api.objects import Node, Pod
from mooring.demo.examples import EXAMPLES
from mooring.demo.stage import Stage
from mooring.sandbox.kubelet import load_nodes
from mooring.testing.sandbox_cluster import SandboxCluster

EXAMPLE = "gang"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "featureGates": {"GenericWorkload": True, "GangScheduling": True},
}
SIZE = 5


def play() -> None:
    nodes = [msgspec.convert(tree, Node) for tree in load_nodes(EXAMPLES / EXAMPLE / "nodes.yaml")]
    with SandboxCluster(nodes, config=CONFIG) as cluster:
        _play_on(Stage(EXAMPLE, cluster), cluster)


def _play_on(stage: Stage, cluster: SandboxCluster) -> None:
    stage.say(
        """Two training jobs of five pods each; every pod needs a whole node, and there are five nodes. A job
        that gets three nodes of five wastes them, so each is a gang: all its pods start, or none."""
    )
    stage.apply("red.yaml")
    stage.apply("blue.yaml")
    cluster.wait(lambda: len(_running(cluster, "red")) == SIZE, what="red runs")
    cluster.advance(2)
    _show(stage)
    stage.expect(not _placed(cluster, "blue"), "red runs whole; blue waits and holds no node")
    waiting = cluster.pods("team=blue")[0]
    stage.describe_events(waiting.name)
    stage.say("Red ends after ten minutes. One node is out of service then, so that blue has four.")
    node = cluster.pods("team=red")[0].spec.node_name
    stage.cordon(node)
    stage.pass_time(620)
    stage.expect(not _running(cluster, "red"), "red has ended")
    stage.expect(not _placed(cluster, "blue"), "four nodes for a gang of five: blue takes none of them")
    stage.say("The node comes back: blue has room for all.")
    stage.uncordon(node)
    cluster.wait(lambda: len(_running(cluster, "blue")) == SIZE, what="blue runs")
    _show(stage)
    stage.expect(len(_placed(cluster, "blue")) == SIZE, "blue runs whole")


def _show(stage: Stage) -> None:
    stage.get("podgroups", show=["NAME", "POLICY", "STATUS"])
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "NODE"])


def _running(cluster: SandboxCluster, team: str) -> list[Pod]:
    return [pod for pod in cluster.pods(f"team={team}") if pod.ready]


def _placed(cluster: SandboxCluster, team: str) -> list[Pod]:
    return [pod for pod in cluster.pods(f"team={team}") if pod.spec.node_name]
