"""WholeCluster: API server, controllers, fake nodes and the scheduler, for a test, in virtual time.

    def test_web_spreads(cluster):
        cluster.apply("web.yaml")
        cluster.wait_scheduled()
        assert {pod.spec.node_name for pod in cluster.pods("app=web")} == {"node-1", "node-2", "node-3"}
        cluster.advance(3600)  # an hour, in milliseconds

`make_cluster` has only the scheduler and the objects it is given, and is quicker still; here Deployments
become pods, pods run and end, nodes fail, and claims are bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mooring.api.kinds import PODS, ApiResource
from mooring.api.meta import KubeObject, Tree
from mooring.api.objects import Node, Pod
from mooring.api.selectors import matches
from mooring.client.controller import Context, Controller
from mooring.client.port import PatchType
from mooring.client.virtual_time import START, VirtualTimeLoop
from mooring.core.build import registry_with
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain.explain import decisions as explained
from mooring.explain.log import Recording
from mooring.explain.report import report
from mooring.framework.plugin import Plugin
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.cluster.applying import read_trees, tree_of
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet import make_nodes
from mooring.sandbox.kubelet.machines import FAILED
from mooring.testing.cluster import Config, loaded
from mooring.testing.configuration import PluginArgs, config_with
from mooring.testing.selectors import label_selector

T = TypeVar("T")
Manifest = str | Path | Mapping[str, Any] | KubeObject

STEP = 0.05  # seconds between two looks at what is waited for, in virtual time


class WholeCluster:
    """Time stands still between the calls. Objects are named as for kubectl ("deployment/web", and
    "namespace/name" or "name" for pods); those without a namespace are in `default`."""

    def __init__(
        self,
        nodes: int | Iterable[Node] = 3,
        *,
        plugins: Iterable[type[Plugin]] = (),
        args: Mapping[str, PluginArgs] | None = None,
        config: Config | None = None,
        seed: int = 0,
        start: float = START,
    ) -> None:
        """Nodes by number, or as `make_node` makes them. Plugins run in addition to the default ones, with
        `args` by plugin name, or where a `config` enables them."""
        plugins = list(plugins)
        if config is not None and args is not None:
            raise TypeError("WholeCluster: give args in the config's pluginConfig, not beside it")
        setup = loaded(config_with(plugins, args) if config is None else config)
        wanted = make_nodes(nodes) if isinstance(nodes, int) else [tree_of(node) for node in nodes]
        self.decisions: list[Decision] = []  # every attempt so far, in order
        self._loop = VirtualTimeLoop(start)
        self._cluster = LocalCluster(serve=False, heartbeats=False, clock=self._loop.time, seed=seed)
        self._run(self._begin(wanted))
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
        """End everything; the fixture does, and so does `with`."""
        self._run(self._cluster.stop())
        self._loop.close()

    def begin(self, make: Callable[[Context], Controller]) -> None:
        """Run a controller of your own."""

        async def begun() -> None:
            self._cluster.begin(make(self._cluster.context))

        self._run(begun())

    def __enter__(self) -> WholeCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- what goes in

    def apply(self, *manifests: Manifest) -> list[str]:
        """Create objects, or change them, as `kubectl apply` does: YAML text, files of it, or objects. What
        became of each: "pods/web created"."""
        outcomes = []
        for manifest in manifests:
            if isinstance(manifest, KubeObject):
                trees, source = [tree_of(manifest)], manifest.key
            elif isinstance(manifest, Mapping):
                trees, source = [dict(manifest)], "a manifest"
            else:
                text, source = _text(manifest)
                trees = list(read_trees(text, source))
            outcomes += self._run(self._cluster.applier.apply_all(trees, source))
        return outcomes

    def delete(self, what: str, namespace: str = "default") -> None:
        """Delete "kind/name"."""
        resource, name = self._named(what)
        self._run(
            self._cluster.server.cluster.delete(_api_resource(resource), name, _in(resource, namespace))
        )

    def patch(self, what: str, patch: Mapping[str, Any], namespace: str = "default") -> None:
        """Change "kind/name" by a strategic merge patch, as `kubectl patch` does; None removes a field."""
        resource, name = self._named(what)
        kind = PatchType.MERGE if resource.custom else PatchType.STRATEGIC
        where = _in(resource, namespace)
        self._run(self._cluster.server.cluster.patch(_api_resource(resource), name, patch, where, kind=kind))

    def scale(self, what: str, replicas: int, namespace: str = "default") -> None:
        """Have so many replicas of "deployment/web"."""
        self.patch(what, {"spec": {"replicas": replicas}}, namespace)

    def fail(self, node: str) -> None:
        """Let a node fall silent, as if it had lost power."""
        self.patch(f"node/{node}", {"metadata": {"annotations": {FAILED: "true"}}})

    def recover(self, node: str) -> None:
        """Let a node that failed come back."""
        self.patch(f"node/{node}", {"metadata": {"annotations": {FAILED: None}}})

    # ---- time

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._loop.time()

    def advance(self, seconds: float) -> None:
        """Let time pass, with all that falls due in it."""
        self._run(asyncio.sleep(seconds))

    def wait(self, condition: Callable[[], object], timeout: float = 60.0, what: str = "it") -> None:
        """Let time pass until the condition holds; AssertionError after so many seconds."""
        deadline = self.now() + timeout
        while not condition():
            if self.now() >= deadline:
                raise AssertionError(f"waited {timeout:g} s for {what} in vain")
            self.advance(STEP)

    def wait_scheduled(self, *pods: str, timeout: float = 60.0) -> None:
        """Until these pods, or all that there are, have nodes. Where some stay pending, the AssertionError
        says why."""
        self.advance(STEP)
        deadline = self.now() + timeout
        while waiting := self._pending(pods):
            if self.now() >= deadline:
                reasons = "\n".join(f"{key}:\n{self.explain(key)}" for key in waiting[:3])
                raise AssertionError(f"{len(waiting)} pods are pending after {timeout:g} s\n{reasons}")
            self.advance(STEP)

    def _pending(self, pods: Iterable[str]) -> Sequence[str]:
        if not pods:
            return [pod.key for pod in self.pods() if not pod.spec.node_name and not pod.finished]
        found = {pod.key: pod for pod in self.pods()}
        keys = map(_key, pods)
        return [key for key in keys if key not in found or not found[key].spec.node_name]

    # ---- what came of it

    def get(self, what: str, namespace: str = "default") -> dict[str, Any]:
        """An object, "kind/name", as `kubectl get -o json` shows it. Raises LookupError."""
        resource, name = self._named(what)
        tree = self._cluster.server.api.read(resource.storage, name, _in(resource, namespace))
        if tree is None:
            raise LookupError(f"there is no {what}")
        return tree

    def list(self, kind: str, namespace: str = "default") -> Sequence[dict[str, Any]]:
        """The objects of a kind, in a namespace where they have one."""
        resource = self.resource(kind)
        return [*self._cluster.server.api.read_all(resource.storage, _in(resource, namespace))]

    def pods(self, selector: str = "", namespace: str = "") -> Sequence[Pod]:
        """The pods as they are now: those of a label selector ("app=web"), of a namespace, or all."""
        wanted = label_selector(selector)
        found = self._cluster.cache.follow(PODS)
        pods = found.in_namespace(namespace) if namespace else [*found]
        return sorted((p for p in pods if matches(wanted, p.metadata.labels)), key=lambda pod: pod.key)

    def pod(self, name: str) -> Pod:
        found = self._cluster.cache.follow(PODS).get(_key(name))
        if found is None:
            raise LookupError(f"there is no pod {_key(name)}")
        return found

    def node_of(self, pod: str) -> str:
        """The node that a pod is bound to; "" while it is pending."""
        return self.pod(pod).spec.node_name

    def attempts(self, pod: str) -> Sequence[Decision]:
        """The decisions about a pod, in order."""
        return [decision for decision in self.decisions if decision.pod == _key(pod)]

    def decision(self, pod: str) -> Decision:
        """Return the full record of the last decision about a pod. Raises LookupError if there is none."""
        found = self.attempts(pod)
        if not found:
            raise LookupError(f"no attempt was made at pod {_key(pod)}")
        return found[-1]

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler itself: its profiles and plugins, its queue, its client."""
        assert self._cluster.scheduler is not None
        return self._cluster.scheduler.core

    def explain(self, pod: str) -> str:
        """What `mooring explain` says."""
        assert self._cluster.scheduler is not None
        told = explained(self.scheduler, self._cluster.scheduler.decisions, *_key(pod).split("/"))
        return f"there is no pod {_key(pod)}" if told is None else "\n".join(report(told))

    def events(self, what: str = "", namespace: str = "default") -> Sequence[dict[str, Any]]:
        """Events, or those about "kind/name", oldest first."""
        found = self._cluster.server.api.read_all("events", namespace)
        if what:
            resource, name = self._named(what)
            found = (e for e in found if _regards(e) == (resource.kind, name))
        return sorted(found, key=lambda event: event["metadata"].get("creationTimestamp", ""))

    # ---- inside

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def _named(self, what: str) -> tuple[Resource, str]:
        kind, slash, name = what.partition("/")
        if not slash or not name:
            raise ValueError(f'"{what}": expected kind/name, e.g. deployment/web')
        return self.resource(kind), name

    def resource(self, kind: str) -> Resource:
        """A kind as kubectl knows it: "deployments", "deploy", "deployment.apps". Raises LookupError."""
        wanted, _, group = kind.lower().partition(".")
        for resource in self._cluster.server.api.registry:
            names = (resource.plural, resource.singular, *resource.short_names)
            if wanted in names and group in ("", resource.group):
                return resource
        raise LookupError(f'there is no kind "{kind}"')


def _text(manifest: str | Path) -> tuple[str, str]:
    """YAML, and where it is from: a text of several lines is the YAML itself."""
    if isinstance(manifest, str) and ("\n" in manifest or ":" in manifest):
        return manifest, "a manifest"
    return Path(manifest).read_text(), str(manifest)


def _regards(event: dict[str, Any]) -> tuple[Any, Any]:
    regarding = event.get("involvedObject") or event.get("regarding") or {}
    return regarding.get("kind"), regarding.get("name")


def _api_resource(resource: Resource) -> ApiResource[KubeObject]:
    return ApiResource(resource.group, resource.version, resource.plural, resource.namespaced, KubeObject)


def _in(resource: Resource, namespace: str) -> str:
    return namespace if resource.namespaced else ""


def _key(pod: str) -> str:
    return pod if "/" in pod else f"default/{pod}"
