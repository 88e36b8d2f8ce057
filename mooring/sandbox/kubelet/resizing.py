"""Containers that get other resources while they run."""

from __future__ import annotations

from mooring.api.objects import Pod, ResourceRequirements
from mooring.sandbox.kubelet.container_life import RUNNING, ContainerLife
from mooring.sandbox.kubelet.containers import PodLife


def is_resized(life: PodLife) -> bool:
    """Whether a pod asks for other resources than those that the node has allocated."""
    resources = _requested_resources(life.pod)
    return any(one.resources != resources.get(one.name, one.resources) for one in life.all)


def resize(life: PodLife, now: float) -> None:
    """Allocate what the pod asks for; containers are restarted if their policy says so."""
    resources = _requested_resources(life.pod)
    for one in life.all:
        old, new = one.resources, resources.get(one.name, one.resources)
        if old == new:
            continue
        one.resources = new
        if one.state == RUNNING and _restarts(one, old, new):
            life.restart(one, now)
    life.changed = True


def _restarts(one: ContainerLife, old: ResourceRequirements, new: ResourceRequirements) -> bool:
    """Whether the policy of a container has it restarted for a change of its resources."""
    policies = () if one.spec is None else one.spec.resize_policy
    return any(
        policy.restart_policy == "RestartContainer"
        and (old.requests.get(policy.resource_name), old.limits.get(policy.resource_name))
        != (new.requests.get(policy.resource_name), new.limits.get(policy.resource_name))
        for policy in policies
    )


def _requested_resources(pod: Pod) -> dict[str, ResourceRequirements]:
    return {each.name: each.resources for each in (*pod.spec.init_containers, *pod.spec.containers)}
