"""What containers and pods are given of their node: the limits of their cgroups, and when they are killed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mooring.api.meta import Quantity, ResourceList
from mooring.api.objects import Container, Pod, ResourceRequirements
from mooring.api.quantity import QuantityError, parse
from mooring.api.resources import CPU, MEMORY, total_limits, total_requests
from mooring.sandbox.programs.cgroups import Limits
from mooring.sandbox.programs.kernel import Shares

NOTHING = ResourceRequirements()
CRITICAL = 2_000_000_000
"""The priority from which on pods are critical for their node."""
_GUARANTEED, _BEST_EFFORT = -997, 1000


def container_limits(own: ResourceRequirements, pod: ResourceRequirements | None) -> Limits:
    """Return the limits of a container; those of its pod stand in for what it leaves out."""
    shared = NOTHING if pod is None else pod
    return Limits(
        amount(own.requests, CPU),
        amount(own.limits, CPU) or amount(shared.limits, CPU),
        amount(own.limits, MEMORY) or amount(shared.limits, MEMORY),
    )


def pod_limits(pod: Pod) -> Limits:
    """Return the limits of a pod: those of its spec, or the sum where each container has one."""
    requests, limits = total_requests(pod, use_status=False), total_limits(pod, use_status=False)
    own = NOTHING if pod.spec.resources is None else pod.spec.resources

    def limit(resource: str) -> int:
        declared = resource in own.limits or all(amount(one.resources.limits, resource) for one in _all(pod))
        return limits.get(resource, 0) if declared else 0

    return Limits(requests.get(CPU, 0), limit(CPU), limit(MEMORY))


def amount(resources: ResourceList, name: str) -> int:
    """Return an amount in nano-units; 0 without one."""
    return parse(resources[name]) if name in resources else 0


def shares_of(pod: Pod, name: str, limits: Limits, capacity: Mapping[str, Quantity] | None) -> Shares:
    """Return what a container is given. `capacity` is that of its node."""
    try:
        cpus, memory = parse((capacity or {})[CPU]) // 10**9, parse((capacity or {})[MEMORY])
    except (KeyError, QuantityError):
        return Shares(limits)
    return Shares(limits, _oom_score_adj(pod, name, memory), cpus)


def _oom_score_adj(pod: Pod, name: str, capacity: int) -> int:
    """Return how soon a container is killed where memory is short: the more it requests, the later."""
    qos = pod.status.qos_class
    if qos == "Guaranteed" or pod.priority >= CRITICAL:
        return _GUARANTEED
    if qos == "BestEffort" or not capacity:
        return _BEST_EFFORT
    container = next(one for one in _all(pod) if one.name == name)
    memory, shared = amount(container.resources.requests, MEMORY), _shared_memory(pod)
    score = 1000 - 1000 * (memory + shared) // capacity
    if container.restart_policy == "Always" and container in pod.spec.init_containers:
        least = min(amount(one.resources.requests, MEMORY) for one in pod.spec.containers)
        score = min(score, 1000 - 1000 * (least + shared) // capacity)
    return min(max(score, 1000 + _GUARANTEED), _BEST_EFFORT - 1)


def _shared_memory(pod: Pod) -> int:
    """Return how much each container has of what only the pod requests."""
    own, containers = pod.spec.resources, [*_all(pod)]
    if own is None or not own.requests:
        return 0
    total = sum(amount(one.resources.requests, MEMORY) for one in containers)
    return max(amount(own.requests, MEMORY) - total, 0) // len(containers)


def _all(pod: Pod) -> list[Container]:
    return [*pod.spec.init_containers, *pod.spec.containers]


def with_resources(
    pod: Pod, own: ResourceRequirements | None, containers: Mapping[str, ResourceRequirements]
) -> Pod:
    """Return a pod with other resources."""

    def changed(members: list[Container]) -> list[Container]:
        return [
            msgspec.structs.replace(one, resources=containers.get(one.name, one.resources)) for one in members
        ]

    spec = msgspec.structs.replace(
        pod.spec,
        resources=own,
        containers=changed(pod.spec.containers),
        init_containers=changed(pod.spec.init_containers),
    )
    return msgspec.structs.replace(pod, spec=spec)
