"""Depth `cluster`: the whole sandbox in virtual time; and depth `perf`: a whole cluster in wall-clock time.

API server, controllers, kubelets and the scheduler run as they do in `mooring up`; at depth `cluster` an
event loop jumps from timer to timer. What happens to pods is read from a watch, so pods that controllers
create count, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from math import inf, isinf
from typing import Any

from mooring.api.kinds import NODES, PODS
from mooring.api.meta import KubeObject, Tree
from mooring.api.objects import Node, Pod
from mooring.client.api_errors import ApiError
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.sandbox.cluster.applying import tree_of
from mooring.sandbox.kubelet.scripts import RUN_TIME, START_DELAY
from mooring.simulate.agenda import Order
from mooring.simulate.arrivals import FOREVER, Arrivals, Template
from mooring.simulate.backends import ApiServerBackend, Backend, SandboxBackend, WallClockLoop
from mooring.simulate.engine import SETTLING, START
from mooring.simulate.node_log import NodeLog
from mooring.simulate.pod_log import Outcome, PodLog
from mooring.simulate.policies import Policy
from mooring.simulate.templates import run_time_of, template_of

LOOK = 10.0  # seconds of virtual time between two looks at whether a run is over
LOOK_NOW, SETTLING_NOW = 0.2, 10.0  # in wall-clock time: unschedulable pods are not waited for
CLASS = "simulated-priority-"
IMAGE = "simulated"  # of containers whose template names none: an API server requires one
MOST_GONE = 10_000


class LoopClock:
    """Seconds since the start of the run, by the loop's time; 0 until then."""

    __slots__ = ("_loop", "start")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.start = inf

    @property
    def now(self) -> float:
        return max(0.0, round(self._loop.time() - self.start, 6))


class ClusterRun:
    """One run of a whole cluster. `manifests` are applied as they are, for controllers to work on.

    With `wall_clock` time passes as it does; with `kubeconfig` the cluster is a real API server.
    """

    def __init__(
        self,
        policy: Policy,
        seed: int,
        objects: Iterable[KubeObject],
        arrivals: Arrivals,
        *,
        manifests: Sequence[Tree] = (),
        until: float = inf,
        wall_clock: bool = False,
        kubeconfig: str = "",
    ) -> None:
        self.arrivals = arrivals
        self.until = until
        self.log = PodLog()
        self.nodes = NodeLog()
        self.templates: list[Template] = list(arrivals.templates)
        self.attempts = 0
        self.arrived = 0
        self.pending = 0
        self.running = 0
        self.pending_seconds = 0.0
        self.running_seconds = 0.0
        self.overcommitted = False
        self.end = 0.0
        self._policy, self._seed = policy, seed
        self._objects = [obj for obj in objects if not isinstance(obj, Node)]
        self._first_nodes = [obj for obj in objects if isinstance(obj, Node)]
        self._manifests = list(manifests)
        self._rows: dict[str, int] = {}  # "namespace/name" → row, of pods that are there
        self._earlier: frozenset[str] = frozenset()  # uids of pods that a real API server had before the run
        self._gone: dict[str, None] = {}  # the uids of the last pods that ended: late writes show them again
        self._expected: dict[str, tuple[int, float]] = {}  # the template and run time of pods that arrive now
        self._by_owner: dict[tuple[str, str], int] = {}
        self._ending = 0  # running pods that will end by themselves
        self._last_change = self._counted_until = 0.0
        self._later = 0  # events that are still to come
        self._work: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop = WallClockLoop() if wall_clock else VirtualTimeLoop(START)
        self._look, self._settling = (LOOK_NOW, SETTLING_NOW) if wall_clock else (LOOK, SETTLING)
        self.clock = LoopClock(self._loop)
        self._cluster: Backend = (
            ApiServerBackend(kubeconfig, seed)
            if kubeconfig
            else SandboxBackend(self._loop.time, seed, keep_events=wall_clock)
        )
        self._is_over = False  # what happens while the cluster stops does not count
        self._before_start: list[tuple[float, Callable[[], None]]] = []

    @property
    def scheduler(self) -> Scheduler:
        return self._cluster.core

    # ---- what events do

    def at(self, time: float, order: Order, work: Callable[[], None]) -> None:
        """Have something done at a time."""
        self._later += 1

        def due() -> None:
            self._later -= 1
            self._changed()
            work()

        if self.clock.start < inf:
            self._loop.call_at(self.clock.start + time, due)
        else:
            self._before_start.append((time, due))

    def apply(self, obj: KubeObject) -> None:
        if isinstance(obj, Node):
            self._begin(self._add_node(obj))
        else:
            self.apply_trees([tree_of(obj)])

    def amend(self, pod: Pod) -> None:
        """Change the labels and annotations of a pod; a deletion has its own event."""
        self._begin(self._amend(pod))

    async def _amend(self, pod: Pod) -> None:
        metadata = {"labels": pod.metadata.labels, "annotations": pod.metadata.annotations}
        try:
            await self._cluster.api.patch(PODS, pod.name, {"metadata": metadata}, pod.namespace)
        except ApiError as refusal:
            if not refusal.not_found:
                raise

    def apply_trees(self, trees: Sequence[Tree]) -> None:
        self._begin(self._apply_all(trees))

    def delete(self, obj: KubeObject, outcome: Outcome = Outcome.DELETED) -> None:
        self.delete_trees([tree_of(obj)])

    def delete_trees(self, trees: Sequence[Tree]) -> None:
        self._begin(self._delete_all(trees))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _apply_all(self, trees: Sequence[Tree]) -> None:
        for tree in trees:
            await self._cluster.apply(tree)

    async def _delete_all(self, trees: Sequence[Tree]) -> None:
        for tree in trees:
            resource = await self._cluster.resource(tree)
            if resource is None:
                continue
            metadata = tree["metadata"]
            namespace = metadata.get("namespace") or "default" if resource.namespaced else ""
            try:
                await self._cluster.api.delete(resource, metadata["name"], namespace)
            except ApiError as refusal:
                if not refusal.not_found:
                    raise

    async def _add_node(self, node: Node) -> None:
        if self._cluster.cache.follow(NODES).get(node.name) is None:
            await self._cluster.nodes.register([tree_of(node)])
        else:
            await self._cluster.apply(tree_of(node))

    # ---- the run

    def run(self, progress: Callable[[Any], None] | None = None) -> None:
        """Run until nothing is left to happen, or to `until`."""
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.run_until_complete(self._cluster.stop())
            self._loop.close()

    async def _main(self) -> None:
        cluster = self._cluster
        await cluster.start()
        self._earlier = frozenset(pod.uid for pod in cluster.cache.follow(PODS))
        cluster.cache.follow(NODES).subscribe(self._node_changed)
        cluster.cache.follow(PODS).subscribe(self._pod_changed)
        await cluster.nodes.register([tree_of(node) for node in self._first_nodes])
        for tree in [*self._priority_classes(), *map(tree_of, self._objects)]:
            await cluster.apply(tree)
        await cluster.schedule(self._policy, self._seed, self._decided)
        self.clock.start = self._loop.time()
        for time, due in self._before_start:
            self._loop.call_at(self.clock.start + time, due)
        for tree in self._manifests:
            await cluster.apply(tree)
        await self._arrive()
        if self.until < inf:
            await asyncio.sleep(max(0.0, self.until - self.clock.now))
        else:
            while not self._over():
                await asyncio.sleep(self._look)
        self._count_to(self.clock.now if self.until < inf else self._last_change)
        self.end = self._counted_until
        self._is_over = True

    def _over(self) -> bool:
        if self._later or self._work or self._expected or self._ending:
            return False
        return not self.pending or self.clock.now > self._last_change + self._settling

    async def _arrive(self) -> None:
        arrivals = self.arrivals
        trees = [_pod_tree(template.pod) for template in arrivals.templates]
        for row in range(len(arrivals)):
            wait = arrivals.time.item(row) - self.clock.now
            if wait > 0:
                await asyncio.sleep(wait)
            number, life = arrivals.template.item(row), arrivals.run_time.item(row)
            tree = _arriving(trees[number], self.templates[number], arrivals.names[row], life)
            metadata = tree["metadata"]
            self._expected[f"{metadata['namespace']}/{metadata['name']}"] = number, life
            self.arrived += 1
            await self._cluster.create_pod(tree, metadata["namespace"])

    def _priority_classes(self) -> list[Tree]:
        """The API server takes a pod's priority from its class only."""
        values = sorted({t.pod.priority for t in self.templates if not t.pod.spec.priority_class_name} - {0})
        return [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": f"{CLASS}{value}"},
                "value": value,
            }
            for value in values
        ]

    # ---- what happened

    def _decided(self, decision: Decision) -> None:
        if self._is_over:
            return
        self.attempts += 1
        row = self._rows.get(decision.pod)
        if row is not None:
            self.log.attempted(row, self.clock.now)
            if decision.result != "scheduled":
                self.log.rejected(row, decision.unschedulable_plugins)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if self._is_over:
            return
        if new is None:
            assert old is not None
            self.nodes.remove(old.name, self.clock.now)
        else:
            self.nodes.add(new, self.clock.now)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or self._is_over or pod.uid in self._earlier:
            return
        row = self._rows.get(pod.key)
        if row is None:
            if new is None or new.finished or new.uid in self._gone:
                return
            row = self._created(new)
        if new is not None and new.spec.node_name and self.log.outcome[row] == Outcome.PENDING:
            self._bound(row, new)
        if new is None or new.finished:
            self._ended(row, pod, gone=new is None)

    def _created(self, pod: Pod) -> int:
        template, life = self._expected.pop(pod.key, (-1, 0.0))
        if template < 0:
            owner = pod.metadata.controller()
            name = "" if owner is None else f"{owner.kind}/{owner.name}"
            index = self._by_owner.get((pod.namespace, name)) if name else None
            if index is None:
                index = self._by_owner[pod.namespace, name] = len(self.templates)
                self.templates.append(template_of(pod))
            template, life = index, run_time_of(template_of(pod))
        self._changed()
        row = self._rows[pod.key] = self.log.add(pod.name, template, life, self._last_change)
        self.pending += 1
        return row

    def _bound(self, row: int, pod: Pod) -> None:
        self._changed()
        now = self._last_change
        delay = self.templates[self.log.template[row]].start_delay
        self.log.bind(row, self.nodes.row(pod.spec.node_name), now, now + delay)
        self.pending -= 1
        self.running += 1
        self._ending += not isinf(self.log.run_time[row])

    def _ended(self, row: int, pod: Pod, gone: bool) -> None:
        self._changed()
        if self.log.outcome[row] == Outcome.RUNNING:
            self.running -= 1
            self._ending -= not isinf(self.log.run_time[row])
        else:
            self.pending -= 1
        del self._rows[pod.key]
        self._gone[pod.uid] = None
        if len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]
        self.log.end(row, _outcome(pod, gone), self._last_change)

    def _changed(self) -> None:
        self._last_change = self.clock.now
        self._count_to(self._last_change)

    def _count_to(self, now: float) -> None:
        passed = now - self._counted_until
        self.pending_seconds += passed * self.pending
        self.running_seconds += passed * self.running
        self._counted_until = now


def _outcome(pod: Pod, gone: bool) -> Outcome:
    reasons = {c.reason for c in pod.status.conditions if c.type == "DisruptionTarget"}
    if "PreemptionByScheduler" in reasons:
        return Outcome.EVICTED
    if reasons:
        return Outcome.LOST
    if pod.metadata.deletion_timestamp is not None:  # its kubelet writes how it ended before it is gone
        return Outcome.DELETED
    return Outcome.FINISHED if not gone or pod.finished else Outcome.DELETED


def _pod_tree(pod: Pod) -> Tree:
    tree = tree_of(pod)
    tree["metadata"].pop("uid", None)
    tree["metadata"].setdefault("namespace", pod.namespace)
    tree.pop("status", None)
    spec = tree["spec"]
    for container in spec["containers"]:
        container.setdefault("image", IMAGE)
    if pod.priority and not spec.get("priorityClassName"):
        spec["priorityClassName"] = f"{CLASS}{pod.priority}"
    spec.pop("priority", None)
    return tree


def _arriving(tree: Tree, template: Template, name: str, life: float) -> Tree:
    metadata = {**tree["metadata"], "name": name}
    annotations = dict(metadata.get("annotations") or {})
    spec = tree["spec"]
    if life < FOREVER:
        annotations[RUN_TIME] = f"{life:.9f}s"
        spec = {**spec, "restartPolicy": "Never"}
    if template.start_delay:
        annotations[START_DELAY] = f"{template.start_delay:.9f}s"
    metadata["annotations"] = annotations
    return {**tree, "metadata": metadata, "spec": spec}
