"""The resources that a node allocates to a pod, and those that the pod runs with until a resize is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mooring.api.objects import Pod
from mooring.sandbox.kubelet.admission import Refusal
from mooring.sandbox.kubelet.container_life import ContainerLife
from mooring.sandbox.kubelet.shares import with_resources


class Resize(NamedTuple):
    """A resize in progress: when the containers get what is allocated, and why they do not have it yet."""

    due: float
    error: str = ""


class Allocation:
    """The allocation of one pod. Its containers have theirs as `allocated` and `resources`."""

    __slots__ = ("_containers", "actuated", "allocated", "pending", "resize")

    def __init__(self, pod: Pod, containers: Sequence[ContainerLife]) -> None:
        self._containers = containers
        self.allocated = pod.spec.resources  # of the pod as a whole, by the node
        self.actuated = pod.spec.resources  # that it runs with
        self.pending: Refusal | None = None  # why the node has not allocated what the pod asks for
        self.resize: Resize | None = None

    def allocated_pod(self, pod: Pod) -> Pod:
        """Return the pod with the resources that the node has allocated."""
        if self.pending is None:
            return pod
        return with_resources(pod, self.allocated, {one.name: one.allocated for one in self._containers})

    def actuated_pod(self, pod: Pod) -> Pod:
        """Return the pod with the resources that it runs with."""
        if self.resize is None:
            return self.allocated_pod(pod)
        return with_resources(pod, self.actuated, {one.name: one.resources for one in self._containers})

    def allocate(self, pod: Pod) -> None:
        """Allocate what a pod asks for."""
        spec = pod.spec
        resources = {one.name: one.resources for one in (*spec.init_containers, *spec.containers)}
        self.allocated = spec.resources
        for one in self._containers:
            one.allocated = resources.get(one.name, one.allocated)

    def actuate(self) -> None:
        """Apply the allocation to the containers."""
        self.actuated = self.allocated
        for one in self._containers:
            one.resources = one.allocated
