"""Devices and claims: createResourceDriver, createResourceClaims, allocResourceClaims."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from mooring.api.kinds import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from mooring.simulate.perf.claims import allocate_claims, device_slice
from mooring.simulate.perf.suite import AllocResourceClaims, CreateResourceClaims, CreateResourceDriver
from mooring.simulate.perf.workspace import Workspace, parallel


async def create_driver(space: Workspace, operation: CreateResourceDriver) -> None:
    nodes = [node for node in await space.list_all(NODES) if fnmatchcase(node.name, operation.nodes)]

    async def make(i: int) -> None:
        body = device_slice(operation.driver_name, nodes[i].name, operation.max_claims_per_node)
        await space.create(RESOURCE_SLICES, body)

    await parallel(len(nodes), make)


async def create_claims(space: Workspace, operation: CreateResourceClaims) -> None:
    await space.namespace(operation.namespace)
    template = space.template(operation.template_path, render=False)

    async def make(i: int) -> None:
        await space.create(RESOURCE_CLAIMS, template.object(), operation.namespace)

    await parallel(operation.count, make)


async def allocate(space: Workspace, operation: AllocResourceClaims) -> None:
    everywhere = await space.list_all(RESOURCE_CLAIMS)
    mine = [
        claim
        for claim in everywhere
        if claim.status.allocation is None and operation.namespace in ("", claim.namespace)
    ]
    others = [claim for claim in everywhere if claim.status.allocation is not None]
    allocated = allocate_claims(
        await space.list_all(NODES),
        await space.list_all(RESOURCE_SLICES),
        await space.list_all(DEVICE_CLASSES),
        mine,
        others,
        space.bench.random,
    )

    async def write(i: int) -> None:
        claim = allocated[i]
        status = {"status": {"allocation": msgspec.to_builtins(claim.status.allocation)}}
        await space.api.patch(RESOURCE_CLAIMS, claim.name, status, claim.namespace, subresource="status")

    await parallel(len(allocated), write)
