"""Shapes: which pods are alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.api.errors import ObjectError
from mooring.api.meta import ResourceList
from mooring.api.objects import ContainerStatus, Pod, PodStatus, ResourceRequirements
from mooring.framework.pod import Shape, Shapes
from mooring.testing import make_pod

AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "2", "3"]))


def running(pod: Pod, given: ResourceList | None, allocated: ResourceList) -> Pod:
    """A pod whose kubelet tells what its container has."""
    resources = None if given is None else ResourceRequirements(requests=given)
    status = ContainerStatus(
        name=pod.spec.containers[0].name, resources=resources, allocated_resources=allocated
    )
    return replace(pod, status=PodStatus(phase="Running", container_statuses=[status]))


def test_a_pod_that_runs_as_it_asked_is_as_it_was() -> None:
    pod = make_pod("web", requests={"cpu": "1", "memory": "2Gi"})
    asked = pod.spec.containers[0].resources.requests
    for told, allocated in ((asked, asked), (asked, {}), (None, asked)):
        assert Shape.key_of(running(pod, told, allocated)) == Shape.key_of(pod)


@given(AMOUNTS, AMOUNTS | st.none(), AMOUNTS)
def test_pods_of_one_shape_count_for_the_same(
    asked: ResourceList, given: ResourceList | None, allocated: ResourceList
) -> None:
    pod = make_pod("web", requests=asked)
    resized = running(pod, given, allocated)
    if Shape.key_of(resized) == Shape.key_of(pod):
        assert dict(Shape(resized).used) == dict(Shape(pod).used)
        assert Shape(resized).nonzero_used == Shape(pod).nonzero_used


@pytest.mark.parametrize("priority", [2**64, -(10**30)])
def test_an_integer_that_no_api_server_stores_is_the_pods_fault(priority: int) -> None:
    with pytest.raises(ObjectError, match="Pod default/web: spec: found an integer of more than 64 bits"):
        Shapes().of(make_pod("web", priority=priority))
