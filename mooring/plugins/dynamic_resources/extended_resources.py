"""Extended resources that device classes stand behind: pods ask for them as for any resource, and nodes that
do not have them get devices allocated through a claim that the scheduler makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mooring.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    IMPLICIT_PREFIX,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from mooring.api.meta import ObjectMeta, OwnerReference
from mooring.api.objects import Container, ContainerExtendedResourceRequest
from mooring.api.quantity import NANO, parse
from mooring.api.resources import is_extended
from mooring.framework.pod import PodInfo

IN_MEMORY_NAME = "<extended-resources>"
"""Of a claim that is not in the API server yet; no claim there can have it."""


class ResourceClasses:
    """The device class behind each extended resource."""

    def __init__(self, classes: Iterable[DeviceClass]) -> None:
        self._by_resource: dict[str, DeviceClass] = {}
        for each in classes:
            self._by_resource[IMPLICIT_PREFIX + each.name] = each
        for each in classes:
            explicit = each.spec.extended_resource_name
            if explicit:
                current = self._by_resource.get(explicit)
                if current is None or _precedes(each, current):
                    self._by_resource[explicit] = each

    def get(self, resource: str) -> DeviceClass | None:
        return self._by_resource.get(resource)

    def __bool__(self) -> bool:
        return bool(self._by_resource)


def _precedes(a: DeviceClass, b: DeviceClass) -> bool:
    """Among classes for one resource the newest counts, then the first by name."""
    mine, other = a.metadata.creation_timestamp or "", b.metadata.creation_timestamp or ""
    return mine > other or (mine == other and a.name < b.name)


def is_extended_resource(name: str) -> bool:
    return is_extended(name) or name.startswith(IMPLICIT_PREFIX)


def extended_requests(pod: PodInfo) -> dict[str, int]:
    """What the pod requests of extended resources."""
    return {name: amount for name, amount in pod.requests.items() if amount and is_extended_resource(name)}


def is_special(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether a claim is the one made for a pod's extended resources."""
    return claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true" and any(
        owner.name == pod.name and owner.controller and owner.uid == pod.uid
        for owner in claim.metadata.owner_references
    )


def in_memory_claim(pod: PodInfo) -> ResourceClaim:
    """The claim as it is before a node is chosen: without requests, under a temporary name and uid."""
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            name=IN_MEMORY_NAME,
            namespace=pod.namespace,
            uid=f"{IN_MEMORY_NAME}/{pod.uid}",
            generate_name=f"{pod.name}-extended-resources-",
            owner_references=[owner],
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        )
    )


class NodeRequests(NamedTuple):
    """What is to be allocated through the claim where a node offers certain resources itself."""

    requests: list[DeviceRequest]
    mappings: list[ContainerExtendedResourceRequest]

    def spec(self) -> ResourceClaimSpec:
        return ResourceClaimSpec(devices=DeviceClaim(requests=self.requests))


def node_requests(pod: PodInfo, resources: Iterable[str], classes: ResourceClasses) -> NodeRequests:
    """Requests for these resources of the pod's containers, and which container uses which request.

    Containers that run to their end before others start share the devices of those that come later.
    """
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    first_regular = len(pod.spec.init_containers)
    short_lived = [i for i in range(first_regular) if containers[i].restart_policy != "Always"]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        device_class = classes.get(resource)
        if device_class is None:
            continue
        long_lived: list[DeviceRequest | None] = [None] * len(containers)
        for i, container in enumerate(containers):
            if i not in short_lived:
                long_lived[i], more = _container_request(i, container, resource, device_class.name, ())
                mappings += more
        largest, more = _short_lived_request(containers, short_lived, resource, device_class.name, long_lived)
        mappings += more
        requests += [request for request in (largest, *long_lived) if request is not None]
    requests.sort(key=lambda request: request.name)
    return NodeRequests(requests, mappings)


def _short_lived_request(
    containers: Sequence[Container],
    short_lived: Sequence[int],
    resource: str,
    class_name: str,
    long_lived: Sequence[DeviceRequest | None],
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    """The largest request of those containers, which serves all of them, one after the other."""
    own: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for i in short_lived:
        reusable = [request for request in long_lived[i:] if request is not None]
        request, more = _container_request(i, containers[i], resource, class_name, reusable)
        mappings += more
        if request is not None:
            own.append(request)
    if not own:
        return None, mappings
    largest = max(own, key=_count)
    names = {request.name for request in own}
    return largest, [
        ContainerExtendedResourceRequest(
            container_name=each.container_name,
            resource_name=each.resource_name,
            request_name=largest.name if each.request_name in names else each.request_name,
        )
        for each in mappings
    ]


def _count(request: DeviceRequest) -> int:
    return 0 if request.exactly is None else request.exactly.count


def _container_request(
    index: int, container: Container, resource: str, class_name: str, reusable: Iterable[DeviceRequest]
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    """A container's own request, if those it may reuse are not enough, and which requests it uses."""
    needed = _whole(container.resources.requests, resource)
    mappings: list[ContainerExtendedResourceRequest] = []
    if not needed:
        return None, mappings
    for request in reusable:
        mappings.append(_mapping(container, resource, request.name))
        needed -= _count(request)
        if needed <= 0:
            return None, mappings
    position = sorted(container.resources.requests).index(resource)
    name = f"container-{index}-request-{position}"
    mappings.append(_mapping(container, resource, name))
    return DeviceRequest(
        name=name, exactly=ExactDeviceRequest(device_class_name=class_name, count=needed)
    ), mappings


def _whole(requests: Mapping[str, str | int | float], resource: str) -> int:
    """The requested number; 0 where it is none or not a whole one."""
    nano = parse(requests.get(resource, 0))
    return nano // NANO if nano % NANO == 0 else 0


def _mapping(container: Container, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        container_name=container.name, resource_name=resource, request_name=request
    )
