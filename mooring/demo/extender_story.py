"""A scheduler extender: an HTTP server in Python says which nodes will do, and how good they are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
import yaml

from mooring.demo.examples import EXAMPLES, read
from mooring.demo.stage import Stage, StoryError
from mooring.testing.sandbox_cluster import SandboxCluster

EXAMPLE = "extender"
LABEL = "priority.lixueduan.com"
_SERVES = re.compile(r"filter on (\S+)/filter:")


def play() -> None:
    with _serving() as url:
        with SandboxCluster(3, config=_config(url, "filter")) as cluster:
            _show_filter(Stage(EXAMPLE, cluster), cluster)
        with SandboxCluster(3, config=_config(url, "filter_onlyone")) as cluster:
            _show_only_candidate(Stage(EXAMPLE, cluster), cluster)


@contextmanager
def _serving() -> Iterator[str]:
    """`mooring extender` with the document's extender; where it answers."""
    click.echo(click.style("$ mooring extender priority.py", bold=True))
    command = [sys.executable, "-m", "mooring.cli", "extender", "priority.py", "--port=0"]
    process = subprocess.Popen(command, cwd=EXAMPLES / EXAMPLE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            click.echo(f"  {line.rstrip().partition('] ')[2]}")
            if match := _SERVES.search(line):
                yield match[1]
                break
        else:
            raise StoryError("the extender did not start")
    finally:
        process.terminate()
        process.communicate()


def _config(url: str, filter_verb: str) -> str:
    """The document's configuration; here the scheduler binds, the extender having no cluster to bind in."""
    config = yaml.safe_load(read(EXAMPLE, "scheduler.yaml"))
    [extender] = config["extenders"]
    del extender["bindVerb"]
    extender |= {"urlPrefix": url, "filterVerb": filter_verb}
    return str(yaml.safe_dump(config))


def _show_filter(stage: Stage, cluster: SandboxCluster) -> None:
    stage.say(f"Only nodes with the label {LABEL} pass its filter, and the label's value is its score.")
    stage.apply("deploy/deploy-test.yaml")
    cluster.advance(1)
    [pod] = cluster.pods("app=test")
    stage.describe_events(pod.name)
    stage.expect(not pod.spec.node_name, "no node has the label: the pod is pending, and the event says why")
    stage.label("node-2", LABEL, "10")
    cluster.wait_scheduled()
    cluster.wait(lambda: all(pod.ready for pod in cluster.pods()))
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "NODE"])
    stage.expect(cluster.node_of(pod.name) == "node-2", "with the label on node-2 it is bound there")


def _show_only_candidate(stage: Stage, cluster: SandboxCluster) -> None:
    stage.say("With /filter_onlyone the extender lets only the best node pass: the scheduler has no choice.")
    stage.label("node-1", LABEL, "10")
    stage.label("node-3", LABEL, "20")
    stage.apply("deploy/deploy-test.yaml")
    stage.expect(
        _settled(cluster) == "node-3", "of two nodes with the label, it is the one with the higher value"
    )
    stage.label("node-1", LABEL, "30")
    stage.restart("deployment/test")
    stage.expect(_settled(cluster) == "node-1", "after the labels changed, a restart lands on the other node")
    stage.get("pods", wide=True, show=["NAME", "READY", "STATUS", "NODE"])


def _settled(cluster: SandboxCluster) -> str:
    """The node of the Deployment's pod, once there is only one."""
    cluster.advance(5)
    cluster.wait(lambda: len(cluster.pods("app=test")) == 1 and cluster.pods("app=test")[0].ready)
    return cluster.pods("app=test")[0].spec.node_name
