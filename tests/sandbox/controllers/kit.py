"""A cluster for tests of controllers: the embedded API without HTTP, some controllers, and somebody who does
what schedulers and kubelets do, in virtual time.

    async def scene(stage: Stage) -> None:
        await stage.create(deployment("web", replicas=3))
        await stage.run_pods()
        assert (await stage.get("deployments", "web"))["status"]["readyReplicas"] == 3

    play(scene, DeploymentController, ReplicaSetController)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from mooring.api import kinds
from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.api.times import format_time
from mooring.client.api_errors import ApiError
from mooring.client.cache import Cache
from mooring.client.controller import Context, Controller
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.port import Cluster, PatchType
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.sandbox.apiserver.server import EmbeddedServer

T = TypeVar("T")
Tree = dict[str, Any]


class Whole(KubeObject):
    """An object of any kind with nearly all that is in it."""

    spec: Tree = {}
    status: Tree = {}
    data: Any = None
    rules: Any = None
    revision: int = 0
    reason: str = ""
    note: str = ""
    regarding: Tree = {}


class WholeEvent(KubeObject):
    """An Event as core/v1 serves it."""

    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    involved_object: Tree = {}
    source: Tree = {}
    reporting_component: str = ""


_GROUPS = {
    "apps": "deployments replicasets statefulsets daemonsets controllerrevisions",
    "batch": "jobs cronjobs",
    "policy": "poddisruptionbudgets",
    "storage.k8s.io": "storageclasses csinodes csidrivers",
    "coordination.k8s.io": "leases",
    "scheduling.k8s.io": "priorityclasses",
    "rbac.authorization.k8s.io": "clusterroles",
    "resource.k8s.io": "resourceclaims resourceclaimtemplates resourceslices deviceclasses",
}
_CLUSTER_WIDE = {"nodes", "namespaces", "persistentvolumes", "storageclasses", "csinodes", "csidrivers",
                 "priorityclasses", "clusterroles", "resourceslices", "deviceclasses"}  # fmt: skip


def resource(plural: str) -> ApiResource[Whole]:
    """A kind by its plural, read whole."""
    group = next((group for group, plurals in _GROUPS.items() if plural in plurals.split()), "")
    return ApiResource(group, "v1", plural, plural not in _CLUSTER_WIDE, Whole)


CORE_EVENTS = ApiResource("", "v1", "events", True, WholeEvent)
PODS = resource("pods")


class Stage:
    """A cluster to play on: what people do to it, what kubelets do, and what is to be seen.

    `rest` and `advance` are all that tells virtual time from real.
    """

    def __init__(self, cluster: Cluster, now: Callable[[], float]) -> None:
        self.cluster = cluster
        self.now = now
        self.namespace = "default"
        self._turn = 0

    async def rest(self) -> None:
        """Wait until nothing goes on any more."""
        raise NotImplementedError

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that happens meanwhile."""
        await asyncio.sleep(seconds)

    # ---- what people do

    async def create(self, manifest: Tree, namespace: str | None = None) -> Tree:
        """Create what a manifest says; it names its kind."""
        kind = resource(plural_of(manifest["kind"]))
        where = self.namespace if namespace is None else namespace
        written = await self.cluster.create(kind, manifest, where if kind.namespaced else "")
        return tree_of(written)

    async def enter(self, namespace: str) -> None:
        """Go on in a new namespace."""
        self.namespace = namespace
        await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    async def get(self, plural: str, name: str) -> Tree:
        found = await self.cluster.get(resource(plural), name, self.namespace)
        return tree_of(found)

    async def all(self, plural: str, selector: str = "") -> list[Tree]:
        kind = resource(plural)
        where = self.namespace if kind.namespaced else ""
        page = await self.cluster.list(kind, namespace=where, label_selector=selector)
        return [tree_of(item) for item in page.items]

    async def patch(self, plural: str, name: str, patch: Tree, subresource: str = "") -> Tree:
        """A strategic merge patch."""
        how = PatchType.STRATEGIC
        written = await self.cluster.patch(
            resource(plural), name, patch, self.namespace, subresource=subresource, kind=how
        )
        return tree_of(written)

    async def scale(self, plural: str, name: str, replicas: int) -> None:
        await self.patch(plural, name, {"spec": {"replicas": replicas}})

    async def delete(self, plural: str, name: str, grace: int | None = None) -> None:
        await self.cluster.delete(resource(plural), name, self.namespace, grace_period_seconds=grace)

    async def events(self) -> list[WholeEvent]:
        """All events of the namespace, in the order they were written."""
        page = await self.cluster.list(CORE_EVENTS, namespace=self.namespace)
        return sorted(page.items, key=lambda event: int(event.metadata.resource_version))

    # ---- what schedulers and kubelets do

    async def run_pods(self, *nodes: str, ready: Callable[[Tree], bool] = lambda pod: True) -> None:
        """One turn of kubelets for everything that is there now, and then rest: pods are bound, run and get
        ready, and those that are deleted go."""
        for pod in sorted(await self.all("pods"), key=_creation):
            name = pod["metadata"]["name"]
            if pod["metadata"].get("deletionTimestamp"):
                await self._gone(name)
            elif not pod["spec"].get("nodeName"):
                await self.bind(name, (nodes or ("n0", "n1", "n2"))[self._turn % len(nodes or "123")])
                self._turn += 1
                await self.set_ready(name, ready(pod))
            elif pod["status"].get("phase") == "Pending":
                await self.set_ready(name, ready(pod))
        await self.rest()

    async def step(self, ready: Callable[[Tree], bool] = lambda pod: True) -> bool:
        """The next thing that kubelets have to do, and then rest: so what follows does not depend on who is
        quicker. Returns whether there was any."""
        for pod in sorted(await self.all("pods"), key=_urgency):
            name, meta, phase = pod["metadata"]["name"], pod["metadata"], pod["status"].get("phase")
            if meta.get("deletionTimestamp"):
                await self._gone(name)
            elif phase == "Pending":
                if not pod["spec"].get("nodeName"):
                    await self.bind(name, f"n{self._turn % 3}")
                    self._turn += 1
                await self.set_ready(name, ready(pod))
            else:
                continue
            await self.rest()
            return True
        return False

    async def bind(self, name: str, node: str) -> None:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        await self.cluster.post(PODS, name, "binding", body, self.namespace)

    async def set_ready(self, name: str, ready: bool = True) -> None:
        """Have a pod run, ready or not."""
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": format_time(self.now()),
        }
        status = {"phase": "Running", "conditions": [condition]}
        await self.patch("pods", name, {"status": status}, "status")

    async def end_pod(self, name: str, phase: str = "Succeeded") -> None:
        """Have a pod end."""
        conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": format_time(self.now())}]
        await self.patch("pods", name, {"status": {"phase": phase, "conditions": conditions}}, "status")

    async def _gone(self, name: str) -> None:
        try:
            await self.delete("pods", name, grace=0)
        except ApiError as refusal:
            if not refusal.not_found:
                raise


def _creation(pod: Tree) -> tuple[str, str]:
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]


def _urgency(pod: Tree) -> tuple[bool, str, tuple[str, str]]:
    """By nothing that is random, as names are, as long as there is anything else."""
    image = pod["spec"]["containers"][0]["image"]
    return "deletionTimestamp" in pod["metadata"], image, _creation(pod)


def tree_of(obj: KubeObject) -> Tree:
    tree: Tree = msgspec.to_builtins(obj)
    return {"spec": {}, "status": {}, **tree}


def plural_of(kind: str) -> str:
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"


# ---- in virtual time --------------------------------------------------------------------------------


class Embedded(Stage):
    """A stage in virtual time: the embedded API and our controllers."""

    context: Context
    controllers: list[Controller]

    def __init__(self, server: EmbeddedServer, kinds: tuple[Callable[[Context], Controller], ...]) -> None:
        self.server = server
        self._loop = asyncio.get_running_loop()
        self._kinds = kinds
        self._tasks: list[asyncio.Task[None]] = []
        super().__init__(server.cluster, self._loop.time)

    async def start(self) -> None:
        """Start the controllers, which know nothing yet."""
        now = self._loop.time
        recorder = CountingRecorder(self.cluster, now=lambda: int(now() * 1e9))
        self.context = Context(self.cluster, Cache(self.cluster), recorder, now)
        self.controllers = [kind(self.context) for kind in self._kinds]
        runs = [self.context.cache.run(), recorder.run(), *(one.run() for one in self.controllers)]
        self._tasks = [asyncio.create_task(run) for run in runs]
        await self.context.cache.synced.wait()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def restart(self) -> None:
        """Others take the place of the controllers."""
        await self.stop()
        await self.start()

    async def rest(self) -> None:
        """Let everything happen that happens by itself within a second: on a virtual clock time passes only
        when nothing else is left to do, and what is created after a rest is younger by its timestamp."""
        await asyncio.sleep(1)


def play(
    scene: Callable[[Embedded], Awaitable[T]], *kinds: Callable[[Context], Controller], **options: Any
) -> T:
    """Run a scene to its end on an embedded cluster of its own, with some controllers."""

    async def all_of_it() -> T:
        server = EmbeddedServer(clock=asyncio.get_running_loop().time, seed=1, **options)
        server.open()
        stage = Embedded(server, kinds)
        try:
            await stage.start()
            return await scene(stage)
        finally:
            await stage.stop()
            await server.stop()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(all_of_it())


class Kubelets(Controller):
    """All kubelets and the scheduler: binds every pod, and has it run until it is deleted. Pods with the
    image "broken" never get ready."""

    name = "kubelets"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = self.cache.follow(kinds.PODS)
        self._pods.subscribe(lambda old, new: None if new is None else self.enqueue(new.key))

    async def sync(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None:
            return
        stage = Stage(self.cluster, self.context.clock)
        stage.namespace = pod.namespace
        if pod.terminating:
            await stage.delete("pods", pod.name, grace=0)
        elif not pod.spec.node_name:
            await stage.bind(pod.name, "n0")
            await stage.set_ready(pod.name, pod.spec.containers[0].image != "broken")


# ---- manifests --------------------------------------------------------------------------------------


def template(app: str, image: str = "app:1", **spec: Any) -> Tree:
    """A pod template with the label `app`."""
    containers = [{"name": "main", "image": image}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers, **spec}}


def workload(kind: str, name: str, **spec: Any) -> Tree:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec.setdefault("selector", {"matchLabels": {"app": name}})
    spec.setdefault("template", template(name))
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
