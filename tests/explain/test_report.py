"""Explanations as a person reads them: short first, and never a line per node."""

from __future__ import annotations

import pytest

from mooring.api.meta import LabelSelector, LabelSelectorRequirement
from mooring.api.objects import Taint
from mooring.core.decision import Decision
from mooring.explain import words
from mooring.explain.explain import decisions
from mooring.explain.log import DecisionLog
from mooring.explain.report import report
from mooring.explain.text import why
from mooring.framework.events import Action, Resource
from mooring.testing import make_node, make_pod
from tests.explain.kit import Setting


def told(setting: Setting, name: str = "web") -> list[str]:
    log = setting.scheduler.log
    assert isinstance(log, DecisionLog)
    found = decisions(setting.scheduler, log, "default", name)
    assert found is not None
    return list(report(found))


def test_a_pending_pod() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a", cpu="2"), make_node("b", taints="x=y:NoSchedule"))
    setting.apply(make_pod("low", node_name="a", requests={"cpu": "1500m"}))
    setting.apply(make_pod("web", requests={"cpu": "1"}))
    setting.clock.advance(65)
    assert told(setting) == [
        "default/web is pending: none of 2 nodes fits; what would help on 1 node: "
        "request at most 500m cpu instead of 1, as a has free",
        "",
        "Waiting",
        "  unschedulable since 2030-01-01T00:00:00Z (65s ago), 1 attempt, the last 65s ago",
        "  until a pod is deleted, or its requests or tolerations change (NodeResourcesFit, TaintToleration)",
        "  or a node is added, or its allocatable resources or taints change "
        "(NodeResourcesFit, TaintToleration)",
        "  or a DeviceClass is added or changes (NodeResourcesFit)",
        "  or it has waited for a few minutes",
        "",
        "Now: 0 of 2 nodes would take it",
        "  1 refused  NodeResourcesFit: Insufficient cpu  (a)",
        "  1 refused  TaintToleration: node(s) had untolerated taint(s)  (b)",
        "  no help from preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling.",
        "",
        "Any one of these would do",
        "  1 node  request at most 500m cpu instead of 1, as a has free  (a)",
        "          $ kubectl set resources pod web -c main --requests=cpu=500m -n default "
        "--dry-run=client -o yaml | kubectl replace --force -f -",
        "  1 node  remove the taint x=y:NoSchedule from b, or tolerate it  (b)",
        "          $ kubectl taint node b x:NoSchedule-",
        "  1 node  add a node like a (2 cpu, 16Gi memory)",
        "  1 node  raise the priority to 1 or more (it has 0), to evict default/low from a  (a)",
        "          $ kubectl create priorityclass priority-1 --value=1 && kubectl patch pod web --type=merge "
        """-p '{"spec":{"priorityClassName":"priority-1","priority":null}}' -n default """
        "--dry-run=client -o yaml | kubectl replace --force -f -",
        "",
        "Attempts",
        "  2030-01-01T00:00:00Z  unschedulable: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had "
        "untolerated taint(s). no new claims to deallocate, preemption: 0/2 nodes are available: "
        "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
    ]


def test_a_placed_pod() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a", cpu="2"), make_node("b"), make_pod("web", requests={"cpu": "1"}))
    lines = told(setting)
    assert lines[0].startswith("default/web is on b: best of 2 that fit")
    assert lines[2] == "Attempts"
    assert lines[5] == "Scores of b and the next best"
    assert lines[6].split() == [
        "score",
        "TaintToleration",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
    ]
    assert [line.split()[0] for line in lines[7:]] == ["b", "a"]


def test_repeats_are_told_once() -> None:
    setting = Setting(DecisionLog())
    setting.apply(make_node("a", cpu="1"), make_pod("web", requests={"cpu": "2"}))
    setting.advance(400)
    assert "  2030-01-01T00:00:00Z to 2030-01-01T00:06:40Z, 2 times  unschedulable: " in "\n".join(
        told(setting)
    )


def test_a_large_cluster_is_no_long_story() -> None:
    setting = Setting(DecisionLog())
    taints = [f"team=t{i}:NoSchedule" for i in range(40)]
    setting.apply(*(make_node(f"n{i:04}", cpu="1", taints=taints[i % 40]) for i in range(1500)))
    setting.apply(make_pod("web", requests={"cpu": "2"}))
    lines = told(setting)
    assert len(lines) < 40
    some = "(n0000, n0001, n0002 and 1497 more)"
    assert f"  1500 refused  TaintToleration: node(s) had untolerated taint(s)  {some}" in lines
    start = lines.index("No single change would do; any of these pairs would")
    assert lines[start + 1] == (
        f"  1500 nodes  request at most 1 cpu instead of 2, as n0000 has free  {some}"
    )


def test_an_attempt_that_failed_late_says_where_the_pod_would_have_gone() -> None:
    log = DecisionLog()
    setting = Setting(log)
    setting.apply(make_node("a"))
    setting.cluster.apply(make_pod("web"))
    queued = setting.scheduler.queue.get("default/web")
    assert queued is not None
    failed = Decision("default/web", "default-scheduler", "error", tried_node="a", message="it broke")
    log.add(queued.pod, failed, setting.clock())
    assert told(setting)[-1].endswith("error after a was chosen: it broke")


# ---- words


@pytest.mark.parametrize(
    ("resource", "count", "up", "text"),
    [
        ("cpu", 1500, False, "1500m"),
        ("cpu", 2000, False, "2"),
        ("cpu", 0, False, "0"),
        ("memory", 3 << 30, False, "3Gi"),
        ("memory", (3 << 29), False, "1.5Gi"),
        ("memory", (1 << 30) + 1, False, "1Gi"),
        ("memory", (1 << 30) + 1, True, "1.1Gi"),
        ("memory", 1000, True, "1000"),
        ("ephemeral-storage", 5 << 40, False, "5Ti"),
        ("hugepages-2Mi", 4 << 20, False, "4Mi"),
        ("nvidia.com/gpu", 8, False, "8"),
    ],
)
def test_amounts(resource: str, count: int, up: bool, text: str) -> None:
    assert words.amount(resource, count, up=up) == text


@pytest.mark.parametrize(
    ("resource", "action", "text"),
    [
        (Resource.NODE, Action.ADD, "a node is added"),
        (Resource.NODE, Action.ADD | Action.DELETE, "a node is added or is deleted"),
        (Resource.NODE, Action.UPDATE_NODE_TAINT, "a node's taints change"),
        (Resource.POD, Action.ALL, "a pod is added, is deleted or changes"),
        (
            Resource.NODE,
            Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT,
            "a node is added, or its labels or taints change",
        ),
        (Resource.CSI_NODE, Action.ADD | Action.UPDATE, "a CSINode is added or changes"),
        (Resource.WILDCARD, Action.ALL, "anything happens"),
    ],
)
def test_events(resource: str, action: Action, text: str) -> None:
    assert words.event(resource, action) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (900, "15m"),
        (7200, "120m"),
        (4 * 3600, "4h"),
        (3 * 86400, "3d"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def test_selectors_and_taints() -> None:
    expressions = [
        LabelSelectorRequirement(key="tier", operator="In", values=["a", "b"]),
        LabelSelectorRequirement(key="old", operator="DoesNotExist"),
        LabelSelectorRequirement(key="x", operator="NotIn", values=["y"]),
    ]
    selector = LabelSelector(match_labels={"app": "web"}, match_expressions=expressions)
    assert words.selector(selector) == "app=web,tier in (a, b),!old,x notin (y)"
    assert words.selector(LabelSelector()) == "all pods"
    assert words.selector(None) == "no pods"
    assert words.taint(Taint(key="a", effect="NoExecute")) == "a:NoExecute"
    assert words.listed(["a", "b"], 5) == "a, b and 3 more"
    assert words.joined(["a", "b", "c"]) == "a, b or c"


def test_an_only_node_and_equals_in_one_line() -> None:
    one = Decision("p", "s", "scheduled", node="a", nodes=4, feasible_nodes=1)
    assert why(one) == "the only one of 4 nodes that fits"
    setting = Setting(DecisionLog())
    setting.apply(make_node("a"), make_node("b"), make_pod("web"))
    assert ": one of 2 best among 2 that fit, score " in told(setting)[0]
