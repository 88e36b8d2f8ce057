"""What `mooring up` shows: counts that follow the cache, and the last decisions."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mooring.api.kinds import NODES, PODS
from mooring.api.meta import ObjectMeta
from mooring.api.objects import Node, NodeCondition, NodeStatus, Pod, PodSpec, PodStatus
from mooring.client.cache import Collection
from mooring.core.decision import Decision
from mooring.sandbox.cluster.live_view import Counts, PlainView, Tally, TerminalView


def pod(name: str, phase: str, node: str = "", version: int = 1) -> Pod:
    metadata = ObjectMeta(name=name, namespace="default", uid=name, resource_version=str(version))
    return Pod(metadata=metadata, spec=PodSpec(node_name=node), status=PodStatus(phase=phase))


def node(name: str, ready: str, version: int = 1) -> Node:
    metadata = ObjectMeta(name=name, uid=name, resource_version=str(version))
    return Node(metadata=metadata, status=NodeStatus(conditions=[NodeCondition(type="Ready", status=ready)]))


def test_counts_follow_every_change() -> None:
    pods, nodes = Collection(PODS), Collection(NODES)
    tally = Tally(pods, nodes)
    for each in (
        pod("a", "Pending"),
        pod("b", "Pending", "n"),
        pod("c", "Running", "n"),
        pod("d", "Failed", "n"),
    ):
        pods.apply(each)
    nodes.apply(node("n", "True"))
    nodes.apply(node("m", "Unknown"))
    assert tally.counts() == Counts(nodes=2, ready=1, pending=1, starting=1, running=1, failed=1)
    pods.apply(pod("a", "Succeeded", "n", 2))
    pods.delete(pod("c", "Running", "n"))
    nodes.apply(node("m", "True", 2))
    assert tally.counts() == Counts(nodes=2, ready=2, starting=1, succeeded=1, failed=1)
    assert str(tally.counts()) == (
        "2 of 2 nodes ready; pods: 0 pending, 1 starting, 0 running, 1 succeeded, 1 failed"
    )


PLACED = Decision(
    pod="default/web", profile="default-scheduler", result="scheduled", node="n", nodes=3, feasible_nodes=1
)
REFUSED = Decision(
    pod="default/[db]", profile="default-scheduler", result="unschedulable", message="0/3 nodes are available"
)


def test_a_terminal_shows_counts_and_the_last_decisions_and_keeps_news() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=30, legacy_windows=False)
    view = TerminalView(console)
    view.decided(PLACED)
    view.decided(REFUSED)
    view.say("plugin.py: reloaded")
    view.refresh(Counts(nodes=3, ready=2, pending=1, running=1))
    view.close()
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for words in (
        "2/3 ready",
        "1 pending",
        "the only one of 3 nodes that fits",
        "default/[db]",
        "plugin.py: reloaded",
    ):
        assert words in shown


def test_plain_lines_tell_decisions_at_once_and_counts_once_they_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = PlainView()
    view.decided(REFUSED)
    for running in (1, 2, 3, 3, 3):
        view.refresh(Counts(nodes=1, ready=1, running=running))
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "default/[db] -> unschedulable: 0/3 nodes are available",
        "1 of 1 node ready; pods: 0 pending, 3 running",
    ]
