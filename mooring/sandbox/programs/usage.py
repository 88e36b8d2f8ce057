"""How much CPU and memory the containers of a pod use: what its annotations say, what clients have them use,
or half of their requests.

mooring/cpu-usage: 250m        of the pod, divided equally among its containers
mooring/memory-usage: 80%      of the requests of each container
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.meta import Quantity
from mooring.api.objects import Container, Pod, ResourceRequirements
from mooring.api.quantity import QuantityError, parse
from mooring.sandbox.programs.images import find_image
from mooring.sandbox.programs.loads import Loads

ANNOTATIONS = {"cpu": "mooring/cpu-usage", "memory": "mooring/memory-usage"}
USUAL = 50  # percent of the requests
MOST = 1_000_000  # percent
LEAST_MEMORY = 2**20 * 10**9  # of a container that runs, whatever it requests, in nano-units


def container_usage(pod: Pod, loads: Loads, now: float) -> dict[str, dict[str, int]]:
    """Return what each running container uses, in nano-units by resource."""
    containers = [*_running(pod)]

    def usage(container: Container, resource: str) -> int:
        request, usual = request_of(container, resource) or 0, None
        if find_image(container.image).uses_loads:
            usual = loads.measure(pod.uid, container.name, resource, now)
            limits = [one.limits.get(resource) for one in (container.resources, pod.spec.resources) if one]
            usual = min(usual, *(parse(limit) for limit in limits if limit is not None), usual)
        return _usage(pod, request, resource, len(containers), usual)

    return {one.name: {resource: usage(one, resource) for resource in ANNOTATIONS} for one in containers}


def _running(pod: Pod) -> Iterator[Container]:
    """Yield the running containers, including sidecars."""
    if pod.status.phase != "Running":
        return
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    running = {status.name for status in statuses if status.state.running is not None}
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        if container.name in running:
            yield container


def used_memory(pod: Pod, name: str, resources: ResourceRequirements) -> int:
    """Return how much memory a container uses that runs with these resources, in nano-units."""
    running = [*_running(pod)]
    if all(one.name != name for one in running):
        return 0
    request = parse(resources.requests.get("memory", "0"))
    return max(_usage(pod, request, "memory", len(running)), LEAST_MEMORY)


def _usage(pod: Pod, request: int, resource: str, containers: int, usual: int | None = None) -> int:
    """Return what a container uses. `usual` is used without an annotation; by default half of the request."""
    text = pod.metadata.annotations.get(ANNOTATIONS[resource], "")
    percent = text.removesuffix("%")
    if percent != text and percent.isascii() and percent.isdigit():
        return request * min(int(percent[:10]), MOST) // 100
    try:
        return max(parse(text), 0) // containers
    except QuantityError:  # none, or one that is ignored
        return request * USUAL // 100 if usual is None else usual


def request_of(container: Container, resource: str) -> int | None:
    """Return a container's request in nano-units, None without one."""
    quantity: Quantity | None = container.resources.requests.get(resource)
    return None if quantity is None else parse(quantity)
