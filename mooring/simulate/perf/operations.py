"""Runs the operations of a workload, one after another, on a BenchCluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from mooring.api.kinds import (
    CSI_NODES,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    ApiResource,
)
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError
from mooring.client.port import Obj
from mooring.client.tasks import Tasks
from mooring.simulate.perf.bench_cluster import BenchCluster
from mooring.simulate.perf.claims import allocate_claims, device_slice
from mooring.simulate.perf.measuring import Collector, DataItem, Progress, check_threshold, matches
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
from mooring.simulate.perf.templates import NODE, POD, FixedTemplate, ObjectTemplate, Template, random_suffix
from mooring.simulate.units import parse_span

WORKERS = 30  # creations at once, as upstream
WAIT = 600.0  # seconds for pods to be scheduled
NAMES = 5  # attempts at a random name that is free
RETRY = 20.0  # seconds that createAny is retried for
LOOK = 0.05  # seconds between two looks at pods that change all the time
PAGE = 500
FINALIZED = ("pods", "resourceclaims", "persistentvolumes", "persistentvolumeclaims")
CHURN = 0.5  # seconds between two steps
BATCH = 1.0  # virtual seconds that a batch of a steady state takes, since scheduling itself takes none


class WorkloadError(Exception):
    """A workload that did not get to its end."""


class Executor:
    """The state of one workload while its operations run."""

    def __init__(self, run: Run, bench: BenchCluster) -> None:
        self._run, self._bench, self._api = run, bench, bench.cluster
        self._templates: dict[tuple[str, bool], ObjectTemplate] = {}
        self._expected: dict[str, int] = {}  # pods to wait for, by namespace
        self._collector: Collector | None = None
        self._background = Tasks()
        self._changed = asyncio.Event()
        self._created: list[tuple[ApiResource[Any], str, str]] = []
        self.items: list[DataItem] = []
        self.progress: list[Progress] = []
        self.problems: list[str] = []
        bench.pods.subscribe(self._pod_changed)

    async def execute(self, shown: Callable[[int, Operation], None] = lambda index, operation: None) -> None:
        """Raises WorkloadError, ApiError and ValueError."""
        try:
            for index, operation in enumerate(self._run.operations):
                shown(index, operation)
                try:
                    await self._run_one(index, operation)
                except (WorkloadError, ValueError, LookupError) as error:
                    raise WorkloadError(f"{self._run.name}: {operation.opcode} ({index}): {error}") from None
                except ApiError as error:
                    text = f"{self._run.name}: {operation.opcode} ({index}): {error.message}"
                    raise WorkloadError(text) from None
        finally:
            await self._background.stop()
            if self._collector is not None:
                await self._collector.stop()

    def pods(self) -> list[Pod]:
        """Return the pods of the namespaces that the workload uses; a real cluster has others, too."""
        return [
            pod for namespace in sorted(self._expected) for pod in self._bench.pods.in_namespace(namespace)
        ]

    async def clean_up(self) -> None:
        """Delete what was created, for the next workload on the same API server."""
        for namespace in self._expected:
            for claim in await self._list(RESOURCE_CLAIMS, namespace):
                self._created.append((RESOURCE_CLAIMS, namespace, claim.name))
            for pod in await self._list(PODS, namespace):
                self._created.append((PODS, namespace, pod.name))
        finalizers = {"metadata": {"finalizers": None}}

        async def remove(index: int) -> None:
            resource, namespace, name = self._created[-1 - index]
            with suppress(ApiError):
                await self._api.delete(resource, name, namespace, grace_period_seconds=0)
                if resource.plural in FINALIZED:
                    await self._api.patch(resource, name, finalizers, namespace)

        await _parallel(len(self._created), remove)

    async def _run_one(self, index: int, operation: Operation) -> None:
        match operation:
            case CreateNodes():
                await self._create_nodes(index, operation)
            case CreateNamespaces():
                await self._create_namespaces(operation)
            case CreatePods():
                await self._create_pods(index, operation)
            case CreatePodSets():
                for i in range(operation.count):
                    pods = operation.create_pods_op
                    named = msgspec.structs.replace(pods, namespace=f"{operation.namespace_prefix}-{i}")
                    await self._create_pods(index, named)
            case DeletePods():
                await self._delete_pods(operation)
            case Churn():
                await self._churn(index, operation)
            case UpdateAny():  # before CreateAny, which it extends
                await self._update_any(operation)
            case CreateAny():
                await self._create_any(operation)
            case Barrier():
                await self._barrier(operation)
            case Sleep():
                await asyncio.sleep(parse_span(operation.duration))
            case StartCollectingMetrics():
                self._start_collecting(operation.name, operation.namespaces, operation.label_selector)
            case StopCollectingMetrics():
                await self._stop_collecting()
            case CreateResourceDriver():
                await self._create_driver(operation)
            case CreateResourceClaims():
                await self._create_claims(operation)
            case AllocResourceClaims():
                await self._allocate(operation)
            case _:
                raise WorkloadError("not implemented")

    # ---- objects

    def _template(self, path: str, default: dict[str, Any] | None = None, render: bool = True) -> Template:
        if not path:
            assert default is not None
            return FixedTemplate(default)
        key = path, render
        if key not in self._templates:
            self._templates[key] = ObjectTemplate(self._path(path), render)
        return self._templates[key]

    def _path(self, path: str) -> Path:
        return self._run.folder / path

    async def _create(self, resource: ApiResource[Obj], tree: dict[str, Any], namespace: str = "") -> Obj:
        for attempt in range(NAMES):
            try:
                made = await self._api.create(resource, tree, namespace)
                break
            except ApiError as error:
                generated = error.reason == "AlreadyExists" and "generateName" in tree["metadata"]
                if not generated or attempt + 1 == NAMES:
                    raise
                if resource is NODES:  # named here, since a label repeats the name
                    _name_node(tree, self._bench.random)
        self._created.append((resource, namespace, made.name))
        return made

    async def _list(self, resource: ApiResource[Obj], namespace: str = "") -> list[Obj]:
        items: list[Obj] = []
        token = ""
        while True:
            page = await self._api.list(resource, namespace=namespace, limit=PAGE, continue_token=token)
            items += page.items
            token = page.continue_token
            if not token:
                return items

    async def _namespace(self, name: str, tree: dict[str, Any] | None = None) -> None:
        """Create a namespace unless it is there."""
        body = {"apiVersion": "v1", "kind": "Namespace", **(tree or {})}
        body["metadata"] = {**body.get("metadata", {}), "name": name}
        try:
            await self._api.create(NAMESPACES, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        self._expected.setdefault(name, 0)

    async def _create_nodes(self, index: int, operation: CreateNodes) -> None:
        fixed = {**NODE, "metadata": {"generateName": f"node-{index}-"}}
        template = self._template(operation.node_template_path, fixed)
        unique, label = operation.unique_node_label_strategy, operation.label_node_prepare_strategy
        strategy = operation.node_allocatable_strategy
        if label is not None and not label.label_values:
            raise ValueError("labelNodePrepareStrategy: labelValues: expected at least one")

        async def make(i: int) -> None:
            node = template.object(i, operation.count)
            _name_node(node, self._bench.random)
            labels = node["metadata"]["labels"]
            if label is not None:
                labels[label.label_key] = label.label_values[i % len(label.label_values)]
            if unique is not None:
                labels[unique.label_key] = str(UUID(int=self._bench.random.getrandbits(128), version=4))
            if strategy is not None:
                status = node.setdefault("status", {})
                allocatable = status.get("allocatable") or status.get("capacity") or {}
                status["allocatable"] = {**allocatable, **strategy.node_allocatable}
            made = await self._create(NODES, node)
            if strategy is not None:
                await self._create(CSI_NODES, _csi_node(made.name, strategy))

        await _parallel(operation.count, make)

    async def _create_namespaces(self, operation: CreateNamespaces) -> None:
        tree: dict[str, Any] = {"metadata": {}}
        if operation.namespace_template_path:
            tree = self._template(operation.namespace_template_path, render=False).object()
        for i in range(operation.count):
            await self._namespace(f"{operation.prefix}-{i}", tree)

    async def _create_any(self, operation: CreateAny) -> None:
        template = self._template(operation.template_path)
        if operation.namespace:
            await self._namespace(operation.namespace)
        count = 1 if operation.count is None else operation.count
        for i in range(count):
            await self._retrying(template.object(i, count), operation)

    async def _retrying(self, tree: dict[str, Any], operation: CreateAny) -> None:
        """Create an object; a kind may not be served yet."""
        until = asyncio.get_running_loop().time() + RETRY
        while True:
            try:
                await self._create(await self._resource(tree, operation), tree, operation.namespace)
                return
            except (ApiError, LookupError):
                if asyncio.get_running_loop().time() >= until:
                    raise
                await asyncio.sleep(1.0)

    async def _resource(self, tree: dict[str, Any], operation: CreateAny) -> ApiResource[Any]:
        resource = await self._bench.resource(tree)
        if resource.namespaced and not operation.namespace:
            raise ValueError(f"{operation.template_path}: namespace is required for {tree['kind']}")
        if operation.namespace and not resource.namespaced:
            raise ValueError(f"{operation.template_path}: {tree['kind']} is not namespaced")
        return resource

    async def _update_any(self, operation: UpdateAny) -> None:
        template = self._template(operation.template_path)
        if operation.namespace:
            await self._namespace(operation.namespace)
        count = 1 if operation.count is None else operation.count
        for i in range(count):
            if operation.update_per_second:
                await asyncio.sleep(1 / operation.update_per_second)
            tree = template.object(i, count)
            resource, name = await self._resource(tree, operation), tree["metadata"]["name"]
            part = "/".join(operation.subresources)
            await self._api.update(resource, name, tree, operation.namespace, part)
            await self._api.update(resource, name, tree, operation.namespace, "status")

    # ---- pods

    async def _create_pods(self, index: int, operation: CreatePods) -> None:
        namespace = operation.namespace or f"namespace-{index}"
        await self._namespace(namespace)
        path = operation.pod_template_path or self._run.default_pod_template
        make = self._pod_maker(operation, self._template(path, POD), namespace)
        if operation.collect_metrics:
            self._start_collecting(namespace, [namespace], {})
        if operation.steady_state:
            await self._steadily(operation, namespace, make)
        else:
            await _parallel(operation.count, make)
            if operation.skip_wait_to_completion:
                self._expected[namespace] += operation.count
            else:
                await self._wait(namespace, {}, operation.count, attempted=False)
        if operation.collect_metrics:
            await self._stop_collecting()

    def _pod_maker(
        self, operation: CreatePods, template: Template, namespace: str
    ) -> Callable[[int], Awaitable[None]]:
        volume_path = operation.persistent_volume_template_path
        claim_path = operation.persistent_volume_claim_template_path
        count = operation.count

        async def make(i: int) -> None:
            pod = template.object(i, count)
            if claim_path:
                claim = self._template(claim_path, render=False).object()
                volume = self._template(volume_path, render=False).object()
                await self._create_volume(i, namespace, claim, volume)
                used = {"name": "vol", "persistentVolumeClaim": {"claimName": f"pvc-{i}"}}
                pod["spec"]["volumes"] = [used]
            await self._create(PODS, pod, namespace)

        return make

    async def _create_volume(
        self, i: int, namespace: str, claim: dict[str, Any], volume: dict[str, Any]
    ) -> None:
        """A claim and a volume that are bound to each other."""
        claim_name, name = f"pvc-{i}", f"{namespace}-vol-{i}"
        claim["metadata"]["name"], volume["metadata"]["name"] = claim_name, name
        claim["spec"]["volumeName"], claim["status"] = name, {"phase": "Bound"}
        spec = volume["spec"]
        spec["claimRef"] = {
            "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim_name, "apiVersion": "v1",
        }  # fmt: skip
        if spec.get("csi"):
            spec["csi"]["volumeHandle"] = name
        elif spec.get("awsElasticBlockStore"):
            spec["awsElasticBlockStore"]["volumeID"] = f"vol-{i}"
        volume["status"] = {"phase": "Bound"}
        await self._create(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
        await self._api.update(PERSISTENT_VOLUME_CLAIMS, claim_name, claim, namespace, "status")
        await self._create(PERSISTENT_VOLUMES, volume)
        await self._api.update(PERSISTENT_VOLUMES, name, volume, "", "status")

    async def _steadily(
        self, operation: CreatePods, namespace: str, make: Callable[[int], Awaitable[None]]
    ) -> None:
        """Create pods, delete them once all are scheduled, and so on until the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + parse_span(operation.duration)
        scheduled = 0
        while loop.time() < end:
            await _parallel(operation.count, make)
            try:
                async with asyncio.timeout_at(end):
                    await self._wait(namespace, {}, operation.count, attempted=False)
                    if self._bench.virtual:
                        await asyncio.sleep(BATCH)
            except TimeoutError:
                pass
            pods = self._bench.pods.in_namespace(namespace)
            scheduled += sum(bool(pod.spec.node_name) for pod in pods)
            await self._delete_all(namespace, pods, grace=0)
        if not scheduled:
            raise WorkloadError("no pod was scheduled")

    async def _delete_all(self, namespace: str, pods: Sequence[Pod], grace: int | None = None) -> None:
        async def delete(i: int) -> None:
            with suppress(ApiError):
                await self._api.delete(PODS, pods[i].name, namespace, grace_period_seconds=grace)

        await _parallel(len(pods), delete)

    async def _delete_pods(self, operation: DeletePods) -> None:
        namespace, rate = operation.namespace, operation.delete_pods_per_second
        chosen = [
            pod for pod in self._bench.pods.in_namespace(namespace) if matches(pod, operation.label_selector)
        ]

        async def work() -> None:
            if not rate:
                await self._delete_all(namespace, chosen)
                return
            for pod in chosen:
                await asyncio.sleep(1 / rate)
                await self._delete_all(namespace, [pod])

        if operation.skip_wait_to_completion:
            self._background.start("deletePods", work())
        else:
            await work()

    async def _churn(self, index: int, operation: Churn) -> None:
        namespace = operation.namespace or f"namespace-{index}"
        await self._namespace(namespace)
        trees = [self._template(path, render=False) for path in operation.template_paths]
        kinds = [await self._bench.resource(tree.object()) for tree in trees]
        names: list[list[str]] = [[""] * operation.number for _ in trees]
        interval = operation.interval_milliseconds / 1000 or CHURN

        async def step(count: int) -> None:
            for i, (template, resource) in enumerate(zip(trees, kinds, strict=True)):
                where = namespace if resource.namespaced else ""
                slot = count % operation.number if operation.mode == "recreate" else -1
                with suppress(ApiError):
                    if slot >= 0 and names[i][slot]:
                        name, names[i][slot] = names[i][slot], ""
                        await self._api.delete(resource, name, where)
                    else:
                        made = await self._create(resource, template.object(), where)
                        if slot >= 0:
                            names[i][slot] = made.name

        async def work() -> None:
            count = 0
            while operation.mode == "recreate" or not operation.number or count < operation.number:
                await asyncio.sleep(interval)
                await step(count)
                count += 1

        self._background.start("churn", work())

    # ---- waiting

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._changed.set()
        if self._collector is not None:
            self._collector.pod_changed(old, new)

    async def _barrier(self, operation: Barrier) -> None:
        attempted = operation.stage_requirement == "Attempted"
        for namespace in operation.namespaces or list(self._expected):
            if namespace not in self._expected:
                raise ValueError(f"unknown namespace {namespace}")
            count = self._expected[namespace]
            await self._wait(namespace, operation.label_selector, count, attempted)
        if not attempted:
            for namespace in operation.namespaces or list(self._expected):
                self._expected[namespace] = 0

    async def _wait(self, namespace: str, selector: dict[str, str], count: int, attempted: bool) -> None:
        """Wait until as many pods of a namespace are scheduled, or were tried."""
        try:
            async with asyncio.timeout(WAIT):
                while self._missing(namespace, selector, count, attempted):
                    self._changed.clear()
                    await self._changed.wait()
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            raise WorkloadError(self._why(namespace, selector, count, attempted)) from None

    def _missing(self, namespace: str, selector: dict[str, str], count: int, attempted: bool) -> bool:
        pods = self._bench.pods.in_namespace(namespace)
        if len(pods) < count:
            return True
        return sum(matches(pod, selector) and _is_done(pod, attempted) for pod in pods) < count

    def _why(self, namespace: str, selector: dict[str, str], count: int, attempted: bool) -> str:
        waiting = [
            pod
            for pod in self._bench.pods.in_namespace(namespace)
            if matches(pod, selector) and not _is_done(pod, attempted)
        ]
        word = "attempted" if attempted else "scheduled"
        text = f"{len(waiting)} of {count} pods of namespace {namespace} not {word} after {WAIT:.0f} s"
        if waiting:
            text += f", such as {waiting[0].name}: {_reason(waiting[0])}"
        return text

    # ---- measuring

    def _start_collecting(self, name: str, namespaces: Iterable[str], selector: dict[str, str]) -> None:
        if self._collector is not None:
            raise WorkloadError("metrics collection overlaps with another")
        self._collector = Collector(
            f"{self._run.name}/{name}",
            namespaces,
            selector,
            self._run.metrics,
            self._bench.metrics,
            asyncio.get_running_loop().time,
        )

    async def _stop_collecting(self) -> None:
        if self._collector is None:
            raise WorkloadError("startCollectingMetrics is missing before")
        collector, self._collector = self._collector, None
        items = await collector.stop()
        if not self._bench.virtual:
            self.problems += check_threshold(items, self._run.threshold, self._run.selector)
        self.items += items
        self.progress += collector.progress

    # ---- devices

    async def _create_driver(self, operation: CreateResourceDriver) -> None:
        nodes = [node for node in await self._list(NODES) if fnmatchcase(node.name, operation.nodes)]

        async def make(i: int) -> None:
            body = device_slice(operation.driver_name, nodes[i].name, operation.max_claims_per_node)
            await self._create(RESOURCE_SLICES, body)

        await _parallel(len(nodes), make)

    async def _create_claims(self, operation: CreateResourceClaims) -> None:
        await self._namespace(operation.namespace)
        template = self._template(operation.template_path, render=False)

        async def make(i: int) -> None:
            await self._create(RESOURCE_CLAIMS, template.object(), operation.namespace)

        await _parallel(operation.count, make)

    async def _allocate(self, operation: AllocResourceClaims) -> None:
        everywhere = await self._list(RESOURCE_CLAIMS)
        mine = [
            claim
            for claim in everywhere
            if claim.status.allocation is None and operation.namespace in ("", claim.namespace)
        ]
        others = [claim for claim in everywhere if claim.status.allocation is not None]
        allocated = allocate_claims(
            await self._list(NODES),
            await self._list(RESOURCE_SLICES),
            await self._list(DEVICE_CLASSES),
            mine,
            others,
            self._bench.random,
        )

        async def write(i: int) -> None:
            claim = allocated[i]
            status = {"status": {"allocation": msgspec.to_builtins(claim.status.allocation)}}
            await self._api.patch(RESOURCE_CLAIMS, claim.name, status, claim.namespace, subresource="status")

        await _parallel(len(allocated), write)


def _name_node(node: dict[str, Any], source: random.Random) -> None:
    """Name a node, unless its template does, and label it with the name."""
    metadata = node["metadata"]
    prefix = metadata.get("generateName")
    if prefix:
        metadata["name"] = prefix + random_suffix(source)
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/hostname": metadata["name"]}


def _csi_node(name: str, strategy: Any) -> dict[str, Any]:
    annotation = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(strategy.migrated_plugins)}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "annotations": annotation},
        "spec": {
            "drivers": [
                {"name": driver, "nodeID": name, "allocatable": amount}
                for driver, amount in strategy.csi_node_allocatable.items()
            ]
        },
    }


def _is_done(pod: Pod, attempted: bool) -> bool:
    if pod.spec.node_name:
        return True
    return attempted and any(each.type == "PodScheduled" for each in pod.status.conditions)


def _reason(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled":
            return condition.message or condition.reason or "no reason given"
    return "no attempt yet"


async def _parallel(count: int, work: Callable[[int], Awaitable[None]]) -> None:
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
