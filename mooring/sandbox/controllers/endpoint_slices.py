"""EndpointSlices and Endpoints: the pods behind a Service, for `kubectl describe service` and for clients.

kube-controller-manager has a controller for each; here one writes both from the same addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from mooring.api.kinds import NODES, PODS, SERVICES, ApiResource
from mooring.api.meta import KubeObject, Struct, Tree
from mooring.api.objects import Node, Pod
from mooring.api.workloads import Service, ServicePort
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.owning import controller_reference
from mooring.sandbox.controllers.topology_hints import (
    assign_zones,
    counts_alike,
    wants_hints,
    zone_shares,
)
from mooring.sandbox.network.services import HEADLESS, ZONE
from mooring.sandbox.network.slices import SERVICE_NAME, SLICES, EndpointSlice

MOST = 100  # endpoints in a slice
BATCH = (
    0.05  # seconds in which changes of pods are collected, so that a rollout does not rewrite slices per pod
)
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")


class Endpoints(KubeObject):
    subsets: list[dict[str, Any]] | None = None


class NamedPort(Struct):
    name: str = ""
    container_port: int = 0


class PortsContainer(Struct):
    ports: list[NamedPort] = []
    restart_policy: str | None = None


class PortsSpec(Struct):
    containers: list[PortsContainer] = []
    init_containers: list[PortsContainer] = []

    @property
    def numbers(self) -> dict[str, int]:
        """The ports of containers by their names; of several, the first of a container, else of a sidecar."""
        sidecars = (one for one in self.init_containers if one.restart_policy == "Always")
        everything = [port for one in (*self.containers, *sidecars) for port in one.ports if port.name]
        return {port.name: port.container_port for port in reversed(everything)}


class PortsPod(KubeObject):
    """A pod with the names of its ports, which the scheduler's model leaves out."""

    spec: PortsSpec = msgspec.field(default_factory=PortsSpec)


ENDPOINTS = ApiResource("", "v1", "endpoints", True, Endpoints)
PORTS_PODS = ApiResource("", "v1", "pods", True, PortsPod)

Ports = tuple[tuple[str, int, str], ...]
"""Name, number and protocol of each."""


class Address(NamedTuple):
    """A pod behind a Service."""

    pod: Pod
    ready: bool
    serving: bool


class EndpointSlices(Controller):
    name = "endpoint-slice-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = self.cache.follow(PODS)
        self._nodes = self.cache.follow(NODES)
        self._slices = self.cache.follow(SLICES)
        self._slices.index("service", _service_key)
        self._endpoints = self.cache.follow(ENDPOINTS)
        self._services = self.cache.follow(SERVICES)
        self._services.index("selecting", _selecting)
        self._services.index("hinted", _hinted)
        self._services.subscribe(self._service_changed)
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)
        self._slices.subscribe(self._slice_changed)

    # ---- what changes

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        assert service is not None
        self.enqueue(service.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        services = self._services.by("selecting", pod.metadata.namespace)
        if not services or (old is not None and new is not None and not _concerns(old, new)):
            return
        for service in services:
            if any(one is not None and _selects(service, one) for one in (old, new)):
                self.enqueue(service.key, BATCH)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        services = self._services.by("hinted", "")
        if services and (old is None or new is None or not counts_alike(old, new)):
            for service in services:
                self.enqueue(service.key, BATCH)

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        if new is None and old is not None:
            for key in _service_key(old):
                self.enqueue(key)

    # ---- one Service

    async def sync(self, key: str) -> None:
        service = self._services.get(key)
        slices = sorted(self._slices.by("service", key), key=lambda one: one.name)
        if service is None or service.metadata.deletion_timestamp is not None:
            await self._forget(key)
            return
        if not service.spec.selector or service.spec.type == "ExternalName":
            return
        groups = await self._group(service)
        bodies = [
            body
            for ports, addresses in groups.items()
            for body in self._slice_bodies(service, ports, addresses)
        ]
        if wants_hints(service.metadata):
            _add_hints(bodies, zone_shares(self._nodes))
        for body, current in zip(bodies, slices, strict=False):
            await self._update_slice(current, body)
        for body in bodies[len(slices) :]:
            await self.create(self._slices, body, service.namespace)
        for extra in slices[len(bodies) :]:
            await self.delete(self._slices, extra)
        await self._write_endpoints(service, groups)

    async def _group(self, service: Service) -> dict[Ports, list[Address]]:
        """Return the pods behind a Service by the ports that they have; there is always a group."""
        groups: dict[Ports, list[Address]] = {}
        numbers = tuple(_port(port, _number(port)) for port in service.spec.ports)
        named = any(isinstance(port.target_port, str) for port in service.spec.ports)
        for pod in sorted(self._pods.in_namespace(service.namespace), key=lambda one: one.name):
            if not pod.status.pod_ip or pod.finished or not _selects(service, pod):
                continue
            ports = await self._ports(service, pod) if named else numbers
            terminating = pod.metadata.deletion_timestamp is not None
            ready = service.spec.publish_not_ready_addresses or (pod.ready and not terminating)
            groups.setdefault(ports, []).append(Address(pod, ready, pod.ready))
        return groups or {(): []}

    async def _ports(self, service: Service, pod: Pod) -> Ports:
        """Return the ports of a Service on a pod; one that the pod does not name is left out."""
        try:
            numbers = (await self.cluster.get(PORTS_PODS, pod.name, pod.namespace)).spec.numbers
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            numbers = {}
        ports = []
        for port in service.spec.ports:
            number = numbers.get(port.target_port) if isinstance(port.target_port, str) else _number(port)
            if number is not None:
                ports.append(_port(port, number))
        return tuple(ports)

    # ---- EndpointSlices

    def _slice_bodies(self, service: Service, ports: Ports, addresses: list[Address]) -> Iterator[Tree]:
        labels = {**service.metadata.labels, SERVICE_NAME: service.name, MANAGED_BY: MANAGER}
        labels.pop(HEADLESS, None)
        if service.spec.cluster_ip == "None":
            labels[HEADLESS] = ""
        for start in range(0, max(len(addresses), 1), MOST):
            yield {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "generateName": f"{service.name}-",
                    "labels": labels,
                    "ownerReferences": [controller_reference(SERVICES, service)],
                },
                "addressType": "IPv4",
                "endpoints": [self._endpoint(service, one) for one in addresses[start : start + MOST]],
                "ports": _port_trees(ports),
            }

    def _endpoint(self, service: Service, address: Address) -> Tree:
        pod = address.pod
        terminating = pod.metadata.deletion_timestamp is not None
        endpoint: Tree = {
            "addresses": [pod.status.pod_ip],
            "conditions": {"ready": address.ready, "serving": address.serving, "terminating": terminating},
            "nodeName": pod.spec.node_name,
            "targetRef": _target(pod),
        }
        if pod.spec.hostname and pod.spec.subdomain == service.name:
            endpoint["hostname"] = pod.spec.hostname
        node = self._nodes.get(pod.spec.node_name)
        if node is not None and node.metadata.labels.get(ZONE):
            endpoint["zone"] = node.metadata.labels[ZONE]
        is_distributed = service.spec.traffic_distribution in DISTRIBUTIONS
        if address.ready and is_distributed and not wants_hints(service.metadata):
            hints = _hints(endpoint, for_nodes=service.spec.traffic_distribution == "PreferSameNode")
            if hints:
                endpoint["hints"] = hints
        return endpoint

    async def _update_slice(self, current: EndpointSlice, body: Tree) -> None:
        labels = body["metadata"]["labels"]
        unchanged = (current.endpoints or [], current.ports or []) == (body["endpoints"], body["ports"])
        if unchanged and current.metadata.labels == labels:
            return
        patch = {
            # null removes what is no longer there
            "metadata": {
                "uid": current.uid,
                "labels": {**dict.fromkeys(current.metadata.labels), **labels},
            },
            "endpoints": body["endpoints"],
            "ports": body["ports"],
        }
        self._slices.wrote(await self.cluster.patch(SLICES, current.name, patch, current.namespace))

    # ---- Endpoints

    async def _write_endpoints(self, service: Service, groups: dict[Ports, list[Address]]) -> None:
        labels = {**service.metadata.labels, "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        if service.spec.cluster_ip == "None":
            labels[HEADLESS] = ""
        subsets = [_subset(ports, addresses) for ports, addresses in groups.items() if addresses]
        current = self._endpoints.get(service.key)
        if current is None:
            metadata = {"name": service.name, "labels": labels}
            body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
            await self.create(self._endpoints, body, service.namespace)
        elif (current.subsets or [], current.metadata.labels) != (subsets, labels):
            patch = {"metadata": {"uid": current.uid, "labels": labels}, "subsets": subsets}
            written = await self.cluster.patch(ENDPOINTS, current.name, patch, current.namespace)
            self._endpoints.wrote(written)

    async def _forget(self, key: str) -> None:
        """Delete the Endpoints of a Service that is gone; its slices go as its dependents."""
        endpoints = self._endpoints.get(key)
        if endpoints is not None and self._services.get(key) is None:
            await self.delete(self._endpoints, endpoints)


def _hints(endpoint: Tree, *, for_nodes: bool) -> Tree:
    """Return the zone and the node whose clients should prefer an endpoint: those it is in."""
    hints: Tree = {}
    if "zone" in endpoint:
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if for_nodes:
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return hints


def _add_hints(bodies: list[Tree], shares: dict[str, float]) -> None:
    """Add the zones whose clients should use each ready endpoint, by topology mode Auto."""
    ready = [one for body in bodies for one in body["endpoints"] if one["conditions"]["ready"]]
    zones = assign_zones([one.get("zone", "") for one in ready], shares)
    for endpoint, zone in zip(ready, zones, strict=False):
        endpoint["hints"] = {"forZones": [{"name": zone}]}


def _hinted(service: Service) -> tuple[str, ...]:
    return ("",) if wants_hints(service.metadata) else ()


def _service_key(slice: EndpointSlice) -> tuple[str, ...]:
    labels = slice.metadata.labels
    if labels.get(MANAGED_BY) != MANAGER or SERVICE_NAME not in labels:
        return ()
    return (f"{slice.namespace}/{labels[SERVICE_NAME]}",)


def _concerns(old: Pod, new: Pod) -> bool:
    return (
        old.status.pod_ip != new.status.pod_ip
        or old.ready != new.ready
        or old.finished != new.finished
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )


def _selects(service: Service, pod: Pod) -> bool:
    selector, labels = service.spec.selector, pod.metadata.labels
    return selector is not None and bool(selector) and labels.items() >= selector.items()


def _selecting(service: Service) -> tuple[str, ...]:
    return (service.namespace,) if service.spec.selector else ()


def _number(port: ServicePort) -> int:
    return port.target_port if isinstance(port.target_port, int) and port.target_port else port.port


def _port(port: ServicePort, number: int) -> tuple[str, int, str]:
    return port.name, number, port.protocol or "TCP"


def _port_trees(ports: Ports) -> list[Tree]:
    return [{"name": name, "port": number, "protocol": protocol} for name, number, protocol in ports]


def _target(pod: Pod) -> Tree:
    return {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _subset(ports: Ports, addresses: list[Address]) -> Tree:
    def trees(ready: bool) -> list[Tree]:
        return [
            {"ip": one.pod.status.pod_ip, "nodeName": one.pod.spec.node_name, "targetRef": _target(one.pod)}
            for one in sorted(addresses, key=lambda one: one.pod.status.pod_ip)
            if one.ready == ready
        ]

    subset: Tree = {"addresses": trees(True), "notReadyAddresses": trees(False)}
    subset = {name: value for name, value in subset.items() if value}
    if ports:
        subset["ports"] = [
            {**({"name": name} if name else {}), "port": number, "protocol": protocol}
            for name, number, protocol in ports
        ]
    return subset
