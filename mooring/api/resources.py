"""What a pod asks for and what a node has to give.

CPU is counted in thousandths, everything else in whole units, both rounded up. Inside one pod the sums are
made on exact quantities and rounded at the end, since rounding each container would ask for too much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal

from mooring.api.errors import MalformedObject, child
from mooring.api.meta import KubeObject, ResourceList
from mooring.api.objects import Container, ContainerStatus, Node, Pod
from mooring.api.quantity import QuantityError, milli_value, parse, to_milli, to_value, value
from mooring.api.selectors import is_qualified_name

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
QUANTITY_EXPECTED = 'a quantity such as "100m" or "1Gi"'

_Exact = dict[str, int]
"""Resource name → exact amount in nano-units."""
_Member = Literal["requests", "limits"]

_NONE: Mapping[str, int] = {}
_DEFAULTS: Mapping[str, int] = {CPU: DEFAULT_MILLI_CPU * 10**6, MEMORY: DEFAULT_MEMORY * 10**9}


# ---- names --------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Whether a resource is one that a device plugin or an administrator added."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_qualified_name("requests." + name)


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Return whether the scheduler tracks a resource other than cpu, memory, ephemeral-storage and pods."""
    tracked = "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-"))
    return tracked or is_extended(name)


def is_pod_level(name: str) -> bool:
    """Whether a resource may be requested for the pod as a whole."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


# ---- pods ---------------------------------------------------------------------------------------


def pod_requests(pod: Pod, *, use_status: bool, pod_level: bool, non_missing: bool) -> dict[str, int]:
    """The requests of a pod: cpu in thousandths, the rest in whole units.

    `use_status` counts what a resized pod was given (for pods on nodes), `pod_level` honours
    spec.resources, and `non_missing` puts the scoring defaults where a container says nothing of cpu or
    memory. A resource is in the answer if something in the pod names it, even with zero.
    """
    try:
        if not non_missing and _is_plain(pod, use_status):
            return _converted(pod.spec.containers[0].resources.requests)
        return _rounded(_exact_requests(pod, use_status, pod_level, _DEFAULTS if non_missing else _NONE))
    except QuantityError:
        _blame(pod)
        raise


def _is_plain(pod: Pod, use_status: bool) -> bool:
    """Whether the pod's requests are just those that its only container states: by far the common case."""
    spec = pod.spec
    if len(spec.containers) != 1 or spec.init_containers or spec.overhead or spec.resources is not None:
        return False
    return not use_status or all(each.resources is None for each in pod.status.container_statuses)


def nonzero_requests(pod: Pod) -> tuple[int, int]:
    """(cpu in thousandths, memory in bytes) as NodeInfo counts them for scoring.

    Containers that name no request count with the defaults. A pod with pod-level requests gets them only for
    what its whole request list leaves out.
    """
    try:
        if _is_plain(pod, use_status=True):
            requests = pod.spec.containers[0].resources.requests
            cpu, memory = requests.get(CPU), requests.get(MEMORY)
            return (
                DEFAULT_MILLI_CPU if cpu is None else to_milli(cpu),
                DEFAULT_MEMORY if memory is None else to_value(memory),
            )
        missing = _DEFAULTS
        if has_pod_level_requests(pod):
            plain = _exact_requests(pod, True, True, _NONE)
            missing = {name: amount for name, amount in _DEFAULTS.items() if name not in plain}
        exact = _exact_requests(pod, True, True, missing)
    except QuantityError:
        _blame(pod)
        raise
    return milli_value(exact.get(CPU, 0)), value(exact.get(MEMORY, 0))


def has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(is_pod_level(name) for name in resources.requests)


def total_requests(pod: Pod, *, use_status: bool = True) -> dict[str, int]:
    """What a pod asks for, in nano-units; with `use_status`, what it was given if that is more."""
    return _exact_requests(pod, use_status, True, _NONE)


def total_limits(pod: Pod, *, use_status: bool = True) -> dict[str, int]:
    """What a pod is limited to, in nano-units; with `use_status`, what it was limited to if that is more. Its
    overhead only adds to what is limited at all."""
    total = _aggregate(pod, use_status, _NONE, "limits")
    if pod.spec.resources is not None:
        own = _parsed(pod.spec.resources.limits)
        total.update((name, amount) for name, amount in own.items() if is_pod_level(name))
    overhead = _parsed(pod.spec.overhead)
    return {name: amount + overhead.get(name, 0) if amount else amount for name, amount in total.items()}


def container_requests(pod: Pod) -> dict[str, int]:
    """The exact sum over the containers alone, in nano-units: no statuses, pod level or overhead."""
    return _aggregate(pod, False, _NONE)


def _converted(requests: ResourceList) -> dict[str, int]:
    return {name: to_milli(raw) if name == CPU else to_value(raw) for name, raw in requests.items()}


def _rounded(exact: _Exact) -> dict[str, int]:
    return {name: milli_value(n) if name == CPU else value(n) for name, n in exact.items()}


def _exact_requests(pod: Pod, use_status: bool, pod_level: bool, missing: Mapping[str, int]) -> _Exact:
    total = _aggregate(pod, use_status, missing)
    if pod_level and has_pod_level_requests(pod):
        for name, amount in _pod_level_requests(pod, use_status).items():
            if is_pod_level(name):
                total[name] = amount
    if pod.spec.overhead:
        _add(total, _parsed(pod.spec.overhead))
    return total


def _aggregate(
    pod: Pod, use_status: bool, missing: Mapping[str, int], member: _Member = "requests"
) -> _Exact:
    """Containers and sidecars run together; init containers run alone, except for the sidecars before
    them. Where one names no resource, it needs no more of it than the sidecars, which are in the peak."""
    statuses = _statuses(pod) if use_status else {}
    infeasible = bool(statuses) and _resize_infeasible(pod)
    total: _Exact = {}
    for container in pod.spec.containers:
        _add(total, _of_container(container, statuses, infeasible, missing, member))
    sidecars: _Exact = {}
    peak: _Exact = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            own = _of_container(container, statuses, infeasible, missing, member)
            _add(total, own)
            _add(sidecars, own)
            own = {name: sidecars[name] for name in own}
        else:
            own = _of_container(container, {}, infeasible, missing, member)
            own = {name: amount + sidecars.get(name, 0) for name, amount in own.items()}
        _raise_to(peak, own)
    _raise_to(total, peak)
    return total


def _of_container(
    container: Container,
    statuses: Mapping[str, ContainerStatus],
    infeasible: bool,
    missing: Mapping[str, int],
    member: _Member,
) -> _Exact:
    """The effective requests or limits of one container, as a dict of the caller's own."""
    status, requested = statuses.get(container.name), _parsed(getattr(container.resources, member))
    if status is None or status.resources is None:
        own = requested
    else:
        own = _parsed(getattr(status.resources, member))
        if member == "requests":
            _raise_to(own, _parsed(status.allocated_resources))
        if not infeasible:
            _raise_to(own, requested)
    for name, amount in missing.items():
        own.setdefault(name, amount)
    return own


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    return {each.name: each for each in (*status.container_statuses, *status.init_container_statuses)}


def _pod_level_requests(pod: Pod, use_status: bool) -> _Exact:
    resources, status_resources = pod.spec.resources, pod.status.resources
    spec = _parsed(resources.requests) if resources is not None else {}
    if not use_status or status_resources is None:
        return spec
    own = _parsed(status_resources.requests)
    _raise_to(own, _parsed(pod.status.allocated_resources))
    if not _resize_infeasible(pod):
        _raise_to(own, spec)
    return own


def _resize_infeasible(pod: Pod) -> bool:
    """Whether a pending resize can never happen here, so that what spec wants does not count."""
    return any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions)


def _parsed(requests: ResourceList) -> _Exact:
    return {name: parse(raw) for name, raw in requests.items()}


def _add(total: _Exact, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: _Exact, least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        if name not in total or total[name] < amount:
            total[name] = amount


# ---- ports and nodes ----------------------------------------------------------------------------


def host_ports(pod: Pod) -> tuple[tuple[str, str, int], ...]:
    """(ip, protocol, port) of every host port that the pod keeps while it runs."""
    spec = pod.spec
    if not spec.init_containers and not any(container.ports for container in spec.containers):
        return ()
    lasting = [*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always")]
    return tuple(
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in lasting
        for port in container.ports
        if port.host_port > 0
    )


def allocatable(node: Node) -> dict[str, int]:
    """What a node has to give, "pods" (the number of pods it may run) included; capacity never counts."""
    try:
        return _converted(node.status.allocatable)
    except QuantityError:
        _blame(node)
        raise


# ---- quantities by field ------------------------------------------------------------------------


def quantity_fields(obj: Pod | Node) -> Iterator[tuple[str, str | int | float]]:
    """(field, quantity) of every quantity that scheduling reads, or that stands in for one left out."""
    if isinstance(obj, Node):
        yield from _named("status.allocatable", obj.status.allocatable)
        yield from _named("status.capacity", obj.status.capacity)
        return
    spec, status = obj.spec, obj.status
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield from _named(f"spec.{field}[{index}].resources.requests", container.resources.requests)
            yield from _named(f"spec.{field}[{index}].resources.limits", container.resources.limits)
    yield from _named("spec.overhead", spec.overhead)
    if spec.resources is not None:
        yield from _named("spec.resources.requests", spec.resources.requests)
        yield from _named("spec.resources.limits", spec.resources.limits)
    yield from _named("status.allocatedResources", status.allocated_resources)
    if status.resources is not None:
        yield from _named("status.resources.requests", status.resources.requests)
    for field, statuses in (
        ("containerStatuses", status.container_statuses),
        ("initContainerStatuses", status.init_container_statuses),
    ):
        for index, each in enumerate(statuses):
            yield from _named(f"status.{field}[{index}].allocatedResources", each.allocated_resources)
            if each.resources is not None:
                yield from _named(f"status.{field}[{index}].resources.requests", each.resources.requests)


def _named(path: str, quantities: ResourceList) -> Iterator[tuple[str, str | int | float]]:
    for name, raw in quantities.items():
        yield child(path, name), raw


def check_quantities(obj: KubeObject, fields: Iterator[tuple[str, str | int | float]]) -> None:
    """Raises MalformedObject for the first quantity that does not parse."""
    for field, raw in fields:
        try:
            parse(raw)
        except QuantityError:
            kind = obj.kind or type(obj).__name__
            raise MalformedObject(kind, obj.key, field, raw, QUANTITY_EXPECTED) from None


def _blame(obj: Pod | Node) -> None:
    """Sums do not know whose number they add; after a failure, finds the field and raises for it."""
    check_quantities(obj, quantity_fields(obj))
