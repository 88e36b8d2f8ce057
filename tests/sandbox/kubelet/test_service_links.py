"""The variables by which containers find Services are computed once for a namespace, and bounded."""

from __future__ import annotations

from mooring.api.kinds import SERVICES
from mooring.api.meta import ObjectMeta
from mooring.api.workloads import Service, ServicePort, ServiceSpec
from mooring.client.cache import Collection
from mooring.sandbox.kubelet.service_links import ServiceLinks


def service(name: str, namespace: str, address: str, ports: int = 1, version: int = 1) -> Service:
    metadata = ObjectMeta(
        name=name, namespace=namespace, uid=f"{namespace}/{name}", resource_version=f"{version}"
    )
    spec = ServiceSpec(cluster_ip=address, ports=[ServicePort(port=80 + number) for number in range(ports)])
    return Service(metadata=metadata, spec=spec)


def test_variables_are_computed_again_once_a_service_changes() -> None:
    services = Collection(SERVICES)
    links = ServiceLinks(services)
    services.apply(service("kubernetes", "default", "10.96.0.1"))
    services.apply(service("web", "a", "10.96.0.2"))
    variables = links.find("a") or {}
    assert (variables["WEB_SERVICE_HOST"], variables["KUBERNETES_SERVICE_HOST"]) == ("10.96.0.2", "10.96.0.1")
    assert links.find("a") is variables
    assert "WEB_SERVICE_HOST" not in (links.find("") or {})
    services.apply(service("web", "a", "10.96.0.3", version=2))
    assert (links.find("a") or {})["WEB_SERVICE_HOST"] == "10.96.0.3"
    services.apply(service("kubernetes", "default", "10.96.0.9", version=2))
    assert (links.find("a") or {})["KUBERNETES_SERVICE_HOST"] == "10.96.0.9"
    services.delete(service("web", "a", "10.96.0.3", version=3))
    assert "WEB_SERVICE_HOST" not in (links.find("a") or {})


def test_thousands_of_ports_are_not_turned_into_variables() -> None:
    services = Collection(SERVICES)
    links = ServiceLinks(services)
    services.apply(service("web", "a", "10.96.0.2", ports=2_001))
    assert links.find("a") is None
    assert links.find("b") == {}
