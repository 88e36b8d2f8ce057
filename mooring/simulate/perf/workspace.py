"""What the operations of a workload share: cluster, templates, namespaces, and what they created."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mooring.api.kinds import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, ApiResource
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError
from mooring.client.port import Obj
from mooring.client.tasks import Tasks
from mooring.simulate.perf.bench_cluster import BenchCluster
from mooring.simulate.perf.suite import Run
from mooring.simulate.perf.templates import FixedTemplate, ObjectTemplate, Template, random_suffix

WORKERS = 30  # creations at once, as upstream
NAMES = 5  # attempts at a random name that is free
PAGE = 500
FINALIZED = ("pods", "resourceclaims", "persistentvolumes", "persistentvolumeclaims")


class WorkloadError(Exception):
    """A workload that did not get to its end."""


class Workspace:
    """The objects of one workload."""

    def __init__(self, run: Run, bench: BenchCluster) -> None:
        self.run, self.bench, self.api = run, bench, bench.cluster
        self.expected: dict[str, int] = {}  # pods to wait for, by namespace
        self.background = Tasks()
        self._templates: dict[tuple[str, bool], ObjectTemplate] = {}
        self._created: list[tuple[ApiResource[Any], str, str]] = []

    def template(self, path: str, default: dict[str, Any] | None = None, render: bool = True) -> Template:
        if not path:
            assert default is not None
            return FixedTemplate(default)
        key = path, render
        if key not in self._templates:
            self._templates[key] = ObjectTemplate(self._path(path), render)
        return self._templates[key]

    def _path(self, path: str) -> Path:
        return self.run.folder / path

    async def create(self, resource: ApiResource[Obj], tree: dict[str, Any], namespace: str = "") -> Obj:
        for attempt in range(NAMES):
            try:
                made = await self.api.create(resource, tree, namespace)
                break
            except ApiError as error:
                generated = error.reason == "AlreadyExists" and "generateName" in tree["metadata"]
                if not generated or attempt + 1 == NAMES:
                    raise
                if resource is NODES:  # named here, since a label repeats the name
                    name_node(tree, self.bench.random)
        self._created.append((resource, namespace, made.name))
        return made

    async def list_all(self, resource: ApiResource[Obj], namespace: str = "") -> list[Obj]:
        items: list[Obj] = []
        token = ""
        while True:
            page = await self.api.list(resource, namespace=namespace, limit=PAGE, continue_token=token)
            items += page.items
            token = page.continue_token
            if not token:
                return items

    async def namespace(self, name: str, tree: dict[str, Any] | None = None) -> None:
        """Create a namespace unless it is there."""
        body = {"apiVersion": "v1", "kind": "Namespace", **(tree or {})}
        body["metadata"] = {**body.get("metadata", {}), "name": name}
        try:
            await self.api.create(NAMESPACES, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        self.expected.setdefault(name, 0)

    def pods(self) -> list[Pod]:
        """Return the pods of the namespaces that the workload uses; a real cluster has others, too."""
        return [pod for namespace in sorted(self.expected) for pod in self.bench.pods.in_namespace(namespace)]

    async def clean_up(self) -> None:
        """Delete what was created, for the next workload on the same API server."""
        for namespace in self.expected:
            for claim in await self.list_all(RESOURCE_CLAIMS, namespace):
                self._created.append((RESOURCE_CLAIMS, namespace, claim.name))
            for pod in await self.list_all(PODS, namespace):
                self._created.append((PODS, namespace, pod.name))
        finalizers = {"metadata": {"finalizers": None}}

        async def remove(index: int) -> None:
            resource, namespace, name = self._created[-1 - index]
            with suppress(ApiError):
                await self.api.delete(resource, name, namespace, grace_period_seconds=0)
                if resource.plural in FINALIZED:
                    await self.api.patch(resource, name, finalizers, namespace)

        await parallel(len(self._created), remove)


def name_node(node: dict[str, Any], source: random.Random) -> None:
    """Name a node, unless its template does, and label it with the name."""
    metadata = node["metadata"]
    prefix = metadata.get("generateName")
    if prefix:
        metadata["name"] = prefix + random_suffix(source)
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/hostname": metadata["name"]}


async def parallel(count: int, work: Callable[[int], Awaitable[None]]) -> None:
    """Do something for each index, a number of them at once, in order."""
    indexes = iter(range(count))

    async def worker() -> None:
        for i in indexes:
            await work(i)
            await asyncio.sleep(0)  # the sandbox answers without waiting: let the scheduler have its turn

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(WORKERS, count)):
                group.create_task(worker())
    except* Exception as failures:
        raise failures.exceptions[0] from None
