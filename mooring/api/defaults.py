"""What an API server does to a new object before the scheduler sees it, as far as scheduling notices.

Only for objects out of files: those that come from an API server have been through this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID, uuid5

from msgspec.structs import replace

from mooring.api.devices import (
    ALL,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from mooring.api.errors import MalformedObject
from mooring.api.meta import KubeObject
from mooring.api.objects import Container, ContainerPort, Node, Pod, PodSpec, ResourceRequirements
from mooring.api.quantity import from_nano
from mooring.api.resources import CPU, MEMORY, container_requests, is_pod_level
from mooring.api.workloads import PriorityClass

_UIDS = UUID("6d6f6f72-696e-5067-8000-6d616e696665")

SYSTEM_PRIORITIES: Mapping[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The classes that every cluster has."""


Counted = TypeVar("Counted", ExactDeviceRequest, DeviceSubRequest)


def identified(obj: KubeObject, *, namespaced: bool) -> KubeObject:
    """The object with a namespace and a uid; the uid is made of its name, so that runs repeat."""
    meta = obj.metadata
    namespace = (meta.namespace or "default") if namespaced else ""
    uid = meta.uid or str(uuid5(_UIDS, f"{obj.kind}/{namespace}/{meta.name}"))
    return replace(obj, metadata=replace(meta, namespace=namespace, uid=uid))


def defaulted(obj: KubeObject) -> KubeObject:
    """The object with what its author left to the API server; it has passed `validate`."""
    if isinstance(obj, Pod):
        return _pod(obj)
    if isinstance(obj, Node) and not obj.status.allocatable:
        return replace(obj, status=replace(obj.status, allocatable=obj.status.capacity))
    if isinstance(obj, ResourceClaim):
        return replace(obj, spec=_claim(obj.spec))
    if isinstance(obj, ResourceClaimTemplate):
        return replace(obj, spec=replace(obj.spec, spec=_claim(obj.spec.spec)))
    return obj


def _claim(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    """The claim's spec with the number of devices that its requests leave out."""
    requests = [
        replace(
            request,
            exactly=None if request.exactly is None else _counted(request.exactly),
            first_available=[_counted(each) for each in request.first_available],
        )
        for request in spec.devices.requests
    ]
    return replace(spec, devices=replace(spec.devices, requests=requests))


def _counted(request: Counted) -> Counted:
    return request if request.allocation_mode == ALL or request.count else replace(request, count=1)


def _pod(pod: Pod) -> Pod:
    """The pod with its requests, ports, scheduler and phase filled in."""
    spec = pod.spec
    spec = replace(
        spec,
        scheduler_name=spec.scheduler_name or "default-scheduler",
        containers=[_container(c, spec.host_network) for c in spec.containers],
        init_containers=[_container(c, spec.host_network) for c in spec.init_containers],
    )
    pod = replace(pod, spec=replace(spec, resources=_pod_resources(replace(pod, spec=spec))))
    return replace(pod, status=replace(pod.status, phase=pod.status.phase or "Pending"))


def _container(container: Container, host_network: bool) -> Container:
    resources = container.resources
    requests = {**resources.limits, **resources.requests}
    ports = [_port(port, host_network) for port in container.ports]
    return replace(container, resources=replace(resources, requests=requests), ports=ports)


def _port(port: ContainerPort, host_network: bool) -> ContainerPort:
    host_port = port.host_port or (port.container_port if host_network else 0)
    return replace(port, host_port=host_port, protocol=port.protocol or "TCP")


def _pod_resources(pod: Pod) -> ResourceRequirements | None:
    """Pod-level limits bring pod-level requests: the containers' sums where they have any, or the limits."""
    resources = pod.spec.resources
    if resources is None or not resources.limits:
        return resources
    sums = {name: from_nano(n) for name, n in container_requests(pod).items() if name in (CPU, MEMORY)}
    limits = {name: raw for name, raw in resources.limits.items() if is_pod_level(name)}
    return replace(resources, requests={**limits, **sums, **resources.requests})


def prioritised(pod: Pod, classes: Mapping[str, PriorityClass]) -> Pod:
    """The pod with the priority and the preemption policy of its class, or of the cluster's default class.

    A class that is not there is an error, as it is for an API server.
    """
    spec = pod.spec
    if spec.priority is not None:
        return pod
    name = spec.priority_class_name
    if name in SYSTEM_PRIORITIES and name not in classes:
        return _with_priority(pod, spec, SYSTEM_PRIORITIES[name], None)
    if not name:
        chosen = min((c for c in classes.values() if c.global_default), key=lambda c: c.value, default=None)
        if chosen is None:
            return _with_priority(pod, spec, 0, None)
    elif name in classes:
        chosen = classes[name]
    else:
        expected = "the name of a PriorityClass among the objects"
        raise MalformedObject("Pod", pod.key, "spec.priorityClassName", name, expected)
    return _with_priority(pod, spec, chosen.value, chosen.preemption_policy)


def _with_priority(pod: Pod, spec: PodSpec, priority: int, policy: str | None) -> Pod:
    policy = spec.preemption_policy or policy or "PreemptLowerPriority"
    return replace(pod, spec=replace(spec, priority=priority, preemption_policy=policy))
