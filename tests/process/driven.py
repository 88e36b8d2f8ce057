"""A driver at work on a small API server in memory, in virtual time, with trouble as ordered."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mooring.api.kinds import EVENTS, NODES, PODS, ApiResource
from mooring.api.patches import merge_patch
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.event_recorder import EventRecorder
from mooring.client.informers import Informers
from mooring.client.port import Obj, PatchType
from mooring.config import LoadedConfig
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.framework.plugin import Plugin
from mooring.process.driver import Driver
from tests.client.fake_cluster import FakeCluster, Tree

START = 1_900_000_000.0


def node(name: str, **allocatable: str) -> Tree:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "1000", **allocatable}
    return {"metadata": {"name": name}, "status": {"allocatable": amounts}}


def pod(name: str, *, on: str = "", priority: int = 0, cpu: str = "0", **more: Any) -> Tree:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "schedulerName": "default-scheduler", "priority": priority}
    if on:
        spec["nodeName"] = on
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, **more}


class Server(FakeCluster):
    """A FakeCluster that binds pods, keeps their conditions by type, and deletes only whom it is told to.

    `cut(verb)` loses the next request of a verb: its answer, or, where it is not `sent`, the request itself.
    `hold(verb)` gives an event; until it is set, requests of the verb are not carried out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bound: list[tuple[str, str]] = []  # every binding that took effect: pod, node
        self._cuts: dict[tuple[str, bool], deque[Exception]] = defaultdict(deque)
        self._held: dict[str, asyncio.Event] = {}
        self.meddle = self._trouble

    def cut(self, verb: str, times: int = 1, *, sent: bool) -> None:
        cause = "connection reset" if sent else "connection refused"
        self._cuts[verb, sent].extend(Unreachable("fake", cause, sent=sent) for _ in range(times))

    def hold(self, verb: str) -> asyncio.Event:
        self._held[verb] = asyncio.Event()
        return self._held[verb]

    async def _trouble(self, verb: str, answered: bool) -> None:
        if not answered and verb in self._held:
            await self._held[verb].wait()
        cuts = self._cuts[verb, answered]
        if cuts:
            raise cuts.popleft()

    async def post(
        self, resource: ApiResource[Any], name: str, subresource: str, body: Any, namespace: str = ""
    ) -> None:
        if not name:
            await super().post(resource, name, subresource, body, namespace)
            return
        await self._receive("post", resource, f"{namespace}/{name}/{subresource}")
        tree: Tree = msgspec.to_builtins(body)
        current = self._tree(resource, name, namespace)
        self._same(current, tree["metadata"]["uid"])
        self.bind(name, tree["target"]["name"], namespace)
        await self._trouble("post", True)

    def bind(self, name: str, node_name: str, namespace: str = "default") -> None:
        """As the API server does it, whoever asks."""
        current = self._tree(PODS, name, namespace)
        there = current["spec"].get("nodeName")
        if there:
            raise ApiError(409, "Conflict", f'pod {name} is already assigned to node "{there}"')
        status = {"conditions": _by_type(current, [{"type": "PodScheduled", "status": "True"}])}
        self.put(PODS, merge_patch(current, {"spec": {"nodeName": node_name}, "status": status}))
        self.bound.append((name, node_name))

    async def patch(
        self,
        resource: ApiResource[Obj],
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        kind: PatchType = PatchType.MERGE,
    ) -> Obj:
        tree: Tree = msgspec.to_builtins(patch)
        current = self.objects.get((resource.name, namespace, name))
        if kind is PatchType.STRATEGIC and "conditions" in tree.get("status", {}) and current:
            conditions = _by_type(current, tree["status"]["conditions"])
            tree = {**tree, "status": {**tree["status"], "conditions": conditions}}
        if current and "uid" in tree.get("metadata", {}):
            self._same(current, tree["metadata"]["uid"])
        return await super().patch(resource, name, tree, namespace, subresource=subresource, kind=kind)

    async def delete(
        self,
        resource: ApiResource[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        await self._receive("delete", resource, f"{resource.name} {namespace}/{name}")
        self._same(self._tree(resource, name, namespace), uid)
        self.remove(resource, name, namespace)
        await self._trouble("delete", True)

    def _same(self, current: Tree, uid: str) -> None:
        found = current["metadata"]["uid"]
        if uid and found != uid:
            raise ApiError(409, "Conflict", f"the UID in the precondition ({uid}) does not match {found}")

    def pod(self, name: str) -> Tree:
        return self._tree(PODS, name, "default")

    def node_of(self, name: str) -> str:
        node_name: str = self.pod(name)["spec"].get("nodeName", "")
        return node_name

    def condition(self, name: str, kind: str = "PodScheduled") -> Tree | None:
        conditions = self.pod(name).get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), None)

    def notes(self, reason: str) -> list[str]:
        """What the events with a reason say."""
        events = [tree for key, tree in self.objects.items() if key[0] == EVENTS.name]
        return [event["note"] for event in events if event["reason"] == reason]


def _by_type(current: Tree, new: Sequence[Tree]) -> list[Tree]:
    """Conditions merged as a strategic merge patch merges them."""
    known = {c["type"]: c for c in current.get("status", {}).get("conditions", [])}
    for condition in new:
        known[condition["type"]] = {**known.get(condition["type"], {}), **condition}
    return list(known.values())


class Driven:
    """A driver with all that belongs to it."""

    def __init__(
        self,
        plugins: Sequence[type[Plugin]],
        config: LoadedConfig | None,
        may_bind: Callable[[], bool],
        lag: Callable[[], float],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.server = Server()
        self.scheduler = Scheduler(
            config,
            clock=lambda: START + loop.time() - lag(),
            pick=random.Random(0).randrange,
            plugins=plugins,
        )
        self.decisions: list[Decision] = []
        self.recorder = EventRecorder(
            self.server, next(iter(self.scheduler.profiles)), now=lambda: int(self.scheduler.clock() * 1e9)
        )
        self.driver = Driver(
            self.scheduler, self.server, self.recorder, may_bind=may_bind, on_decision=self.decisions.append
        )
        self.informers = Informers(self.server, self.driver)
        self.running: asyncio.Task[None]


@asynccontextmanager
async def driven(
    *pods: Tree,
    nodes: Sequence[Tree] = (),
    plugins: Sequence[type[Plugin]] = (),
    config: LoadedConfig | None = None,
    may_bind: Callable[[], bool] = lambda: True,
    lag: Callable[[], float] = float,
) -> AsyncIterator[Driven]:
    """A driver that has just begun to run, with these nodes (by default one, n0) and pods to deal with. The
    scheduler's clock is late by the `lag` at each reading."""
    it = Driven(plugins, config, may_bind, lag)
    for tree in nodes or (node("n0"),):
        it.server.put(NODES, tree)
    for tree in pods:
        it.server.put(PODS, tree)
    others = [
        asyncio.create_task(work)
        for work in (it.informers.run(), it.recorder.run(), it.driver.statuses.run())
    ]
    await it.informers.synced.wait()
    it.running = asyncio.create_task(it.driver.run())
    try:
        yield it
    finally:
        it.running.cancel()
        for task in others:
            task.cancel()
        ended = await asyncio.gather(it.running, *others, return_exceptions=True)
        bugs = [e for e in ended if isinstance(e, Exception)]
        assert not bugs, bugs
