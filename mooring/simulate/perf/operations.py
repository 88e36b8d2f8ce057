"""Runs the operations of a workload, one after another, on a BenchCluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError
from mooring.simulate.perf.bench_cluster import BenchCluster
from mooring.simulate.perf.device_operations import allocate, create_claims, create_driver
from mooring.simulate.perf.measuring import Collector, DataItem, Progress, check_threshold
from mooring.simulate.perf.node_operations import create_nodes
from mooring.simulate.perf.object_operations import churn, create_any, create_namespaces, update_any
from mooring.simulate.perf.pod_operations import create_pods, delete_pods
from mooring.simulate.perf.suite import (
    AllocResourceClaims,
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreatePodSets,
    CreateResourceClaims,
    CreateResourceDriver,
    DeletePods,
    Operation,
    Run,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
    UpdateAny,
)
from mooring.simulate.perf.waiting import PodWaits
from mooring.simulate.perf.workspace import WorkloadError, Workspace
from mooring.simulate.units import parse_span


class Executor:
    """The state of one workload while its operations run."""

    def __init__(self, run: Run, bench: BenchCluster) -> None:
        self._space = Workspace(run, bench)
        self._waits = PodWaits(self._space)
        self._collector: Collector | None = None
        self.items: list[DataItem] = []
        self.progress: list[Progress] = []
        self.problems: list[str] = []
        bench.pods.subscribe(self._pod_changed)

    async def execute(self, shown: Callable[[int, Operation], None] = lambda index, operation: None) -> None:
        """Raises WorkloadError, ApiError and ValueError."""
        run = self._space.run
        try:
            for index, operation in enumerate(run.operations):
                shown(index, operation)
                try:
                    await self._run_one(index, operation)
                except (WorkloadError, ValueError, LookupError) as error:
                    raise WorkloadError(f"{run.name}: {operation.opcode} ({index}): {error}") from None
                except ApiError as error:
                    raise WorkloadError(
                        f"{run.name}: {operation.opcode} ({index}): {error.message}"
                    ) from None
        finally:
            await self._space.background.stop()
            if self._collector is not None:
                await self._collector.stop()

    def pods(self) -> list[Pod]:
        return self._space.pods()

    async def clean_up(self) -> None:
        await self._space.clean_up()

    async def _run_one(self, index: int, operation: Operation) -> None:
        space, default_namespace = self._space, f"namespace-{index}"
        match operation:
            case CreateNodes():
                await create_nodes(space, index, operation)
            case CreateNamespaces():
                await create_namespaces(space, operation)
            case CreatePods():
                await self._create_pods(operation.namespace or default_namespace, operation)
            case CreatePodSets():
                for i in range(operation.count):
                    await self._create_pods(f"{operation.namespace_prefix}-{i}", operation.create_pods_op)
            case DeletePods():
                await delete_pods(space, operation)
            case Churn():
                await churn(space, operation.namespace or default_namespace, operation)
            case UpdateAny():  # before CreateAny, which it extends
                await update_any(space, operation)
            case CreateAny():
                await create_any(space, operation)
            case Barrier():
                await self._waits.barrier(operation)
            case Sleep():
                await asyncio.sleep(parse_span(operation.duration))
            case StartCollectingMetrics():
                self._start_collecting(operation.name, operation.namespaces, operation.label_selector)
            case StopCollectingMetrics():
                await self._stop_collecting()
            case CreateResourceDriver():
                await create_driver(space, operation)
            case CreateResourceClaims():
                await create_claims(space, operation)
            case AllocResourceClaims():
                await allocate(space, operation)
            case _:
                raise WorkloadError("not implemented")

    async def _create_pods(self, namespace: str, operation: CreatePods) -> None:
        if operation.collect_metrics:
            self._start_collecting(namespace, [namespace], {})
        await create_pods(self._space, self._waits, namespace, operation)
        if operation.collect_metrics:
            await self._stop_collecting()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._waits.pod_changed()
        if self._collector is not None:
            self._collector.pod_changed(old, new)

    def _start_collecting(self, name: str, namespaces: Iterable[str], selector: dict[str, str]) -> None:
        if self._collector is not None:
            raise WorkloadError("metrics collection overlaps with another")
        self._collector = Collector(
            f"{self._space.run.name}/{name}",
            namespaces,
            selector,
            self._space.run.metrics,
            self._space.bench.metrics,
            asyncio.get_running_loop().time,
        )

    async def _stop_collecting(self) -> None:
        if self._collector is None:
            raise WorkloadError("startCollectingMetrics is missing before")
        collector, self._collector = self._collector, None
        items = await collector.stop()
        if not self._space.bench.virtual:
            self.problems += check_threshold(items, self._space.run.threshold, self._space.run.selector)
        self.items += items
        self.progress += collector.progress
