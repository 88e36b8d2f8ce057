"""The page of `mooring up`: its source, and the controls of the sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from mooring.api.kinds import DEPLOYMENTS, NODES, REPLICA_SETS, STATEFUL_SETS, ApiResource
from mooring.client.api_errors import ApiError
from mooring.config import LoadedConfig
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog
from mooring.runtime.registry import Registry
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.cluster.applying import ManifestError, read_trees
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet.machines import FAILED, ZONES, named_node
from mooring.serving.messages import Answer, as_json, failure
from mooring.web.service import Action

SCALABLE: dict[str, ApiResource[Any]] = {
    each.plural: each for each in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)
}
MOST_ADDED = 1000  # nodes at a time
MOST_REPLICAS = 100_000
MOST_WORKLOADS = 200


class SandboxSource:
    """A sandbox cluster, with the scheduler that it has at the moment."""

    mode = "sandbox"

    def __init__(self, cluster: LocalCluster, config: LoadedConfig, registry: Registry) -> None:
        self._cluster = cluster
        self.config = config
        self.registry = registry

    @property
    def core(self) -> Scheduler | None:
        scheduler = self._cluster.scheduler
        return None if scheduler is None else scheduler.core

    @property
    def decisions(self) -> DecisionLog | None:
        scheduler = self._cluster.scheduler
        return None if scheduler is None else scheduler.decisions

    def status(self) -> str:
        return ""

    async def ask(self, question: Callable[[], Any]) -> Any:
        scheduler = self._cluster.scheduler
        return question() if scheduler is None else await scheduler.driver.ask(question)


class NodeTarget(msgspec.Struct, forbid_unknown_fields=True):
    node: str


class Addition(msgspec.Struct, forbid_unknown_fields=True):
    count: int = 1


class Scaling(msgspec.Struct, forbid_unknown_fields=True):
    resource: str
    namespace: str
    name: str
    replicas: int


class Submission(msgspec.Struct, forbid_unknown_fields=True):
    manifest: str = ""
    example: str = ""


class TimeSpeed(msgspec.Struct, forbid_unknown_fields=True):
    speed: float


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    pass


class SandboxControls:
    """What the page may do to a sandbox cluster. Each action answers with one line of text."""

    def __init__(self, cluster: LocalCluster, examples: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._api = EmbeddedCluster(cluster.server.api, user_agent="mooring-web")
        self._examples = examples

    def actions(self) -> dict[str, Action]:
        handlers: dict[str, tuple[type[Any], Callable[[Any], Awaitable[str]]]] = {
            "fail": (NodeTarget, self._fail),
            "recover": (NodeTarget, self._recover),
            "cordon": (NodeTarget, self._cordon),
            "uncordon": (NodeTarget, self._uncordon),
            "remove": (NodeTarget, self._remove),
            "add": (Addition, self._add),
            "scale": (Scaling, self._scale),
            "submit": (Submission, self._submit),
            "pause": (Nothing, self._pause),
            "resume": (Nothing, self._resume),
            "step": (Nothing, self._step),
            "speed": (TimeSpeed, self._speed),
        }
        return {f"sandbox/{name}": _action(*handler) for name, handler in handlers.items()}

    def state(self) -> dict[str, Any]:
        """Return what the page shows on every view."""
        scheduler = self._cluster.scheduler
        return {
            "paused": scheduler is not None and scheduler.driver.paused,
            "speed": self._cluster.speed,
        }

    def overview(self) -> dict[str, Any]:
        """Return the workloads that can be scaled, and the examples."""
        workloads: list[dict[str, Any]] = []
        for plural, resource in SCALABLE.items():
            for obj in self._cluster.cache.find(resource.name) or ():
                if resource is REPLICA_SETS and obj.metadata.controller() is not None:
                    continue
                workloads.append(
                    {
                        "resource": plural,
                        "namespace": obj.namespace,
                        "name": obj.name,
                        "replicas": obj.spec.replicas,
                    }
                )
        workloads.sort(key=lambda each: (each["namespace"], each["name"]))
        return {"workloads": workloads[:MOST_WORKLOADS], "examples": self._examples, **self.state()}

    async def _fail(self, target: NodeTarget) -> str:
        await self._annotate(target.node, "true")
        return f"node/{target.node} failed; it becomes NotReady when its lease expires"

    async def _recover(self, target: NodeTarget) -> str:
        await self._annotate(target.node, None)
        return f"node/{target.node} recovered"

    async def _annotate(self, node: str, value: str | None) -> None:
        await self._api.patch(NODES, node, {"metadata": {"annotations": {FAILED: value}}})

    async def _cordon(self, target: NodeTarget) -> str:
        await self._api.patch(NODES, target.node, {"spec": {"unschedulable": True}})
        return f"node/{target.node} cordoned"

    async def _uncordon(self, target: NodeTarget) -> str:
        await self._api.patch(NODES, target.node, {"spec": {"unschedulable": None}})
        return f"node/{target.node} uncordoned"

    async def _remove(self, target: NodeTarget) -> str:
        await self._api.delete(NODES, target.node)
        return f"node/{target.node} deleted"

    async def _add(self, addition: Addition) -> str:
        if not 0 < addition.count <= MOST_ADDED:
            raise ValueError(f"count: expected a number from 1 to {MOST_ADDED}")
        taken = {node.name for node in self._cluster.cache.follow(NODES)}
        free = (name for at in range(1, len(taken) + MOST_ADDED + 2) if (name := f"added-{at}") not in taken)
        names = [next(free) for _ in range(addition.count)]
        trees = [named_node(name, zone=ZONES[at % len(ZONES)]) for at, name in enumerate(names)]
        await self._cluster.nodes.register(trees)
        return f"{', '.join(names[:3])}{', …' if len(names) > 3 else ''} added"

    async def _scale(self, scaling: Scaling) -> str:
        resource = SCALABLE.get(scaling.resource)
        if resource is None:
            raise ValueError(f"resource: expected one of {', '.join(SCALABLE)}")
        if not 0 <= scaling.replicas <= MOST_REPLICAS:
            raise ValueError(f"replicas: expected a number from 0 to {MOST_REPLICAS}")
        patch = {"spec": {"replicas": scaling.replicas}}
        await self._api.patch(resource, scaling.name, patch, scaling.namespace)
        return f"{scaling.resource}/{scaling.name} scaled to {scaling.replicas}"

    async def _submit(self, submission: Submission) -> str:
        text = self._examples.get(submission.example, "") if submission.example else submission.manifest
        if not text.strip():
            raise ValueError("manifest: empty")
        trees = list(read_trees(text, submission.example or "manifest"))
        lines = await self._cluster.applier.apply_all(trees, submission.example or "manifest")
        return "\n".join(lines)

    async def _pause(self, nothing: Nothing) -> str:
        if self._cluster.scheduler is not None:
            self._cluster.scheduler.driver.pause()
        return "the scheduler is paused"

    async def _resume(self, nothing: Nothing) -> str:
        if self._cluster.scheduler is not None:
            self._cluster.scheduler.driver.resume()
        return "the scheduler goes on"

    async def _step(self, nothing: Nothing) -> str:
        if self._cluster.scheduler is not None:
            self._cluster.scheduler.driver.step()
        return "one attempt"

    async def _speed(self, time: TimeSpeed) -> str:
        self._cluster.set_speed(time.speed)
        return f"time runs {time.speed:g} times as fast"


def _action(model: type[Any], run: Callable[[Any], Awaitable[str]]) -> Action:
    async def answer(body: Any) -> Answer:
        try:
            return as_json({"message": await run(msgspec.convert(body, model))})
        except (msgspec.ValidationError, ManifestError, ValueError) as invalid:
            return failure(400, "BadRequest", str(invalid))
        except ApiError as rejection:
            return failure(rejection.code, rejection.reason, rejection.message)

    return answer
