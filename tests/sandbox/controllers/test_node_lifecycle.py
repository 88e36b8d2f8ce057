"""Node lifecycle: silence, taints, and the way back."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st

from mooring.api.objects import Node, NodeCondition, NodeStatus
from mooring.api.times import format_time
from mooring.client.controller import Context
from mooring.sandbox.controllers.node_lifecycle import NodeLifecycle
from mooring.sandbox.controllers.zones import Zones
from tests.sandbox.controllers.kit import Embedded, Tree, play, template
from tests.sandbox.controllers.upkeep_scenes import node

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"


class Pulses:
    """Nodes that somebody simulates: well, or failed at some time."""

    def __init__(self) -> None:
        self.failed: dict[str, float] = {}
        self.clock: Callable[[], float] = time.time
        self.asked = 0
        self.tell: Callable[[str], None] = print

    def on_change(self, listener: Callable[[str], None]) -> None:
        self.tell = listener

    def pulse(self, name: str) -> float | None:
        self.asked += 1
        return self.failed.get(name, self.clock()) if name.startswith("fake") else None

    def controller(self, context: Context) -> NodeLifecycle:
        self.clock = context.clock
        return NodeLifecycle(context, self)


def lease(name: str) -> Tree:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": name},
    }


async def renew(stage: Embedded, name: str) -> None:
    spec = {"renewTime": format_time(stage.now(), micro=True)}
    stage.namespace = "kube-node-lease"
    await stage.patch("leases", name, {"spec": spec})
    stage.namespace = "default"


async def post(stage: Embedded, name: str, type: str, status: str) -> None:
    stamp = format_time(stage.now())
    condition = {"type": type, "status": status, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
    await stage.patch("nodes", name, {"status": {"conditions": [condition]}}, "status")
    await stage.rest()


async def taints(stage: Embedded, name: str) -> set[str]:
    found = (await stage.get("nodes", name))["spec"].get("taints", [])
    return {f"{taint['key']}:{taint['effect']}" for taint in found}


async def condition(stage: Embedded, name: str, type: str = "Ready") -> Tree:
    conditions = (await stage.get("nodes", name))["status"]["conditions"]
    found: Tree = next(one for one in conditions if one["type"] == type)
    return found


async def running_pod(stage: Embedded, name: str, on: str) -> None:
    await stage.create({"apiVersion": "v1", "kind": "Pod", **template("app"), "metadata": {"name": name}})
    await stage.bind(name, on)
    await stage.set_ready(name)


def play_with_another(scene: Callable[[Embedded], Awaitable[None]]) -> None:
    """Play a scene on a cluster that has a node which is always well: where none is, nothing is evicted."""

    async def both(stage: Embedded) -> None:
        await stage.create(node("fake-well", stage.now(), labels={"topology.kubernetes.io/zone": "z"}))
        await stage.rest()
        await scene(stage)

    play(both, Pulses().controller)


def test_a_node_that_renews_its_lease_stays_and_one_that_stops_is_lost() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(node("n1", stage.now()))
        await stage.create(lease("n1"), "kube-node-lease")
        await running_pod(stage, "p", "n1")
        for _ in range(20):
            await renew(stage, "n1")
            await stage.advance(10)
        assert await taints(stage, "n1") == set()
        await stage.advance(39.9)  # the last renewal was 49.9 seconds ago
        assert (await condition(stage, "n1"))["status"] == "True"
        await stage.advance(0.2)
        ready = await condition(stage, "n1")
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert ready["message"] == "Kubelet stopped posting node status."
        assert (await condition(stage, "n1", "DiskPressure"))["status"] == "Unknown"
        never = await condition(stage, "n1", "PIDPressure")
        assert (never["status"], never["reason"]) == ("Unknown", "NodeStatusNeverUpdated")
        assert await taints(stage, "n1") == {f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"}
        pod = await stage.get("pods", "p")
        assert pod["status"]["conditions"][0]["status"] == "False"
        told = {(event.reason, event.message) for event in await stage.events()}
        assert ("NodeNotReady", "Node n1 status is now: NodeNotReady") in told
        assert ("RegisteredNode", "Node n1 event: Registered Node n1 in Controller") in told
        assert ("NodeNotReady", "Node is not ready") in told

    play_with_another(scene)


def test_conditions_and_cordons_are_tainted_and_others_taints_stay() -> None:
    async def scene(stage: Embedded) -> None:
        body = node("n1", stage.now(), ready="False")
        body["spec"] = {"taints": [{"key": "mine", "value": "x", "effect": "NoExecute"}]}
        await stage.create(body)
        await stage.rest()
        mine = "mine:NoExecute"
        assert await taints(stage, "n1") == {mine, f"{NOT_READY}:NoSchedule", f"{NOT_READY}:NoExecute"}
        await post(stage, "n1", "Ready", "True")
        assert await taints(stage, "n1") == {mine}
        await post(stage, "n1", "MemoryPressure", "True")
        await stage.patch("nodes", "n1", {"spec": {"unschedulable": True}})
        await stage.rest()
        pressure = "node.kubernetes.io/memory-pressure:NoSchedule"
        cordon = "node.kubernetes.io/unschedulable:NoSchedule"
        assert await taints(stage, "n1") == {mine, pressure, cordon}
        await post(stage, "n1", "MemoryPressure", "False")
        await stage.patch("nodes", "n1", {"spec": {"unschedulable": None}})
        await stage.rest()
        assert await taints(stage, "n1") == {mine}

    play_with_another(scene)


def test_a_node_that_never_says_how_it_is_has_a_minute() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        await stage.advance(59)
        assert "conditions" not in (await stage.get("nodes", "n1"))["status"]
        await stage.advance(2)
        ready = await condition(stage, "n1")
        assert (ready["reason"], ready["message"]) == (
            "NodeStatusNeverUpdated",
            "Kubelet never posted node status.",
        )

    play_with_another(scene)


def test_unreachable_and_not_ready_take_turns() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(node("n1", stage.now()))
        await stage.advance(51)
        await post(stage, "n1", "Ready", "False")
        assert await taints(stage, "n1") == {f"{NOT_READY}:NoSchedule", f"{NOT_READY}:NoExecute"}
        added = [taint["timeAdded"] for taint in (await stage.get("nodes", "n1"))["spec"]["taints"]]
        assert all(added)

    play_with_another(scene)


def test_of_a_zone_one_node_at_a_time_loses_its_pods() -> None:
    async def scene(stage: Embedded) -> None:
        zone = "topology.kubernetes.io/zone"
        for name, where in (("a1", "a"), ("a2", "a"), ("b1", "b")):
            await stage.create(node(name, stage.now(), labels={zone: where}))
        names = ("a1", "a2", "b1")
        await stage.advance(51)
        evicted = {name for name in names if f"{UNREACHABLE}:NoExecute" in await taints(stage, name)}
        assert len(evicted) == 2
        assert "b1" in evicted
        for name in names:
            assert f"{UNREACHABLE}:NoSchedule" in await taints(stage, name)
        await stage.advance(10)
        for name in names:
            assert f"{UNREACHABLE}:NoExecute" in await taints(stage, name)

    play_with_another(scene)


def test_simulated_nodes_need_no_leases_and_no_timers() -> None:
    pulses = Pulses()

    async def scene(stage: Embedded) -> None:
        names = [f"fake-{number}" for number in range(100)]
        for name in names:
            await stage.create(node(name, stage.now()))
        await stage.rest()
        asked = pulses.asked
        await stage.advance(3600)
        assert pulses.asked == asked  # nobody looked at them
        pulses.failed["fake-7"] = stage.now()
        pulses.tell("fake-7")
        await stage.advance(49)
        assert await taints(stage, "fake-7") == set()
        await stage.advance(2)
        assert await taints(stage, "fake-7") == {f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"}
        assert (await condition(stage, "fake-8"))["status"] == "True"
        del pulses.failed["fake-7"]
        pulses.tell("fake-7")
        await post(stage, "fake-7", "Ready", "True")
        await stage.advance(3600)
        assert await taints(stage, "fake-7") == set()

    play(scene, pulses.controller)


def test_labels_under_their_old_names() -> None:
    async def scene(stage: Embedded) -> None:
        labels = {
            "kubernetes.io/os": "linux",
            "beta.kubernetes.io/os": "plan9",
            "kubernetes.io/arch": "arm64",
        }
        await stage.create(node("n1", stage.now(), labels=labels))
        await stage.rest()
        found = (await stage.get("nodes", "n1"))["metadata"]["labels"]
        assert found["beta.kubernetes.io/os"] == "linux"
        assert found["beta.kubernetes.io/arch"] == "arm64"

    play_with_another(scene)


def test_nothing_is_evicted_where_all_is_lost() -> None:
    async def scene(stage: Embedded) -> None:
        names = ("n1", "n2")
        for name in names:
            await stage.create(node(name, stage.now()))
        await stage.advance(600)
        for name in names:
            assert await taints(stage, name) == {f"{UNREACHABLE}:NoSchedule"}
        await post(stage, "n1", "Ready", "True")
        assert await taints(stage, "n1") == set()
        assert await taints(stage, "n2") == {f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"}

    play(scene, NodeLifecycle)


def test_nothing_is_evicted_from_a_small_zone_that_is_mostly_lost() -> None:
    pulses = Pulses()

    async def scene(stage: Embedded) -> None:
        names = [f"fake-{number}" for number in range(5)]
        for name in names:
            await stage.create(node(name, stage.now()))
        await stage.rest()

        async def evicted(*failed: str) -> int:
            for name in failed:
                pulses.failed[name] = stage.now()
                pulses.tell(name)
            await stage.advance(600)
            return sum([f"{UNREACHABLE}:NoExecute" in await taints(stage, name) for name in names])

        assert await evicted("fake-0", "fake-1") == 2
        assert await evicted("fake-2") == 2  # three of five are mostly
        assert await evicted("fake-3", "fake-4") == 0

    play(scene, pulses.controller)


@given(st.integers(0, 120), st.integers(0, 120))
def test_intervals(ready: int, lost: int) -> None:
    zones = Zones()
    for number in range(ready + lost):
        status = "True" if number < ready else "False"
        condition = NodeCondition(type="Ready", status=status)
        zones.update(f"n{number}", Node(status=NodeStatus(conditions=[condition])))
    expected: float | None = 10.0
    if lost and not ready:
        expected = None
    elif lost > 2 and lost >= 0.55 * (ready + lost):
        expected = 100.0 if ready + lost > 50 else None
    assert zones.interval(("", "")) == expected
    assert len(zones.lost()) == lost
