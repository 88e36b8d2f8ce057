"""Composing default plugins: two profiles in one process that prefer opposite nodes."""

from __future__ import annotations

from mooring.demo.examples import read
from mooring.demo.stage import Stage
from mooring.testing import make_node, make_pod
from mooring.testing.sandbox_cluster import SandboxCluster

EXAMPLE = "compose"


def play() -> None:
    nodes = [make_node("busy", cpu="4", memory="8Gi"), make_node("idle", cpu="4", memory="8Gi")]
    with SandboxCluster(nodes, config=read(EXAMPLE, "my-scheduler-config.yaml")) as cluster:
        _play_on(Stage(EXAMPLE, cluster), cluster)


def _play_on(stage: Stage, cluster: SandboxCluster) -> None:
    stage.say(
        """The profile my-custom-scheduler differs from default-scheduler in one argument: NodeResourcesFit
        scores by MostAllocated. Both run in this process. One of two nodes is half full already."""
    )
    cluster.apply(
        make_pod(
            "there", requests={"cpu": "2", "memory": "4Gi"}, node_selector={"kubernetes.io/hostname": "busy"}
        )
    )
    cluster.wait_scheduled()
    stage.apply("pods.yaml")
    cluster.wait_scheduled()
    cluster.wait(lambda: all(pod.ready for pod in cluster.pods()))
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "NODE"])
    stage.expect(
        cluster.node_of("nginx-default") == "idle", "the default scheduler spreads: nginx-default is on idle"
    )
    stage.expect(cluster.node_of("nginx-custom") == "busy", "the composed one packs: nginx-custom is on busy")
    stage.explain("nginx-custom")
