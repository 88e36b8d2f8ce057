"""SandboxCluster: API server, controllers, fake nodes and the scheduler in one process.

def test_web_spreads(mooring_cluster):
    mooring_cluster.apply("web.yaml")
    mooring_cluster.wait_scheduled()
    assert {pod.spec.node_name for pod in mooring_cluster.pods("app=web")} == {"node-1", "node-2", "node-3"}
    mooring_cluster.advance(3600)  # an hour of virtual time
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from mooring.api.kinds import PODS, ApiResource
from mooring.api.meta import KubeObject, Tree
from mooring.api.objects import Node, Pod
from mooring.api.selectors import matches
from mooring.client.controller import Context, Controller
from mooring.client.port import PatchType
from mooring.client.virtual_time import START, VirtualTimeLoop
from mooring.config import FeatureGates
from mooring.config.enabling import PluginArgs, config_with
from mooring.core.build import registry_with
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog, Recording
from mooring.framework.plugin import Plugin
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.cluster.applying import read_trees, tree_of
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet import make_nodes
from mooring.sandbox.kubelet.machines import FAILED
from mooring.testing.cluster import (
    STEP,
    Cluster,
    Event,
    Manifest,
    about,
    object_name,
    pod_key,
    read_manifest,
    split_name,
)
from mooring.testing.loop_thread import LoopThread
from mooring.testing.scheduler_cluster import Config, load_config, with_gates
from mooring.testing.selectors import label_selector

T = TypeVar("T")


class SandboxCluster(Cluster):
    """A whole cluster. Objects without a namespace are in `default`."""

    def __init__(
        self,
        nodes: int | Iterable[Node] = 3,
        *,
        plugins: Iterable[type[Plugin]] = (),
        args: Mapping[str, PluginArgs] | None = None,
        config: Config | None = None,
        feature_gates: Iterable[str] = (),
        seed: int = 0,
        start: float = START,
        live: bool = False,
    ) -> None:
        """Create so many nodes, or these. Plugins run in addition to the default ones, with `args` by plugin
        name, or where a `config` enables them. `feature_gates` are switched on in addition to those of the
        `config`; they are also those of the API server and the controllers. A `live` cluster runs on a thread
        of its own, by the time of day, and serves other clients by `kubeconfig`."""
        plugins = list(plugins)
        if config is not None and args is not None:
            raise TypeError(
                "SandboxCluster: config and args are mutually exclusive; set the config's pluginConfig"
            )
        setup = load_config(config_with(plugins, args) if config is None else config)
        setup = with_gates(setup, feature_gates)
        trees = make_nodes(nodes) if isinstance(nodes, int) else [tree_of(node) for node in nodes]
        self.decisions = []
        self._loop = LoopThread() if live else VirtualTimeLoop(start)
        self._cluster = LocalCluster(
            serve=live,
            heartbeats=live,
            clock=self._loop.time,
            seed=seed,
            features=FeatureGates(setup.config.feature_gates).enabled(),
            coscheduling=setup.config.enables("Coscheduling"),
        )
        self._run(self._begin(trees))
        self._run(
            self._cluster.schedule(
                setup,
                registry_with(plugins),
                recording=Recording.FULL,
                on_decision=self.decisions.append,
            )
        )

    async def _begin(self, nodes: list[Tree]) -> None:
        await self._cluster.start()
        await self._cluster.nodes.register(nodes)

    def close(self) -> None:
        self._run(self._cluster.stop())
        self._loop.close()

    @property
    def kubeconfig(self) -> str:
        """The path of a kubeconfig with an administrator's token; removed by `close`. Only of a live
        cluster."""
        if not isinstance(self._loop, LoopThread):
            raise RuntimeError(
                "SandboxCluster: kubeconfig: a cluster in virtual time has no address\n"
                "hint: @pytest.mark.mooring_cluster(live=True)"
            )
        return str(self._cluster.server.kubeconfig)

    def begin(self, make: Callable[[Context], Controller]) -> None:
        """Run a controller of your own in addition to the others."""

        async def begin() -> None:
            self._cluster.begin(make(self._cluster.context))

        self._run(begin())

    # ---- objects

    def apply(self, *manifests: Manifest) -> list[str]:
        outcomes = []
        for manifest in manifests:
            if isinstance(manifest, KubeObject):
                trees, source = [tree_of(manifest)], manifest.key
            elif isinstance(manifest, Mapping):
                trees, source = [dict(manifest)], "manifest"
            else:
                text, source = read_manifest(manifest)
                trees = list(read_trees(text, source))
            outcomes += self._run(self._cluster.applier.apply_all(trees, source))
        return outcomes

    def delete(self, *objects: str | KubeObject, namespace: str = "default") -> None:
        for each in objects:
            if isinstance(each, KubeObject):
                resource, name, where = self.resource(type(each).__name__), each.name, each.namespace
            else:
                resource, name = self._named(each)
                where = _in(resource, namespace)
            self._run(self._cluster.server.cluster.delete(_api_resource(resource), name, where))

    def patch(self, what: str, patch: Mapping[str, Any], namespace: str = "default") -> None:
        """Change "kind/name" by a strategic merge patch, as `kubectl patch` does; None removes a field."""
        resource, name = self._named(what)
        kind = PatchType.MERGE if resource.custom else PatchType.STRATEGIC
        where = _in(resource, namespace)
        self._run(self._cluster.server.cluster.patch(_api_resource(resource), name, patch, where, kind=kind))

    def scale(self, what: str, replicas: int, namespace: str = "default") -> None:
        """Set the number of replicas of "deployment/web"."""
        self.patch(what, {"spec": {"replicas": replicas}}, namespace)

    def fail(self, node: str) -> None:
        """Stop a node's kubelet, as a loss of power would."""
        self.patch(f"node/{node}", {"metadata": {"annotations": {FAILED: "true"}}})

    def recover(self, node: str) -> None:
        """Start the kubelet of a failed node again."""
        self.patch(f"node/{node}", {"metadata": {"annotations": {FAILED: None}}})

    # ---- time

    def now(self) -> float:
        return self._loop.time()

    def advance(self, seconds: float) -> list[Decision]:
        first = len(self.decisions)
        self._run(asyncio.sleep(seconds))
        return self.decisions[first:]

    def schedule(self) -> list[Decision]:
        return self.advance(STEP)

    def get(self, what: str, namespace: str = "default") -> dict[str, Any]:
        resource, name = self._named(what)
        api, where = self._cluster.server.api, _in(resource, namespace)
        tree = self._read(lambda: api.read(resource.storage, name, where))
        if tree is None:
            raise LookupError(f"{what} does not exist")
        return tree

    def list(self, kind: str, namespace: str = "default") -> Sequence[dict[str, Any]]:
        """Return the objects of a kind, of one namespace if the kind is namespaced."""
        resource = self.resource(kind)
        api, where = self._cluster.server.api, _in(resource, namespace)
        return self._read(lambda: [*api.read_all(resource.storage, where)])

    def pods(self, selector: str = "", namespace: str = "") -> Sequence[Pod]:
        chosen, cache = label_selector(selector), self._cluster.cache.follow(PODS)
        pods = self._read(lambda: [*(cache.in_namespace(namespace) if namespace else cache)])
        return sorted((p for p in pods if matches(chosen, p.metadata.labels)), key=lambda pod: pod.key)

    def pod(self, pod: Pod | str) -> Pod:
        cached = self._cluster.cache.follow(PODS).get(pod_key(pod))
        if cached is None:
            raise LookupError(f"pod {pod_key(pod)} does not exist")
        return cached

    @property
    def scheduler(self) -> Scheduler:
        assert self._cluster.scheduler is not None
        return self._cluster.scheduler.core

    def _decision_log(self) -> DecisionLog | None:
        assert self._cluster.scheduler is not None
        return self._cluster.scheduler.decisions

    def events(self, what: str = "", namespace: str = "default") -> Sequence[Event]:
        api = self._cluster.server.api
        trees = self._read(lambda: [*api.read_all("events", namespace)])
        by_time = sorted(trees, key=lambda tree: tree["metadata"].get("creationTimestamp", ""))
        if what:
            resource, name = self._named(what)
            what = f"{resource.kind}/{name}"
        return about([_event(tree) for tree in by_time], what, namespace)

    def explain(self, pod: Pod | str) -> str:
        explain = super().explain
        return self._read(lambda: explain(pod))

    def explain_group(self, group: str) -> str:
        explain_group = super().explain_group
        return self._read(lambda: explain_group(group))

    def _read(self, read: Callable[[], T]) -> T:
        """Read the cluster's objects, which change on the thread of a live cluster."""
        return self._loop.call(read) if isinstance(self._loop, LoopThread) else read()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def _named(self, what: str) -> tuple[Resource, str]:
        kind, name = split_name(what)
        return self.resource(kind), name

    def resource(self, kind: str) -> Resource:
        """Return a kind by a name that kubectl accepts: "deployments", "deploy", "deployment.apps". Raises
        LookupError."""
        name, _, group = kind.lower().partition(".")
        registry = self._cluster.server.api.registry
        resources: Sequence[Resource] = self._read(lambda: [*registry])
        for resource in resources:
            names = (resource.plural, resource.singular, *resource.short_names)
            if name in names and group in ("", resource.group):
                return resource
        raise LookupError(f'kind "{kind}" does not exist')


def _event(tree: dict[str, Any]) -> Event:
    """Return an event of either API, v1 or events.k8s.io/v1."""
    regarding = tree.get("involvedObject") or tree.get("regarding") or {}
    return Event(
        object_name(regarding.get("kind", ""), regarding.get("name", ""), regarding.get("namespace", "")),
        tree.get("type", ""),
        tree.get("reason", ""),
        tree.get("action", ""),
        tree.get("message") or tree.get("note") or "",
    )


def _api_resource(resource: Resource) -> ApiResource[KubeObject]:
    return ApiResource(resource.group, resource.version, resource.plural, resource.namespaced, KubeObject)


def _in(resource: Resource, namespace: str) -> str:
    return namespace if resource.namespaced else ""
