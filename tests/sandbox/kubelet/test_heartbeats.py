"""Nodes are Ready, renew their leases, fail and recover."""

from __future__ import annotations

import pytest

from mooring.api.times import parse_time
from mooring.client.port import PatchType
from mooring.sandbox.kubelet import heartbeats, make_nodes
from tests.sandbox.controllers.kit import resource
from tests.sandbox.kubelet.kit import Nodes, Tree, condition, node, play

BARE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}}


async def renewed(stage: Nodes, name: str = "node-1") -> float:
    lease = await stage.cluster.get(resource("leases"), name, "kube-node-lease")
    assert lease.spec["holderIdentity"] == name
    assert lease.spec["leaseDurationSeconds"] == 40
    return parse_time(lease.spec["renewTime"])


def test_registered_nodes_are_ready_and_say_what_they_are() -> None:
    async def scene(stage: Nodes) -> None:
        names = [each["metadata"]["name"] for each in await stage.all("nodes")]
        assert names == sorted(names) == [f"node-{at:02d}" for at in range(1, 13)]
        first = await stage.node("node-01")
        assert condition(first, "Ready")["reason"] == "KubeletReady"
        assert condition(first, "Ready")["message"] == "kubelet is posting ready status"
        assert condition(first, "MemoryPressure")["status"] == "False"
        assert first["status"]["allocatable"] == first["status"]["capacity"]
        assert first["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.36")
        labels = first["metadata"]["labels"]
        assert labels["kubernetes.io/hostname"] == "node-01"
        zones = [
            each["metadata"]["labels"]["topology.kubernetes.io/zone"] for each in await stage.all("nodes")
        ]
        assert {zones.count(zone) for zone in set(zones)} == {4}
        addresses = {each["status"]["addresses"][0]["address"] for each in await stage.all("nodes")}
        assert len(addresses) == 12
        assert not first["spec"].get("taints")

    play(scene, nodes=make_nodes(12))


def test_nodes_that_others_made_are_adopted() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.create(BARE)
        await stage.rest()
        adopted = await stage.node("bare")
        assert condition(adopted, "Ready")["status"] == "True"
        assert adopted["status"]["allocatable"]["cpu"]
        assert {one["type"] for one in adopted["status"]["addresses"]} >= {"InternalIP"}
        assert await renewed(stage, "bare") == stage.now() - 0.001

    play(scene, heartbeats=True)


def test_extended_resources_follow_the_capacity() -> None:
    async def scene(stage: Nodes) -> None:
        async def advertise(amount: str | None) -> Tree:
            patch = {"status": {"capacity": {"example.com/foo": amount}}}
            await stage.cluster.patch(resource("nodes"), "node-1", patch, subresource="status")
            await stage.rest()
            allocatable: Tree = (await stage.node("node-1"))["status"]["allocatable"]
            return allocatable

        assert (await advertise("1k"))["example.com/foo"] == "1k"
        assert "example.com/foo" not in await advertise(None)

    play(scene, nodes=make_nodes(1))


def test_what_a_node_says_of_itself_stays() -> None:
    given = node("node-1")
    given["status"] = {
        "capacity": {"cpu": "2", "memory": "1Gi", "pods": "5"},
        "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "5"},
        "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
        "conditions": [{"type": "GpuHealthy", "status": "True"}, {"type": "Ready", "status": "False"}],
    }

    async def scene(stage: Nodes) -> None:
        found = await stage.node()
        assert found["status"]["allocatable"]["cpu"] == "1"
        assert found["status"]["addresses"][0]["address"] == "192.0.2.7"
        assert condition(found, "GpuHealthy")["status"] == "True"
        assert condition(found, "Ready")["status"] == "True"
        assert (await stage.run_pod())["status"]["hostIP"] == "192.0.2.7"

    play(scene, nodes=[given])


def test_leases_are_renewed_every_ten_seconds_and_not_all_at_once() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.advance(20)
        ages = []
        for each in await stage.all("nodes"):
            name = each["metadata"]["name"]
            ages.append(stage.now() - await renewed(stage, name))
        assert max(ages) <= 10.001
        assert len({round(age) for age in ages}) >= 5

    play(scene, nodes=make_nodes(20), heartbeats=True)


def test_many_nodes_renew_less_often_but_well_within_their_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "MOST_PER_SECOND", 2)

    async def scene(stage: Nodes) -> None:
        await stage.advance(1000)
        ages = [
            stage.now() - await renewed(stage, each["metadata"]["name"]) for each in await stage.all("nodes")
        ]
        assert 10 < max(ages) <= 15.001

    play(scene, nodes=make_nodes(30), heartbeats=True)
    assert heartbeats.LONGEST_RENEWAL <= heartbeats.LEASE_DURATION / 2


def test_the_status_is_told_anew_every_five_minutes() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.advance(311)
        ready = condition(await stage.node(), "Ready")
        assert parse_time(ready["lastHeartbeatTime"]) >= stage.now() - 12
        assert parse_time(ready["lastTransitionTime"]) <= stage.now() - 311

    play(scene, heartbeats=True)


def test_a_failed_node_is_silent_until_it_recovers() -> None:
    async def scene(stage: Nodes) -> None:
        heard: list[str] = []
        stage.fake.on_change(heard.append)
        heard.clear()
        await stage.advance(30)
        assert stage.fake.pulse("node-1") == stage.now()
        await stage.annotate("node-1", "true")
        failed = stage.now() - 0.001
        await stage.advance(120)
        assert abs((stage.fake.pulse("node-1") or 0) - failed) < 0.001
        assert await renewed(stage) <= failed
        await unknown(stage)
        await stage.advance(60)
        assert condition(await stage.node(), "Ready")["status"] == "Unknown"
        await stage.annotate("node-1", None)
        assert stage.fake.pulse("node-1") == stage.now()
        assert condition(await stage.node(), "Ready")["status"] == "True"
        assert await renewed(stage) >= stage.now() - 0.01
        assert heard[0] == "node-1"
        assert len(heard) >= 2
        assert stage.fake.pulse("no-such-node") is None

    async def unknown(stage: Nodes) -> None:
        """What the node lifecycle controller writes of a silent node."""
        status: Tree = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
        await stage.cluster.patch(
            resource("nodes"), "node-1", {"status": status}, subresource="status", kind=PatchType.STRATEGIC
        )

    play(scene, heartbeats=True)


def test_without_heartbeats_an_hour_is_silent() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.advance(1)
        before = (await stage.cluster.list(resource("nodes"))).resource_version
        await stage.advance(3600)
        assert (await stage.cluster.list(resource("nodes"))).resource_version == before
        assert stage.fake.pulse("node-01") == stage.now()

    play(scene, nodes=make_nodes(50))


def test_a_lease_that_was_deleted_comes_back_and_a_deleted_node_has_none() -> None:
    async def scene(stage: Nodes) -> None:
        leases = resource("leases")
        await stage.cluster.delete(leases, "node-1", "kube-node-lease")
        await stage.advance(11)
        await renewed(stage)
        await stage.cluster.delete(resource("nodes"), "node-1")
        await stage.rest()
        await stage.cluster.delete(leases, "node-1", "kube-node-lease")  # garbage collection does
        await stage.advance(60)
        assert (await stage.cluster.list(leases, namespace="kube-node-lease")).items == []
        assert stage.fake.pulse("node-1") is None

    play(scene, heartbeats=True)
