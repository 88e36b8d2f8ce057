"""Delayed scheduling: a pod that is not to run before its time, and not much later either."""

from __future__ import annotations

from mooring.api.times import parse_time
from mooring.demo.examples import load, read
from mooring.demo.stage import Stage
from mooring.testing.sandbox_cluster import SandboxCluster

EXAMPLE = "delay"


def play() -> None:
    plugin = load(EXAMPLE, "delay").Delay
    with SandboxCluster(3, plugins=[plugin], config=read(EXAMPLE, "scheduler.yaml")) as cluster:
        _play_on(Stage(EXAMPLE, cluster), cluster)


def _play_on(stage: Stage, cluster: SandboxCluster) -> None:
    stage.say(
        "A plugin with one pre_filter holds pods back until the seconds in their annotation `delay` are over."
    )
    stage.apply("busybox.yaml")
    stage.scale("deployment/busybox", 1)
    cluster.advance(1)
    [pod] = cluster.pods("run=busybox")
    stage.get("pods")
    stage.describe_events(pod.name)
    stage.expect(not pod.spec.node_name, "the pod waits, and says until when")
    due = parse_time(pod.metadata.creation_timestamp or "") + 15
    stage.pass_time(due - cluster.now() - 0.01)
    stage.expect(not cluster.node_of(pod.name), "a hundredth of a second before its time it still does")
    stage.pass_time(0.06)
    stage.expect(cluster.node_of(pod.name), "right after it, it is bound, without waiting for a retry")
    cluster.wait(lambda: cluster.pod(pod.name).ready)
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "AGE", "NODE"])
