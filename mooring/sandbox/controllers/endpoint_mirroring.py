"""EndpointSlices for Endpoints that users write themselves, for Services without a selector."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.kinds import SERVICES
from mooring.api.meta import KubeObject, Tree
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.endpoint_slices import ENDPOINTS, MANAGED_BY, Endpoints
from mooring.sandbox.controllers.owning import controller_reference
from mooring.sandbox.network.slices import SERVICE_NAME, SLICES, EndpointSlice

MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
NOT_MIRRORED = frozenset(
    ("kubectl.kubernetes.io/last-applied-configuration", "endpoints.kubernetes.io/last-change-trigger-time")
)
MOST = 1000  # addresses of a subset


class EndpointMirroring(Controller):
    name = "endpointslice-mirroring-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._slices = self.cache.follow(SLICES)
        self._slices.index("mirrored", _mirrored)
        self._endpoints = self.cache.follow(ENDPOINTS)
        self._services = self.cache.follow(SERVICES)
        self._services.subscribe(self._changed)
        self._endpoints.subscribe(self._changed)
        self._slices.subscribe(self._slice_changed)

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        changed = new or old
        assert changed is not None
        self.enqueue(changed.key)

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        if new is None and old is not None:
            for key in _mirrored(old):
                self.enqueue(key)

    async def sync(self, key: str) -> None:
        endpoints, service = self._endpoints.get(key), self._services.get(key)
        bodies: list[Tree] = []
        if endpoints is not None and service is not None and _is_own(endpoints) and not service.spec.selector:
            bodies = [*_slice_bodies(endpoints)]
        slices = sorted(self._slices.by("mirrored", key), key=lambda one: one.name)
        kept = []
        for body in bodies:
            current = next((one for one in slices if one not in kept and _shows(one, body)), None)
            if current is None:
                await self.create(self._slices, body, key.partition("/")[0])
            else:
                kept.append(current)
        for extra in slices:
            if extra not in kept:
                await self.delete(self._slices, extra)


def _is_own(endpoints: Endpoints) -> bool:
    """Whether Endpoints are to be mirrored: they are no lock, and do not say otherwise."""
    metadata = endpoints.metadata
    return (
        metadata.deletion_timestamp is None
        and metadata.labels.get(SKIP) != "true"
        and LEADER not in metadata.annotations
    )


def _mirrored(slice: EndpointSlice) -> tuple[str, ...]:
    labels = slice.metadata.labels
    if labels.get(MANAGED_BY) != MANAGER or SERVICE_NAME not in labels:
        return ()
    return (f"{slice.namespace}/{labels[SERVICE_NAME]}",)


def _slice_bodies(endpoints: Endpoints) -> Iterator[Tree]:
    """Yield a slice for each subset and family of addresses."""
    metadata = endpoints.metadata
    labels = {**metadata.labels, SERVICE_NAME: endpoints.name, MANAGED_BY: MANAGER}
    annotations = {name: text for name, text in metadata.annotations.items() if name not in NOT_MIRRORED}
    for subset in endpoints.subsets or ():
        ready, unready = subset.get("addresses") or [], subset.get("notReadyAddresses") or []
        addresses = [*((one, True) for one in ready), *((one, False) for one in unready)][:MOST]
        for family in ("IPv4", "IPv6"):
            shown = [
                _endpoint(one, is_ready)
                for one, is_ready in addresses
                if (":" in one["ip"]) == (family == "IPv6")
            ]
            if shown:
                yield {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {
                        "generateName": f"{endpoints.name}-",
                        "labels": labels,
                        "annotations": annotations,
                        "ownerReferences": [controller_reference(ENDPOINTS, endpoints)],
                    },
                    "addressType": family,
                    "endpoints": shown,
                    "ports": [_port(one) for one in subset.get("ports") or ()],
                }


def _endpoint(address: Tree, is_ready: bool) -> Tree:
    endpoint: Tree = {"addresses": [address["ip"]], "conditions": {"ready": is_ready}}
    copied = ("hostname", "nodeName", "targetRef")
    return endpoint | {name: address[name] for name in copied if address.get(name)}


def _port(port: Tree) -> Tree:
    tree = {"name": port.get("name", ""), "port": port["port"], "protocol": port.get("protocol", "TCP")}
    return tree | ({"appProtocol": port["appProtocol"]} if port.get("appProtocol") else {})


def _shows(slice: EndpointSlice, body: Tree) -> bool:
    metadata = body["metadata"]
    return (
        (slice.address_type, slice.endpoints, slice.ports)
        == (body["addressType"], body["endpoints"], body["ports"])
        and slice.metadata.labels == metadata["labels"]
        and slice.metadata.annotations == metadata["annotations"]
    )
