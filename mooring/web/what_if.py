"""What if: schedule a copy of the cluster with other objects, nodes or settings, and compare with now.

The copy is made of the objects that the scheduler has, which are never changed in place. It is scheduled in
memory, in a thread, by a scheduler of its own, which is kept for the next question; extenders are not called.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.api.copies import copies_of
from mooring.api.decode import load_trees, read_trees
from mooring.api.errors import ObjectError
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod, Taint
from mooring.config import ConfigError, LoadedConfig, from_object, to_object
from mooring.core.memory import NeedsEventLoopError
from mooring.core.scheduler import Scheduler
from mooring.explain.outcomes import Attempts
from mooring.runtime.runners import PluginError
from mooring.sandbox.controllers.first_claims import with_first_claims
from mooring.sandbox.controllers.first_pods import FirstPods, is_workload, workload_of
from mooring.serving.messages import Answer, as_json, failure
from mooring.web.records import Moved, WhatIfResult
from mooring.web.service import Action
from mooring.web.source import Source
from mooring.web.twin import Twin

MOST_SECONDS = 30.0
KEPT_SECONDS = 60.0  # a copy costs as much memory as the scheduler's own state
BATCH = 200  # attempts between two looks at the clock
MOST_ADDED = 5000  # nodes, in all
MOST_BYTES = 128 << 20  # of the pods that workloads are made into
MOST_LISTED = 1000  # pods in the answer; those that change first
MANIFEST = "manifest"


class InvalidChangeError(ValueError):
    """A change that cannot be made; the message says which and why."""


class TaintChange(msgspec.Struct, forbid_unknown_fields=True):
    """A taint to add to a node, or to remove from it; as "key=value:Effect"."""

    node: str
    taint: str
    remove: bool = False


class NodeAddition(msgspec.Struct, forbid_unknown_fields=True):
    """More nodes like one that exists."""

    like: str
    count: int = 1


class Changes(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What is different from the cluster as it is."""

    manifest: str = ""
    weights: dict[str, int] = {}
    args: dict[str, dict[str, Any]] = {}
    taints: list[TaintChange] = []
    add_nodes: list[NodeAddition] = []
    remove_nodes: list[str] = []
    reschedule: bool = False  # place the pods that have a node again, too

    def count(self) -> int:
        nodes = len(self.taints) + len(self.add_nodes) + len(self.remove_nodes)
        settings = len(self.weights) + len(self.args)
        return nodes + settings + bool(self.manifest.strip()) + self.reschedule


class WhatIf:
    """Answers one question at a time. The copy of the cluster is kept for KEPT_SECONDS after the last one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._busy = asyncio.Lock()
        self._copying = asyncio.Lock()
        self._twin: Twin | None = None
        self._expiry: asyncio.TimerHandle | None = None

    def actions(self) -> dict[str, Action]:
        return {"what-if": self.answer, "what-if/prepare": self.prepare}

    async def prepare(self, body: Any) -> Answer:
        """Copy the cluster, so that the next question is answered sooner."""
        core = self._source.core
        if core is not None and not self._copying.locked():
            objects = await self._source.ask(lambda: list(objects_of(core)))
            async with self._kept_twin() as twin:
                await asyncio.to_thread(twin.load, objects, core.clock())
        return as_json({})

    async def answer(self, body: Any) -> Answer:
        core = self._source.core
        if core is None:
            return failure(503, "ServiceUnavailable", "no scheduler runs in this cluster")
        if self._busy.locked():
            return failure(429, "TooManyRequests", "another evaluation is running; retry when it is done")
        async with self._busy:
            try:
                changes = msgspec.convert(body, Changes)
                objects = await self._source.ask(lambda: list(objects_of(core)))
                trial = await asyncio.to_thread(Trial, self._source, objects, changes, core.clock())
                if trial.config is not self._source.config:
                    twin = await asyncio.to_thread(Twin, trial.config, self._source.registry)
                    return as_json(await asyncio.to_thread(trial.run, twin))
                async with self._kept_twin() as twin:
                    return as_json(await asyncio.to_thread(trial.run, twin))
            except (InvalidChangeError, msgspec.ValidationError) as invalid:
                return failure(400, "BadRequest", str(invalid))
            except (ConfigError, ObjectError, PluginError, NeedsEventLoopError) as invalid:
                return failure(422, "Invalid", str(invalid))

    @asynccontextmanager
    async def _kept_twin(self) -> AsyncIterator[Twin]:
        """The copy of the cluster; one that an error may have left half changed is not kept."""
        async with self._copying:
            if self._expiry is not None:
                self._expiry.cancel()
            twin, self._twin = self._twin, None
            source = self._source
            if twin is None or twin.config is not source.config or twin.registry is not source.registry:
                twin = await asyncio.to_thread(Twin, source.config, source.registry)
            yield twin
            self._twin = twin
            self._expiry = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget)

    def _forget(self) -> None:
        self._twin = None


def objects_of(core: Scheduler) -> Iterator[KubeObject]:
    """Yield everything that a scheduler has seen; assumed pods are on their nodes."""
    yield from core.store.all()
    for row in core.cluster.table.nodes:
        yield row.node
    for pod in core.intake.pods():
        placed = core.cluster.placed(pod.uid)
        on = pod.node_name if placed is None else placed.node_name
        yield pod.pod if pod.pod.spec.node_name == on else _with_node(pod.pod, on)


class Trial:
    """One evaluation."""

    def __init__(self, source: Source, objects: list[KubeObject], changes: Changes, now: float) -> None:
        self.config = changed_config(source.config, changes)
        self._objects = objects
        self._changes = changes
        self._now = now
        self._warnings: list[str] = []
        if source.config.config.extenders:
            self._warnings.append("extenders are not called")

    def run(self, cluster: Twin) -> WhatIfResult:
        began = time.perf_counter()
        before = {obj.uid: obj for obj in self._objects if isinstance(obj, Pod)}
        after = self._changed_objects()
        cluster.load(after, self._now)
        attempts = Attempts()
        while cluster.run(attempts.add, BATCH) == BATCH:
            if time.perf_counter() - began > MOST_SECONDS:
                self._warnings.append(f"stopped after {MOST_SECONDS:.0f} s; some pods were not tried")
                break
        pods = [obj for obj in after if isinstance(obj, Pod)]
        concerned: list[Pod] = []
        staying: list[Pod] = []
        for pod in pods:
            (staying if _stays(before, pod, cluster) else concerned).append(pod)
        why = {each.pod: each.why for each in attempts.outcomes(concerned, cluster.pods, {})}
        moved = [
            _moved(before.get(pod.uid), pod, cluster.pods.get(pod.uid), why.get(pod.key, ""))
            for pod in (*concerned, *staying[:MOST_LISTED])
        ]
        counts = Counter(each.result for each in moved[: len(concerned)])
        counts["same"] += len(staying)
        moved.sort(key=lambda each: (_ORDER.index(each.result), each.pod))
        if len(concerned) > MOST_LISTED:
            self._warnings.append(f"the first {MOST_LISTED} of {len(concerned)} pods are listed")
        return WhatIfResult(
            changes=self._changes.count(),
            seconds=round(time.perf_counter() - began, 3),
            nodes=len(cluster.scheduler.cluster.table),
            pods=moved[:MOST_LISTED],
            counts={result: count for result, count in counts.items() if count},
            warnings=self._warnings,
        )

    def _changed_objects(self) -> list[KubeObject]:
        """Return the objects of the changed cluster."""
        nodes = {obj.name: obj for obj in self._objects if isinstance(obj, Node)}
        others = [obj for obj in self._objects if not isinstance(obj, Node)]
        self._change_nodes(nodes)
        if self._changes.reschedule:
            others = [_freed(obj) for obj in others]
        others = [_still_there(obj, nodes) for obj in others]
        if not self._changes.manifest.strip():
            return [*nodes.values(), *others]
        uids = {obj.key: obj.uid for obj in others if isinstance(obj, Pod)}
        added = [_as_known(obj, uids) for obj in self._manifest_objects([*nodes.values(), *others])]
        replaced: dict[type[KubeObject], set[str]] = {}
        for obj in added:
            replaced.setdefault(type(obj), set()).add(obj.key)
        kept = [obj for obj in (*nodes.values(), *others) if obj.key not in replaced.get(type(obj), ())]
        return [*kept, *added]

    def _change_nodes(self, nodes: dict[str, Node]) -> None:
        for name in self._changes.remove_nodes:
            if nodes.pop(name, None) is None:
                raise InvalidChangeError(f'removeNodes: node "{name}" not found')
        for change in self._changes.taints:
            node = nodes.get(change.node)
            if node is None:
                raise InvalidChangeError(f'taints: node "{change.node}" not found')
            nodes[change.node] = _tainted(node, change)
        if sum(max(0, each.count) for each in self._changes.add_nodes) > MOST_ADDED:
            raise InvalidChangeError(f"addNodes: expected at most {MOST_ADDED} nodes in all")
        for addition in self._changes.add_nodes:
            model = nodes.get(addition.like)
            if model is None:
                raise InvalidChangeError(f'addNodes: node "{addition.like}" not found')
            if addition.count <= 0:
                raise InvalidChangeError(f"addNodes: count: expected a number from 1 to {MOST_ADDED}")
            for node in list(copies_of(model, addition.count, nodes)):
                nodes[node.name] = node

    def _manifest_objects(self, existing: Iterable[KubeObject]) -> list[KubeObject]:
        """Read the manifest; workloads become the pods that their controllers would create."""
        trees = list(read_trees([(self._changes.manifest, MANIFEST)]))
        workloads = [(tree, at) for tree, at in trees if isinstance(tree, dict) and is_workload(tree)]
        made: list[tuple[Any, str]] = []
        if workloads:
            first = FirstPods(existing)
            made = list(_pods_of(workloads, first))
        manifests = load_trees([*trees, *made])
        if manifests.problems:
            raise InvalidChangeError("\n".join(map(str, manifests.problems)))
        kinds = {tree["kind"] for tree, _ in workloads}
        self._warnings += [f"ignored: {each}" for each in manifests.ignored if each.kind not in kinds]
        objects = with_first_claims(manifests.objects)
        if not objects:
            raise InvalidChangeError(f"{MANIFEST}: no object that the scheduler reads")
        return objects


def _pods_of(workloads: Iterable[tuple[Any, str]], first: FirstPods) -> Iterator[tuple[Any, str]]:
    """Yield the pods of workloads, which may be thousands of any size."""
    size = 0
    for tree, at in workloads:
        own = len(msgspec.json.encode(tree))
        for body in first.of(workload_of(tree)):
            size += own
            if size > MOST_BYTES:
                raise InvalidChangeError(
                    f"{MANIFEST}: the pods of its workloads exceed {MOST_BYTES >> 20} MiB"
                )
            yield body, at


_ORDER = ("new", "scheduled", "pending", "evicted", "moved", "same")


def _stays(before: dict[str, Pod], pod: Pod, cluster: Twin) -> bool:
    """Return whether a pod has a node and was not looked at."""
    return bool(pod.spec.node_name) and before.get(pod.uid) is pod and cluster.pods.get(pod.uid) is pod


def _moved(before: Pod | None, given: Pod, after: Pod | None, why: str) -> Moved:
    now = "" if before is None else before.spec.node_name
    then = "" if after is None else after.spec.node_name
    if after is None:
        result = "evicted"
    elif before is None:
        result = "new"
    elif now == then:
        result = "same"
    elif not now:
        result = "scheduled"
    else:
        result = "moved" if then else "pending"
    return Moved(pod=given.key, now=now, then=then, why=why, result=result)


def changed_config(config: LoadedConfig, changes: Changes) -> LoadedConfig:
    """Return the configuration with other weights and arguments in all profiles. Raises ConfigError."""
    if not changes.weights and not changes.args:
        return config
    tree = to_object(config.config)
    for plugin, weight in changes.weights.items():
        entries = [
            entry
            for profile in tree["profiles"]
            for point in ("multiPoint", "score")
            for entry in (profile["plugins"].get(point) or {}).get("enabled") or ()
            if entry["name"] == plugin
        ]
        if not entries:
            raise InvalidChangeError(f'weights: plugin "{plugin}" is not enabled')
        for entry in entries:
            entry["weight"] = weight
    for plugin, args in changes.args.items():
        for profile in tree["profiles"]:
            configs = profile.setdefault("pluginConfig", [])
            entry = next((each for each in configs if each["name"] == plugin), None)
            if entry is None:
                configs.append({"name": plugin, "args": args})
            else:
                entry["args"] = {**(entry.get("args") or {}), **args}
    return from_object(tree, "what-if")


def _as_known(obj: KubeObject, uids: dict[str, str]) -> KubeObject:
    """Give a pod that replaces one of the cluster the uid of that one."""
    uid = uids.get(obj.key) if isinstance(obj, Pod) else None
    return obj if uid is None else replace(obj, metadata=replace(obj.metadata, uid=uid))


def _with_node(pod: Pod, node: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node))


def _freed(obj: KubeObject) -> KubeObject:
    """Take a running pod off its node; those of DaemonSets stay."""
    if not isinstance(obj, Pod) or obj.finished or obj.metadata.deletion_timestamp is not None:
        return obj
    owner = obj.metadata.controller()
    return obj if owner is not None and owner.kind == "DaemonSet" else _with_node(obj, "")


def _still_there(obj: KubeObject, nodes: dict[str, Node]) -> KubeObject:
    """Return a pod whose node was removed without a node: its controller would replace it."""
    gone = isinstance(obj, Pod) and obj.spec.node_name and obj.spec.node_name not in nodes
    return _freed(obj) if gone else obj


def _tainted(node: Node, change: TaintChange) -> Node:
    text, separator, effect = change.taint.rpartition(":")
    key, _, value = text.partition("=")
    if not separator or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise InvalidChangeError(f'taints: "{change.taint}": expected key=value:Effect')
    others = [each for each in node.spec.taints if (each.key, each.effect) != (key, effect)]
    taints = others if change.remove else [*others, Taint(key=key, value=value, effect=effect)]
    return replace(node, spec=replace(node.spec, taints=taints))
