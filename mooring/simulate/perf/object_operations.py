"""Namespaces and objects of any kind: createNamespaces, createAny, updateAny, churn."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from mooring.api.kinds import ApiResource
from mooring.client.api_errors import ApiError
from mooring.simulate.perf.suite import Churn, CreateAny, CreateNamespaces, UpdateAny
from mooring.simulate.perf.workspace import Workspace

RETRY = 20.0  # seconds that createAny is retried for
CHURN = 0.5  # seconds between two steps


async def create_namespaces(space: Workspace, operation: CreateNamespaces) -> None:
    tree: dict[str, Any] = {"metadata": {}}
    if operation.namespace_template_path:
        tree = space.template(operation.namespace_template_path, render=False).object()
    for i in range(operation.count):
        await space.namespace(f"{operation.prefix}-{i}", tree)


async def create_any(space: Workspace, operation: CreateAny) -> None:
    template = space.template(operation.template_path)
    if operation.namespace:
        await space.namespace(operation.namespace)
    count = 1 if operation.count is None else operation.count
    for i in range(count):
        await _retrying(space, template.object(i, count), operation)


async def _retrying(space: Workspace, tree: dict[str, Any], operation: CreateAny) -> None:
    """Create an object; a kind may not be served yet."""
    until = asyncio.get_running_loop().time() + RETRY
    while True:
        try:
            await space.create(await _resource(space, tree, operation), tree, operation.namespace)
            return
        except (ApiError, LookupError):
            if asyncio.get_running_loop().time() >= until:
                raise
            await asyncio.sleep(1.0)


async def _resource(space: Workspace, tree: dict[str, Any], operation: CreateAny) -> ApiResource[Any]:
    resource = await space.bench.resource(tree)
    if resource.namespaced and not operation.namespace:
        raise ValueError(f"{operation.template_path}: namespace is required for {tree['kind']}")
    if operation.namespace and not resource.namespaced:
        raise ValueError(f"{operation.template_path}: {tree['kind']} is not namespaced")
    return resource


async def update_any(space: Workspace, operation: UpdateAny) -> None:
    template = space.template(operation.template_path)
    if operation.namespace:
        await space.namespace(operation.namespace)
    count = 1 if operation.count is None else operation.count
    for i in range(count):
        if operation.update_per_second:
            await asyncio.sleep(1 / operation.update_per_second)
        tree = template.object(i, count)
        resource, name = await _resource(space, tree, operation), tree["metadata"]["name"]
        part = "/".join(operation.subresources)
        await space.api.update(resource, name, tree, operation.namespace, part)
        await space.api.update(resource, name, tree, operation.namespace, "status")


async def churn(space: Workspace, namespace: str, operation: Churn) -> None:
    await space.namespace(namespace)
    trees = [space.template(path, render=False) for path in operation.template_paths]
    kinds = [await space.bench.resource(tree.object()) for tree in trees]
    names: list[list[str]] = [[""] * operation.number for _ in trees]
    interval = operation.interval_milliseconds / 1000 or CHURN

    async def step(count: int) -> None:
        for i, (template, resource) in enumerate(zip(trees, kinds, strict=True)):
            where = namespace if resource.namespaced else ""
            slot = count % operation.number if operation.mode == "recreate" else -1
            with suppress(ApiError):
                if slot >= 0 and names[i][slot]:
                    name, names[i][slot] = names[i][slot], ""
                    await space.api.delete(resource, name, where)
                else:
                    made = await space.create(resource, template.object(), where)
                    if slot >= 0:
                        names[i][slot] = made.name

    async def work() -> None:
        count = 0
        while operation.mode == "recreate" or not operation.number or count < operation.number:
            await asyncio.sleep(interval)
            await step(count)
            count += 1

    space.background.start("churn", work())
