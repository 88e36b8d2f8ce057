"""Another scheduler allocates the device while this one writes its own allocation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.devices import Allocation, ResourceClaim
from mooring.core.memory import MemoryClient, MemoryCluster
from tests.plugins.plugin_kit import make_node, make_pod
from tests.plugins.test_dynamic_resources import (
    claim,
    claim_of,
    claiming,
    cluster_of,
    device_class,
    node_of,
    resource_slice,
)


class Rival(MemoryClient):
    """Allocates what this scheduler is about to allocate, right before or right after it."""

    def __init__(self, cluster: MemoryCluster, first: bool) -> None:
        super().__init__(cluster)
        self._first = first
        self._done = False

    async def patch(self, obj: Any, patch: dict[str, Any], subresource: str = "") -> Any:
        tree = patch.get("status", {}).get("allocation")
        if not tree or self._done:
            return await super().patch(obj, patch, subresource)
        self._done = True
        if self._first:
            self._allocate(tree, "2")
        patched = await super().patch(obj, patch, subresource)
        if not self._first:
            self._allocate(tree, "9")
        return patched

    def _allocate(self, tree: dict[str, Any], version: str) -> None:
        other = claim("other", resourceVersion=version)
        status = msgspec.structs.replace(other.status, allocation=msgspec.convert(tree, Allocation))
        self._cluster.apply(msgspec.structs.replace(other, status=status))


@pytest.mark.parametrize(("rival_first", "node", "devices"), [(True, "", []), (False, "a", ["gpu-0"])])
def test_whichever_was_first_keeps_the_device(rival_first: bool, node: str, devices: list[str]) -> None:
    own = claim("gpu", resourceVersion="5")
    cluster = cluster_of(make_node("a"), device_class(), resource_slice("a"), claim("other"), own)
    cluster.scheduler.client = Rival(cluster, rival_first)
    cluster.apply(claiming("train"))
    cluster.run()
    assert node_of(cluster, "train") == node
    assert _held(claim_of(cluster)) == devices
    assert _held(claim_of(cluster, "other")) == ["gpu-0"]


def test_pods_share_a_device_through_an_extended_resource() -> None:
    """The devices of a created claim count once, although they were counted before it had a uid."""
    slots = {"slots": {"value": "2", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}}
    shared = resource_slice("a", allowMultipleAllocations=True, capacity=slots)
    cluster = cluster_of(make_node("a"), device_class(extendedResourceName="example.com/gpu"), shared)
    names = ["x", "y", "z"]
    for name in names:
        cluster.apply(make_pod(name, {"example.com/gpu": 1}))
    cluster.run()
    assert [pod.spec.node_name for pod in cluster.pods.values()] == ["a", "a", ""]


def _held(found: ResourceClaim) -> list[str]:
    return [] if found.allocation is None else [each.device for each in found.allocation.devices.results]
