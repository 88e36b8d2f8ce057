"""sample-plugin: a v1alpha1 configuration file, and a plugin that logs its calls."""

from __future__ import annotations

import logging

import click
import yaml

from mooring.demo.examples import load, read
from mooring.demo.stage import Stage
from mooring.testing import make_node
from mooring.testing.sandbox_cluster import SandboxCluster

EXAMPLE = "sample"


class _Kept(logging.Handler):
    """Shows log lines as they come, and keeps them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO - 3)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = "".join(f' {name}="{value}"' for name, value in getattr(record, "fields", {}).items())
        self.lines.append(record.getMessage() + fields)
        click.echo(f"  {self.lines[-1]}")


def play() -> None:
    config = yaml.safe_load(read(EXAMPLE, "config.yaml"))["data"]["scheduler-config.yaml"]
    plugin = load(EXAMPLE, "sample_plugin").SamplePlugin
    kept, log = _Kept(), logging.getLogger("mooring")
    log.addHandler(kept)
    level, propagate = log.level, log.propagate
    log.setLevel(logging.INFO - 3)
    log.propagate = False
    try:
        _play(config, plugin, kept)
    finally:
        log.removeHandler(kept)
        log.setLevel(level)
        log.propagate = propagate


def _play(config: str, plugin: type, kept: _Kept) -> None:
    nodes = [make_node("k8s-master", taints="node-role.kubernetes.io/master:NoSchedule")]
    nodes += [make_node("node01"), make_node("node02")]
    click.echo("The configuration is of version v1alpha1, as schedulers had it in 2020. The plugin's words:")
    with SandboxCluster(nodes, plugins=[plugin], config=config) as cluster:
        _play_on(Stage(EXAMPLE, cluster), cluster, kept)


def _play_on(stage: Stage, cluster: SandboxCluster, kept: _Kept) -> None:
    stage.apply("test-scheduler.yaml")
    cluster.wait(lambda: any(pod.ready for pod in cluster.pods()), what="the pod")
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "NODE"])
    [pod] = cluster.pods()
    log_text = "\n".join(kept.lines)
    stage.expect(
        '"favorite_color":"#326CE5","favorite_number":7' in log_text, "its arguments are those of the file"
    )
    stage.expect(f'Attempting to schedule pod pod="{pod.key}"' in log_text, "the attempt is logged")
    stage.expect(f"filter pod: {pod.name}, node: node01" in log_text, "filter is asked about each node")
    stage.expect('evaluatedNodes="3" feasibleNodes="2"' in log_text, "bound: 3 nodes evaluated, 2 feasible")
