"""DaemonSets: a pod on every node that is eligible."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from mooring.api.kinds import DAEMON_SETS, NODES
from mooring.api.objects import Node, Pod
from mooring.api.selectors import Selector, compile_selector
from mooring.api.workloads import ControllerRevision, DaemonSet, DaemonSetStatus
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context
from mooring.sandbox.controllers.daemon_pods import HASH, Moulds, Placement, by_age, is_updated, target_of
from mooring.sandbox.controllers.daemon_rollout import OnNode, Steps, next_steps, surges
from mooring.sandbox.controllers.owning import Claims
from mooring.sandbox.controllers.placement import index_by_node, pods_on
from mooring.sandbox.controllers.pod_controller import PodController, available_in
from mooring.sandbox.controllers.revisions import History
from mooring.sandbox.controllers.statuses import status_changes

FIRST_BACKOFF = 1.0  # seconds before a failed pod is replaced once more on the same node; doubles
LAST_BACKOFF = 900.0
TURN = 32  # pods before others on the event loop have their turn
PAUSE_PER_POD = 2e-5  # seconds: counting pods is not to cost more than a part of the time
LEAST_PAUSE = 1e-3
_ALWAYS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


class _Memory:
    """What is known of one generation of a set: which nodes are eligible, and where pods failed."""

    def __init__(self, set: DaemonSet) -> None:
        self.of = (set.uid, set.metadata.generation)
        self.failed: dict[str, tuple[float, float]] = {}  # by node: backoff, and since when
        self._placement = Placement(set)
        self._wants: dict[str, tuple[bool, bool]] = {}

    def wants(self, node: Node) -> tuple[bool, bool]:
        """Whether there is to be a pod on a node, and whether one that is there may stay."""
        answer = self._wants.get(node.name)
        if answer is None:
            answer = self._wants[node.name] = self._placement.wants(node)
        return answer

    def forget(self, node: str) -> None:
        self._wants.pop(node, None)


class Look(NamedTuple):
    """A set as it is now: its pods by the nodes they are on or for."""

    set: DaemonSet
    hash: str
    memory: _Memory
    pods: dict[str, list[Pod]]
    now: float

    def available(self, pod: Pod) -> bool:
        return available_in(pod, self.set.spec.min_ready_seconds, self.now) == 0


class DaemonSetController(PodController[DaemonSet]):
    name = "daemonset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, DAEMON_SETS)
        self.history: History[DaemonSet] = History(self, self.owners, HASH)
        self._memories: dict[str, _Memory] = {}
        index_by_node(self.pods)
        self.nodes = self.cache.follow(NODES)
        self.nodes.subscribe(self._node_changed)

    def selector_of(self, owner: DaemonSet) -> Selector:
        return compile_selector(owner.spec.selector)

    def pod_of_changed(self, key: str, old: Pod | None, new: Pod | None) -> None:
        """A large set is counted once after many changes, not after each."""
        pause = PAUSE_PER_POD * len(self.nodes)
        self.enqueue(key, pause if pause > LEAST_PAUSE else 0.0)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None and _placed_alike(old, new):
            return
        changed = new or old
        assert changed is not None
        for memory in self._memories.values():
            memory.forget(changed.name)
        owners = (pod.metadata.controller() for pod in pods_on(self.pods, changed.name))
        here = {owner.uid for owner in owners if owner is not None}
        for set in self.owners:
            if new is None or self._concerns(set, new, scheduled=set.uid in here):
                self.enqueue(set.key)

    def _concerns(self, set: DaemonSet, node: Node, scheduled: bool) -> bool:
        """Whether a set has something to do about a node that changed."""
        should_run, may_stay = self._memory(set).wants(node)
        if scheduled:
            return not may_stay or set.status.number_misscheduled > 0
        return should_run

    async def sync(self, key: str) -> None:
        set = self.owners.get(key)
        if set is None:
            self._memories.pop(key, None)
            return
        selector = self.selector_of(set)
        if selector.empty:
            note = "This daemon set is selecting all pods. A non-empty selector is required."
            self.event(self.owners, set, "Warning", "SelectingAll", note)
            return
        if set.metadata.deletion_timestamp is not None:
            return  # its revisions may be gone already
        await Claims(self, self.owners, set, selector, self.pods).claim()
        revisions = await self.history.claim(set, selector)
        current, collisions = await self.history.current(set, revisions)
        hash = current.metadata.labels.get(HASH, "")
        try:
            await self._manage(self._look(set, hash))
            if set.spec.update_strategy.type == "RollingUpdate":
                await self._roll(self._look(set, hash))
            await self._truncate(set, [each for each in revisions if each.name != current.name])
        finally:
            await self._write_status(self._look(set, hash), collisions)

    def _memory(self, set: DaemonSet) -> _Memory:
        memory = self._memories.get(set.key)
        if memory is None or memory.of != (set.uid, set.metadata.generation):
            memory = self._memories[set.key] = _Memory(set)
        return memory

    def _look(self, set: DaemonSet, hash: str) -> Look:
        pods: dict[str, list[Pod]] = {}
        for pod in self.pods.controlled_by(set.uid):
            if not (pod.finished and pod.terminating) and (node := target_of(pod)):
                pods.setdefault(node, []).append(pod)
        return Look(set, hash, self._memory(set), pods, self.context.clock())

    # ---- pods

    async def _manage(self, look: Look) -> None:
        """Create missing pods and delete surplus ones."""
        create: list[str] = []
        delete: list[Pod] = []
        for node in self.nodes:
            pods = look.pods.get(node.name)
            should_run, may_stay = look.memory.wants(node)
            if should_run and pods is None:
                create.append(node.name)
            elif may_stay and pods is not None:
                live = [pod for pod in pods if not pod.terminating]
                ended = [pod for pod in live if pod.finished]
                delete += self._ended(look, node, ended)
                running = sorted((pod for pod in live if not pod.finished), key=by_age)
                if not surges(look.set):
                    delete += running[1:]
                elif should_run and not running:
                    create.append(node.name)
                else:
                    delete += _surplus(look, running)
            elif pods is not None:
                delete += [pod for pod in pods if not pod.terminating]
        for name, pods in look.pods.items():
            if self.nodes.get(name) is None:  # no other controller handles pods of such a node
                delete += [pod for pod in pods if not pod.spec.node_name and not pod.terminating]
        await self._take(look, Steps(delete, create))

    def _ended(self, look: Look, node: Node, pods: list[Pod]) -> list[Pod]:
        """Those of the pods that ended on a node that are to make room for another now."""
        replaced = []
        for pod in pods:
            if pod.status.phase == "Succeeded":
                note = f"Found succeeded daemon pod {pod.key} on node {node.name}, will try to delete it"
                self.event(self.owners, look.set, "Normal", "SucceededDaemonPod", note)
            elif self._in_backoff(look, node.name):
                continue
            else:
                note = f"Found failed daemon pod {pod.key} on node {node.name}, will try to kill it"
                self.event(self.owners, look.set, "Warning", "FailedDaemonPod", note)
            replaced.append(pod)
        return replaced

    def _in_backoff(self, look: Look, node: str) -> bool:
        """Where pods fail again and again, as a kubelet that refuses them makes them, they are replaced less
        and less often."""
        backoff, since = look.memory.failed.get(node, (0.0, 0.0))
        if look.now < since + backoff:
            self.enqueue(look.set.key, since + backoff - look.now)
            return True
        if look.now > since + 2 * LAST_BACKOFF:
            backoff = 0.0
        look.memory.failed[node] = min(max(FIRST_BACKOFF, 2 * backoff), LAST_BACKOFF), look.now
        return False

    async def _roll(self, look: Look) -> None:
        nodes, desired = {}, 0
        for node in self.nodes:
            should_run, _ = look.memory.wants(node)
            desired += should_run
            pods = look.pods.get(node.name, ())
            if should_run or pods:
                live = [pod for pod in pods if not pod.terminating]
                new = [pod for pod in live if is_updated(look.set, pod, look.hash)]
                old = [pod for pod in live if not is_updated(look.set, pod, look.hash)]
                nodes[node.name] = OnNode(should_run, new, old)
        await self._take(look, next_steps(look.set, nodes, look.available, desired))

    async def _take(self, look: Look, steps: Steps) -> None:
        moulds = Moulds(look.set, look.hash) if steps.create else None
        for number, node in enumerate(steps.create, 1):
            assert moulds is not None
            try:
                await self.create_pod(look.set, moulds.body(node))
            except ApiError as refusal:
                if not refusal.namespace_terminating:
                    raise
            if number % TURN == 0:
                await asyncio.sleep(0)
        for number, pod in enumerate(steps.delete, 1):
            await self.delete_pod(look.set, pod)
            if number % TURN == 0:
                await asyncio.sleep(0)

    # ---- status and history

    async def _write_status(self, look: Look, collisions: int) -> None:
        set = look.set
        status = self._count(look)
        if collisions or set.status.collision_count is not None:
            status.collision_count = collisions
        patch = status_changes(set.status, status, _ALWAYS)
        if patch:
            written = await self.cluster.patch(
                DAEMON_SETS, set.name, {"status": patch}, set.namespace, subresource="status"
            )
            self.owners.wrote(written)
        if set.spec.min_ready_seconds:
            self._check_again(look)

    def _check_again(self, look: Look) -> None:
        """When the next pod has been ready for long enough."""
        pods = (pod for pods in look.pods.values() for pod in pods)
        waits = [available_in(pod, look.set.spec.min_ready_seconds, look.now) for pod in pods]
        if wait := min((wait for wait in waits if wait), default=None):
            self.enqueue(look.set.key, wait)

    def _count(self, look: Look) -> DaemonSetStatus:
        set = look.set
        status = DaemonSetStatus(observed_generation=set.metadata.generation)
        for node in self.nodes:
            pods = look.pods.get(node.name)
            if not look.memory.wants(node)[0]:
                status.number_misscheduled += pods is not None
                continue
            status.desired_number_scheduled += 1
            if pods is not None:
                pod = min(pods, key=by_age)
                status.current_number_scheduled += 1
                status.number_ready += pod.ready
                status.number_available += look.available(pod)
                status.updated_number_scheduled += is_updated(set, pod, look.hash)
        status.number_unavailable = status.desired_number_scheduled - status.number_available
        return status

    async def _truncate(self, set: DaemonSet, old: list[ControllerRevision]) -> None:
        """Keep only so many revisions, and those that pods have."""
        live = {pod.metadata.labels.get(HASH) for pod in self.pods.controlled_by(set.uid)}
        past = [each for each in old if each.metadata.labels.get(HASH) not in live]
        await self.history.forget(past, len(old) - set.spec.revision_history_limit)


def _placed_alike(old: Node, new: Node) -> bool:
    """Whether the same pods belong on a node as before."""
    return old.metadata.labels == new.metadata.labels and old.spec.taints == new.spec.taints


def _surplus(look: Look, running: list[Pod]) -> list[Pod]:
    """While a new pod is to follow an old one, there may be one of each; the old one goes as soon as the new
    one is available, or when it is not ready itself."""
    new = [pod for pod in running if pod.metadata.labels.get(HASH) == look.hash]
    old = [pod for pod in running if pod.metadata.labels.get(HASH) != look.hash]
    surplus = new[1:] + old[1:]
    if new and old and (not old[0].ready or look.available(new[0])):
        surplus.append(old[0])
    return surplus
