"""The controllers of ReplicaSets and of ReplicationControllers: as many pods as there should be, no more."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import ClassVar, TypeVar

from mooring.api.kinds import REPLICA_SETS, REPLICATION_CONTROLLERS, ApiResource
from mooring.api.meta import Condition
from mooring.api.objects import Pod
from mooring.api.selectors import Selector, compile_selector, from_map
from mooring.api.workloads import Replicas, ReplicaSet, ReplicaSetStatus, ReplicationController
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.controller import Context
from mooring.sandbox.controllers.deletion_order import pods_to_delete
from mooring.sandbox.controllers.owning import Claims, controller_reference
from mooring.sandbox.controllers.pod_controller import PodController, available_in
from mooring.sandbox.controllers.replica_tally import Tally
from mooring.sandbox.controllers.statuses import status_changes
from mooring.sandbox.controllers.templates import pod_of

BURST = 500  # pods created or deleted before others have their turn
IN_FLIGHT = 32  # requests under way at a time
TURN = 128  # requests before others on the event loop have their turn, where answers need not be waited for
PAUSE_PER_POD = 1e-4  # seconds, a large multiple of what counting one takes
LEAST_PAUSE = 1e-2

REPLICA_FAILURE = "ReplicaFailure"

Set = TypeVar("Set", bound=Replicas)
Item = TypeVar("Item")


class _Controller(PodController[Set]):
    """What ReplicaSets and ReplicationControllers have in common, which is nearly everything."""

    counts_terminating: ClassVar[bool]

    def __init__(self, context: Context, resource: ApiResource[Set]) -> None:
        self._pauses: dict[str, float] = {}  # of sets for which they are worth while
        self._tallies: dict[str, Tally] = {}  # by the uid of the set
        super().__init__(context, resource)

    @abstractmethod
    def selector_of(self, owner: Set) -> Selector: ...

    def owner_changed(self, old: Set | None, new: Set | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._tallies.pop(old.uid, None)
        super().owner_changed(old, new)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        before = after = self._tally_of(old)
        if old is None or new is None or old.metadata.owner_references != new.metadata.owner_references:
            after = self._tally_of(new)
        if before is not None and before is after and old is not None and new is not None:
            if before.replace(old, new):
                self.pod_of_changed(before.owner, old, new)
            return
        if before is not None and old is not None:
            before.count(old, -1)
        if after is not None and new is not None:
            after.count(new, 1)
        super().pod_changed(old, new)

    def _tally_of(self, pod: Pod | None) -> Tally | None:
        controller = None if pod is None else pod.metadata.controller()
        return None if controller is None else self._tallies.get(controller.uid)

    def pod_of_changed(self, key: str, old: Pod | None, new: Pod | None) -> None:
        """A large set is looked at once after many changes, not after each."""
        self.enqueue(key, self._pauses.get(key, 0.0))

    async def sync(self, key: str) -> None:
        owner = self.owners.get(key)
        if owner is None:
            self._pauses.pop(key, None)
            return
        claims = Claims(self, self.owners, owner, self.selector_of(owner), self.pods)
        tally, going = self._tally(owner), owner.metadata.deletion_timestamp is not None
        if not going and (tally.strays or any(map(_active, claims.adoptable()))):
            await claims.claim(_active)
        waits = self._waits(owner, claims) if tally.ready and owner.spec.min_ready_seconds else []
        counted = self._count(owner, tally, waits)
        failure: ClusterError | None = None
        if not going:
            failure = await self._manage(owner, tally.active, claims)
        self._pause(key, counted.replicas + (counted.terminating_replicas or 0))
        counted.conditions = self._conditions(owner, counted.replicas, failure)
        await self._write_status(owner, counted)
        if failure is not None:
            raise failure
        if waits:
            self.enqueue(key, min((wait for wait in waits if wait), default=owner.spec.min_ready_seconds))

    # ---- pods

    async def _manage(self, owner: Set, present: int, claims: Claims[Set, Pod]) -> ClusterError | None:
        """Create or delete pods, and say what went wrong."""
        missing = owner.spec.replicas - present
        if missing > 0:
            done, failure = await self._create_pods(owner, min(missing, BURST))
        elif missing < 0:
            active, count = claims.owned(_active), min(-missing, BURST)
            surplus = pods_to_delete(active, self._related(owner), count, self.context.clock())
            done, failure = await _all(surplus, lambda pod: self.delete_pod(owner, pod))
        else:
            return None
        if done:
            self.enqueue(owner.key)  # with what there is then, look again
        return failure

    async def _create_pods(self, owner: Set, count: int) -> tuple[int, ClusterError | None]:
        """Begin slowly: where one pod is refused, hundreds would be. Returns how many were created."""
        body = pod_of(owner.spec.template, owner.name, controller_reference(self.owners.resource, owner))

        async def create(_: int) -> None:
            await self.create_pod(owner, body)

        created, batch = 0, 1
        while created < count:
            batch = min(batch, count - created)
            done, failure = await _all(range(batch), create)
            created += done
            if failure is not None:
                # where the namespace is about to go, any pod would be refused: nothing to do, nothing to tell
                going = isinstance(failure, ApiError) and failure.namespace_terminating
                return created, None if going else failure
            batch *= 2
        return created, None

    def _related(self, owner: Set) -> list[Pod]:
        """The pods of all sets that have the same controller: they are to stay spread over the nodes."""
        controller = owner.metadata.controller()
        if controller is None:
            return []
        owners = self.owners.controlled_by(controller.uid)
        return [pod for one in owners for pod in self.pods.controlled_by(one.uid)]

    # ---- status

    def _pause(self, key: str, pods: int) -> None:
        """How long a set waits for more changes before its pods are counted again."""
        if pods * PAUSE_PER_POD > LEAST_PAUSE:
            self._pauses[key] = pods * PAUSE_PER_POD
        else:
            self._pauses.pop(key, None)

    def _tally(self, owner: Set) -> Tally:
        tally = self._tallies.get(owner.uid)
        if tally is None or tally.generation != owner.metadata.generation:
            pods = self.pods.controlled_by(owner.uid)
            tally = self._tallies[owner.uid] = Tally(owner, self.selector_of(owner), pods)
        return tally

    def _waits(self, owner: Set, claims: Claims[Set, Pod]) -> list[float | None]:
        """Of the ready pods that are not available yet, in how many seconds they will be if all goes well."""
        now, min_ready = self.context.clock(), owner.spec.min_ready_seconds
        waits = (available_in(pod, min_ready, now) for pod in claims.owned(_active) if pod.ready)
        return [wait for wait in waits if wait != 0.0]

    def _count(self, owner: Set, tally: Tally, waits: list[float | None]) -> ReplicaSetStatus:
        return ReplicaSetStatus(
            replicas=tally.active,
            fully_labeled_replicas=tally.labeled,
            ready_replicas=tally.ready,
            available_replicas=tally.ready - len(waits),
            terminating_replicas=tally.leaving if self.counts_terminating else None,
            observed_generation=owner.metadata.generation,
        )

    def _conditions(self, owner: Set, active: int, failure: ClusterError | None) -> list[Condition]:
        """Return the conditions; the first failure stays until there is none."""
        conditions = owner.status.conditions
        has_failure = any(condition.type == REPLICA_FAILURE for condition in conditions)
        if failure is None:
            return [one for one in conditions if one.type != REPLICA_FAILURE] if has_failure else conditions
        if has_failure:
            return conditions
        reason = "FailedCreate" if active < owner.spec.replicas else "FailedDelete"
        condition = Condition(
            type=REPLICA_FAILURE,
            status="True",
            reason=reason,
            message=str(failure),
            last_transition_time=self.context.now(),
        )
        return [*conditions, condition]

    async def _write_status(self, owner: Set, status: ReplicaSetStatus) -> None:
        changes = status_changes(owner.status, status, always=("replicas",))
        if not changes:
            return
        patch = {"metadata": {"uid": owner.uid}, "status": changes}
        try:
            written = await self.cluster.patch(
                self.owners.resource, owner.name, patch, owner.namespace, subresource="status"
            )
        except ApiError as refusal:
            if not refusal.not_found:
                raise
        else:
            self.owners.wrote(written)


class ReplicaSetController(_Controller[ReplicaSet]):
    name = "replicaset-controller"
    counts_terminating = True

    def __init__(self, context: Context) -> None:
        super().__init__(context, REPLICA_SETS)

    def selector_of(self, owner: ReplicaSet) -> Selector:
        return compile_selector(owner.spec.selector)


class ReplicationControllerController(_Controller[ReplicationController]):
    name = "replication-controller"
    counts_terminating = False

    def __init__(self, context: Context) -> None:
        super().__init__(context, REPLICATION_CONTROLLERS)

    def selector_of(self, owner: ReplicationController) -> Selector:
        return from_map(owner.spec.selector or {})


_active = attrgetter("active")


async def _all(
    items: Sequence[Item], work: Callable[[Item], Awaitable[None]]
) -> tuple[int, ClusterError | None]:
    """Do something with all items, some at a time. Returns how many succeeded, and the first failure."""
    rest = iter(items)
    failures: list[ClusterError] = []

    async def go_on() -> None:
        for count, item in enumerate(rest, 1):
            try:
                await work(item)
            except ClusterError as failure:
                failures.append(failure)
            if count % TURN == 0:
                await asyncio.sleep(0)

    workers = [go_on() for _ in range(min(IN_FLIGHT, len(items)))]
    for answer in await asyncio.gather(*workers, return_exceptions=True):
        if answer is not None:
            raise answer
    return len(items) - len(failures), failures[0] if failures else None
