"""Sticky jobs: a custom resource, its controller, and a plugin that remembers where a job ran."""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.objects import Pod
from mooring.client.controller import Context, Controller
from mooring.demo.examples import load, read
from mooring.demo.stage import Stage
from mooring.testing.sandbox_cluster import SandboxCluster

EXAMPLE = "sticky"


def play() -> None:
    plugin, controller = load(EXAMPLE, "sticky").StickyNode, load(EXAMPLE, "controller").StickyJobController
    with SandboxCluster(5, plugins=[plugin], config=read(EXAMPLE, "scheduler.yaml")) as cluster:
        _play_on(Stage(EXAMPLE, cluster), cluster, controller)


def _play_on(stage: Stage, cluster: SandboxCluster, controller: Callable[[Context], Controller]) -> None:
    stage.say(
        """A StickyJob runs its template as a pod, again whenever that ends. The plugin StickyNode watches
        StickyJobs, brings the pod back to the node of `status.lastNode`, and writes that down."""
    )
    stage.apply("stickyjob-crd.yaml")
    cluster.begin(controller)
    stage.apply("job.yaml", "--validate=ignore")
    cluster.wait(lambda: _running(cluster), what="the job's pod")
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "NODE"])
    first = _pod(cluster)
    node = first.spec.node_name
    stage.expect(_last_node(cluster) == node, f"status.lastNode is {node}")
    stage.delete(f"pod/{first.name}")
    cluster.wait(lambda: _running(cluster) and _pod(cluster).uid != first.uid, what="the next pod")
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "NODE"])
    stage.expect(_pod(cluster).spec.node_name == node, f"among five nodes it came back to {node}")
    stage.delete(f"node/{node}")
    cluster.wait(lambda: _running(cluster) and _pod(cluster).spec.node_name != node, 300, "a pod elsewhere")
    elsewhere = _pod(cluster).spec.node_name
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "NODE"])
    stage.expect(
        _last_node(cluster) == elsewhere, f"its node is gone: it runs on {elsewhere}, and lastNode says so"
    )


def _running(cluster: SandboxCluster) -> bool:
    return sum(pod.ready for pod in cluster.pods()) == 1


def _pod(cluster: SandboxCluster) -> Pod:
    return next(pod for pod in cluster.pods() if pod.ready)


def _last_node(cluster: SandboxCluster) -> str:
    return str(cluster.get("stickyjob/train").get("status", {}).get("lastNode", ""))
