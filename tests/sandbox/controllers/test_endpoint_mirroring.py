"""Endpoints that users write are mirrored to EndpointSlices."""

from __future__ import annotations

from mooring.sandbox.controllers.endpoint_mirroring import EndpointMirroring
from mooring.sandbox.controllers.endpoint_slices import ENDPOINTS
from tests.sandbox.controllers.kit import Stage, play
from tests.sandbox.controllers.test_endpoint_slices import service, slices


def test_endpoints_of_a_service_without_a_selector_are_mirrored() -> None:
    async def scene(stage: Stage) -> None:
        subsets = [
            {
                "addresses": [{"ip": "10.1.2.3", "hostname": "db"}],
                "notReadyAddresses": [{"ip": "2001:db8::1"}],
                "ports": [{"port": 80}],
            }
        ]
        metadata = {"name": "web", "labels": {"team": "a"}}
        endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
        await stage.cluster.create(ENDPOINTS, endpoints, stage.namespace)
        await stage.rest()
        assert await slices(stage) == []  # there is no Service
        await stage.create(service(selector=None))
        await stage.rest()
        four, six = sorted(await slices(stage), key=lambda one: one.address_type)
        assert four.endpoints == [
            {"addresses": ["10.1.2.3"], "conditions": {"ready": True}, "hostname": "db"}
        ]
        assert six.endpoints == [{"addresses": ["2001:db8::1"], "conditions": {"ready": False}}]
        assert four.ports == [{"name": "", "port": 80, "protocol": "TCP"}]
        assert four.metadata.labels == {
            "team": "a",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
        }
        await stage.cluster.patch(
            ENDPOINTS, "web", {"subsets": [{"addresses": [{"ip": "10.2.3.4"}]}]}, stage.namespace
        )
        await stage.rest()
        (one,) = await slices(stage)
        assert [each["addresses"] for each in one.endpoints or ()] == [["10.2.3.4"]]
        skip = {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
        await stage.cluster.patch(ENDPOINTS, "web", skip, stage.namespace)
        await stage.rest()
        assert await slices(stage) == []
        await stage.cluster.delete(ENDPOINTS, "web", stage.namespace)

    play(scene, EndpointMirroring)


def test_endpoints_of_a_service_with_a_selector_are_not() -> None:
    async def scene(stage: Stage) -> None:
        await stage.create(service())
        subsets = [{"addresses": [{"ip": "10.1.2.3"}]}]
        metadata = {"name": "web"}
        endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
        await stage.cluster.create(ENDPOINTS, endpoints, stage.namespace)
        await stage.rest()
        assert await slices(stage) == []

    play(scene, EndpointMirroring)
