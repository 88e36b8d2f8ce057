"""What SIGUSR2 writes to the log."""

from __future__ import annotations

from mooring.process.dump import dump
from mooring.testing import make_node, make_pod
from tests.explain.kit import Setting


def test_nodes_queue_and_pods_on_their_way() -> None:
    setting = Setting(None)
    setting.apply(make_node("n0", cpu="4", memory="8Gi", pods=10), make_node("n1", cpu="1"))
    setting.apply(
        make_pod("web", requests={"cpu": "2500m"}),
        make_pod("large", requests={"cpu": "8"}),
        make_pod("gated", scheduling_gates="example.com/wait"),
    )
    head, first, second, queue, flying = dump(setting.scheduler)
    assert head == "Dump of the cache: 2 nodes, 1 pod"
    assert first.splitlines()[:2] == ["Node n0: 1 of 10 pods", "  requested: cpu 2500m"]
    assert "cpu 4000m" in first
    web = next(iter(setting.scheduler.cluster.pods()))
    assert f"  default/web uid={web.uid}" in first
    assert second.startswith("Node n1: 0 of ")
    lines = queue.splitlines()
    assert lines[0] == "Dump of the scheduling queue: active 0, backoff 0, unschedulable 1, gated 1"
    [large] = [line for line in lines if "default/large" in line]
    assert large.startswith("  unschedulable: default/large uid=")
    assert large.endswith("refused by NodeResourcesFit")
    assert "attempts=1" in large
    [gated] = [line for line in lines if "default/gated" in line]
    assert gated.endswith("gated by SchedulingGates")
    assert flying == "In flight: 0; held by permit plugins: 0"


def test_a_nominated_pod_is_told_with_its_node() -> None:
    setting = Setting(None)
    setting.apply(make_node("n0", cpu="1"))
    setting.scheduler.apply(make_pod("high", priority=100, nominated_node="n0"))
    _, node, *_ = dump(setting.scheduler)
    assert "  nominated: default/high uid=" in node
    assert node.endswith(" priority=100")
