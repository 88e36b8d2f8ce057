"""EndpointSlices and Endpoints follow the pods of Services."""

from __future__ import annotations

from typing import Any

from mooring.sandbox.controllers.endpoint_slices import (
    ENDPOINTS,
    Endpoints,
    EndpointSlices,
)
from mooring.sandbox.controllers.topology_hints import assign_zones
from mooring.sandbox.network.slices import SLICES, EndpointSlice
from tests.sandbox.controllers.kit import Stage, play

Tree = dict[str, Any]
READY = [{"type": "Ready", "status": "True"}]


def service(name: str = "web", **spec: Any) -> Tree:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def pod(name: str, port: int = 8080, node: str = "n") -> Tree:
    container = {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": port}]}
    metadata = {"name": name, "labels": {"app": "web"}}
    spec = {"nodeName": node, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def run(
    stage: Stage, name: str, ip: str, ready: bool = True, port: int = 8080, node: str = "n"
) -> None:
    await stage.create(pod(name, port, node))
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": conditions}
    await stage.patch("pods", name, {"status": status}, subresource="status")
    await stage.advance(0.1)


async def slices(stage: Stage) -> list[EndpointSlice]:
    return (await stage.cluster.list(SLICES, namespace=stage.namespace)).items


async def endpoints(stage: Stage, name: str = "web") -> Endpoints:
    return await stage.cluster.get(ENDPOINTS, name, stage.namespace)


def test_pods_are_listed_with_their_ports_and_readiness() -> None:
    async def scene(stage: Stage) -> None:
        await stage.create(service())
        await stage.rest()
        assert [one.endpoints for one in await slices(stage)] == [[]]
        await run(stage, "a", "10.0.0.1")
        await run(stage, "b", "10.0.0.2", ready=False)
        (one,) = await slices(stage)
        assert one.metadata.labels["kubernetes.io/service-name"] == "web"
        assert one.ports == [{"name": "", "port": 8080, "protocol": "TCP"}]
        shown = [(each["addresses"], each["conditions"]["ready"]) for each in one.endpoints or ()]
        assert shown == [(["10.0.0.1"], True), (["10.0.0.2"], False)]
        (subset,) = (await endpoints(stage)).subsets or [{}]
        assert subset["ports"] == [{"port": 8080, "protocol": "TCP"}]
        assert [each["ip"] for each in subset["addresses"]] == ["10.0.0.1"]
        assert [each["targetRef"]["name"] for each in subset["notReadyAddresses"]] == ["b"]
        await stage.delete("pods", "a", grace=0)
        await stage.advance(0.1)
        assert [each["addresses"] for each in (await slices(stage))[0].endpoints or ()] == [["10.0.0.2"]]

    play(scene, EndpointSlices)


def test_endpoints_hint_at_the_clients_near_them() -> None:
    async def scene(stage: Stage) -> None:
        labels = {"topology.kubernetes.io/zone": "z"}
        await stage.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}, "spec": {}}
        )
        await stage.create(service(trafficDistribution="PreferSameZone"))
        await run(stage, "a", "10.0.0.1")
        await run(stage, "b", "10.0.0.2", ready=False)

        async def hints() -> list[Any]:
            return [each.get("hints") for each in (await slices(stage))[0].endpoints or ()]

        zone = {"forZones": [{"name": "z"}]}
        assert await hints() == [zone, None]
        await stage.patch("services", "web", {"spec": {"trafficDistribution": "PreferSameNode"}})
        await stage.rest()
        assert await hints() == [{**zone, "forNodes": [{"name": "n"}]}, None]
        await stage.patch("services", "web", {"spec": {"trafficDistribution": None}})
        await stage.rest()
        assert await hints() == [None, None]

    play(scene, EndpointSlices)


def test_pods_whose_named_ports_differ_have_slices_of_their_own() -> None:
    async def scene(stage: Stage) -> None:
        await stage.create(service(publishNotReadyAddresses=True))
        await run(stage, "a", "10.0.0.1", ready=False)
        await run(stage, "b", "10.0.0.2", port=9090)
        ports = sorted((one.ports or [{}])[0]["port"] for one in await slices(stage))
        assert ports == [8080, 9090]
        assert all(each["conditions"]["ready"] for one in await slices(stage) for each in one.endpoints or ())

    play(scene, EndpointSlices)


def test_a_slice_holds_a_hundred_and_deleted_ones_come_back() -> None:
    async def scene(stage: Stage) -> None:
        for at in range(101):
            await run(stage, f"p{at}", f"10.0.0.{at}")
        await stage.create(service(clusterIP="None"))
        await stage.rest()
        assert sorted(len(one.endpoints or ()) for one in await slices(stage)) == [1, 100]
        assert all("service.kubernetes.io/headless" in one.metadata.labels for one in await slices(stage))
        for one in await slices(stage):
            await stage.cluster.delete(SLICES, one.name, one.namespace)
        await stage.rest()
        assert sorted(len(one.endpoints or ()) for one in await slices(stage)) == [1, 100]

    play(scene, EndpointSlices)


def test_services_without_a_selector_are_left_alone() -> None:
    async def scene(stage: Stage) -> None:
        await stage.create(service(selector={}))
        await stage.rest()
        assert await slices(stage) == []

    play(scene, EndpointSlices)


def test_topology_mode_auto_gives_each_zone_its_share_of_endpoints() -> None:
    thirds = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    assert assign_zones(["a", "b", "c"], thirds) == ["a", "b", "c"]
    assert assign_zones(["a", "a", "a", "b", "c", "c"], thirds) == ["b", "a", "a", "b", "c", "c"]
    assert assign_zones(["a", "b"], thirds) == []  # fewer than zones
    assert assign_zones(["a", "b", ""], thirds) == []
    assert assign_zones(["a", "a", "b"], {"a": 0.9, "b": 0.1}) == []  # b would be overloaded
    assert assign_zones(["a", "b"], {}) == []


def test_hints_follow_the_annotation_and_the_nodes() -> None:
    async def scene(stage: Stage) -> None:
        for name in ("a", "b"):
            labels = {"topology.kubernetes.io/zone": name}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            await stage.create({**node, "status": {"allocatable": {"cpu": "4"}, "conditions": READY}})
            await run(stage, f"web-{name}", f"10.0.0.{ord(name)}", node=name)
        annotations = {"service.kubernetes.io/topology-mode": "Auto"}
        await stage.create(service() | {"metadata": {"name": "web", "annotations": annotations}})
        await stage.rest()

        async def hints() -> list[Any]:
            return [each.get("hints") for each in (await slices(stage))[0].endpoints or ()]

        assert await hints() == [{"forZones": [{"name": name}]} for name in ("a", "b")]
        await stage.delete("nodes", "b")
        await stage.advance(0.1)
        assert await hints() == [None, None]

    play(scene, EndpointSlices)
