"""What pods as a whole are allocated and actuated, computed once for all with the same resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import Quantity, Tree
from mooring.api.objects import Pod
from mooring.api.resources import CPU, MEMORY
from mooring.sandbox.kubelet.shares import pod_limits
from mooring.sandbox.quota.pod_usage import written_totals

_MOST: Final = 1024  # different pods that are remembered
_encode = msgspec.msgpack.Encoder().encode
_remembered: dict[bytes, Tree] = {}


def pod_level(allocated: Pod, actuated: Pod, *, runs: bool) -> Tree:
    """Return what a pod is allocated, and what is actuated: while it runs, what its cgroup says."""
    key = _encode((runs, _resources(allocated), None if actuated is allocated else _resources(actuated)))
    status = _remembered.get(key)
    if status is None:
        if len(_remembered) >= _MOST:
            _remembered.clear()
        status = _remembered[key] = _compute(allocated, actuated, runs)
    return status


def _resources(pod: Pod) -> Any:
    """Return all of a pod that its totals follow from."""
    spec = pod.spec
    containers = [one.resources for one in spec.containers]
    inits = [(one.resources, one.restart_policy) for one in spec.init_containers]
    return containers, inits, spec.resources, spec.overhead


def _compute(allocated: Pod, actuated: Pod, runs: bool) -> Tree:
    totals = written_totals(allocated, use_status=False)
    requests, limits = totals if actuated is allocated else written_totals(actuated, use_status=False)
    if runs:
        cgroup = pod_limits(actuated)
        limited = {CPU: cgroup.cpu_limit, MEMORY: cgroup.memory_limit}
        requests = {name: requests[name] for name in (CPU, MEMORY) if name in requests}
        limits = {name: limits[name] for name, amount in limited.items() if amount}
    return {**amounts(allocatedResources=totals[0]), "resources": amounts(requests=requests, limits=limits)}


def amounts(**lists: Mapping[str, Quantity]) -> Tree:
    """Return the lists of resources that name any."""
    return {name: one for name, one in lists.items() if one}
