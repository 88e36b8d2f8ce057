"""What `mooring up` shows: counts that follow the cache, and the last decisions."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from mooring.api.kinds import NODES, PODS
from mooring.api.meta import ObjectMeta
from mooring.api.objects import Node, NodeCondition, NodeStatus, Pod, PodSpec, PodStatus
from mooring.client.cache import Collection
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog
from mooring.framework.plugin import Plugin
from mooring.framework.status import Status, error, wait
from mooring.sandbox.cluster.live_view import Counts, PlainView, Tally, TerminalView
from mooring.sandbox.cluster.stages import stage_of
from mooring.testing import make_node, make_pod
from tests.explain.kit import Setting


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
        "bound n",
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


class Late(Plugin):
    """Holds one pod in permit, and fails another before it is bound."""

    name = "Late"

    def permit(self, state: Any, pod: Any, node_name: str) -> Status | None:
        return wait(30) if pod.name == "held" else None

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status | None:
        return error("no route") if pod.name == "broken" else None


class Deciding(NamedTuple):
    core: Scheduler
    decisions: DecisionLog


@pytest.fixture
def deciding() -> tuple[Deciding, dict[str, Decision]]:
    """Pods at every stage, and the decision about each."""
    log = DecisionLog()
    setting = Setting(log, Late)
    seen: dict[str, Decision] = {}
    setting.apply(make_node("a", cpu="2"))
    for each in (
        make_pod("held"),
        make_pod("broken"),
        make_pod("fine"),
        make_pod("big", requests={"cpu": "9"}),
    ):
        setting.cluster.apply(each)
    decisions: list[Decision] = []
    setting.cluster.run(decisions.append)
    for decision in reversed(decisions):
        seen[decision.pod] = decision
    setting.scheduler.apply(make_pod("chosen"))
    last = setting.scheduler.schedule_one()
    assert last is not None
    seen[last.pod] = last
    return Deciding(setting.scheduler, log), seen


def test_the_stages_of_a_pod(deciding: tuple[Deciding, dict[str, Decision]]) -> None:
    scheduler, seen = deciding
    stages = {key.partition("/")[2]: stage_of(scheduler, decision) for key, decision in seen.items()}
    assert {name: (stage.name, stage.node) for name, stage in stages.items()} == {
        "held": ("waiting", "a"),
        "broken": ("failed", "a"),
        "fine": ("bound", "a"),
        "big": ("pending", ""),
        "chosen": ("chosen", "a"),
    }
    assert stages["held"].text.startswith("Late until ")
    assert stages["broken"].text == "Late: no route"
    assert stages["big"].text == "1 Insufficient cpu"


@pytest.mark.parametrize("width", [120, 80, 60])
def test_the_reason_fits_on_a_narrow_terminal(
    width: int, deciding: tuple[Deciding, dict[str, Decision]]
) -> None:
    scheduler, seen = deciding
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=30, legacy_windows=False)
    view = TerminalView(console, lambda decision: stage_of(scheduler, decision))
    for decision in seen.values():
        view.decided(decision)
    view.refresh(Counts(nodes=1, ready=1, pending=4, running=1))
    view.close()
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for words in (
        "1 Insufficient cpu",
        "waiting a",
        "Late until",
        "Late: no route",
        "4 pending",
        "1 running",
    ):
        assert words in shown


def test_plain_lines_show_an_arrow_only_once_a_pod_is_bound(
    deciding: tuple[Deciding, dict[str, Decision]], capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler, seen = deciding
    view = PlainView(lambda decision: stage_of(scheduler, decision))
    for decision in seen.values():
        view.decided(decision)
    for _ in range(2):
        view.refresh(Counts())
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if " -> a: " in line] == ["default/fine -> a: the only node, and it fits"]
    assert "default/broken not bound to a: Late: no route" in lines
    assert len([line for line in lines if line.startswith("default/held waits on a for Late until ")]) == 1
    assert not any(line.startswith("default/chosen") for line in lines)
