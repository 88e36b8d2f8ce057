"""StatefulSets: pods with names, numbers and volumes of their own, made, replaced and removed in order."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

from mooring.api.kinds import STATEFUL_SETS
from mooring.api.objects import Pod
from mooring.api.selectors import Selector, compile_selector
from mooring.api.storage import PersistentVolumeClaim
from mooring.api.workloads import ControllerRevision, StatefulSet, StatefulSetStatus
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context
from mooring.sandbox.controllers.owning import Claims
from mooring.sandbox.controllers.pod_controller import PodController, available_in
from mooring.sandbox.controllers.revisions import History
from mooring.sandbox.controllers.stateful_claims import StatefulClaims, claim_name
from mooring.sandbox.controllers.stateful_pods import POD_INDEX, POD_NAME, REVISION, member_of
from mooring.sandbox.controllers.statuses import status_changes

TURN = 32  # pods before others on the event loop have their turn
_MEMBER = re.compile(r"(.*)-([0-9]{1,9})", re.ASCII | re.DOTALL)
_ALWAYS = ("replicas", "availableReplicas")


class Round(NamedTuple):
    """One look at a set, with the revisions that its pods have and shall have."""

    set: StatefulSet
    current: ControllerRevision
    update: ControllerRevision
    now: float

    @property
    def ordered(self) -> bool:
        """Whether each pod waits for those before it."""
        return self.set.spec.pod_management_policy != "Parallel"

    @property
    def ordinals(self) -> range:
        start = self.set.spec.ordinals.start
        return range(start, start + self.set.spec.replicas)

    @property
    def partition(self) -> int:
        """The first ordinal that is brought to the new revision."""
        rolling = self.set.spec.update_strategy.rolling_update
        return self.ordinals.start + (0 if rolling is None else rolling.partition)

    def revision(self, ordinal: int) -> ControllerRevision:
        """Of which revision a new pod is to be."""
        strategy = self.set.spec.update_strategy
        first = self.partition
        if strategy.type == "RollingUpdate" and strategy.rolling_update is None:
            first = self.ordinals.start + self.set.status.current_replicas
        return self.current if ordinal < first else self.update

    def healthy(self, pod: Pod) -> bool:
        """Whether the next pod may follow: it runs, and has been ready for long enough."""
        return not pod.terminating and _running(pod) and self.available(pod)

    def available(self, pod: Pod) -> bool:
        return available_in(pod, self.set.spec.min_ready_seconds, self.now) == 0


class StatefulSetController(PodController[StatefulSet]):
    name = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, STATEFUL_SETS)
        self.history: History[StatefulSet] = History(self, self.owners, "controller.kubernetes.io/hash")
        self.claims = StatefulClaims(self)
        self.claims.claims.subscribe(self._claim_changed)

    def selector_of(self, owner: StatefulSet) -> Selector:
        return compile_selector(owner.spec.selector)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """Enqueue the sets of a deleted claim: a pod may wait for it to be gone."""
        match = None if new is not None or old is None else _MEMBER.fullmatch(old.name)
        if old is not None and match is not None:
            for set in self.owners.in_namespace(old.namespace):
                templates = set.spec.volume_claim_templates
                if any(claim_name(set, each, int(match[2])) == old.name for each in templates):
                    self.enqueue(set.key)

    async def sync(self, key: str) -> None:
        set = self.owners.get(key)
        if set is None or set.metadata.deletion_timestamp is not None:
            return
        selector = self.selector_of(set)
        revisions = await self.history.claim(set, selector)
        claims = Claims(self, self.owners, set, selector, self.pods)
        await claims.claim(lambda pod: _ordinal(set, pod) is not None)
        update, collisions = await self.history.current(set, revisions)
        current = next((each for each in revisions if each.name == set.status.current_revision), update)
        round = Round(set, current, update, self.context.clock())
        try:
            if await self._scale(round) and set.spec.update_strategy.type != "OnDelete":
                await self._roll(round)
        finally:
            await self._write_status(round, collisions)
        await self._truncate(round, revisions)

    # ---- pods

    def _pods(self, set: StatefulSet) -> dict[int, Pod]:
        """The pods of a set by their ordinals; those whose names have none do not count."""
        members = ((_ordinal(set, pod), pod) for pod in self.pods.controlled_by(set.uid))
        return {ordinal: pod for ordinal, pod in members if ordinal is not None}

    async def _scale(self, round: Round) -> bool:
        """Create and remove pods until there is one for each ordinal; False where others have to wait until a
        pod is made, ready or gone."""
        pods = self._pods(round.set)
        for ordinal in round.ordinals:
            if not await self._ensure(round, ordinal, pods.get(ordinal)) and round.ordered:
                return False
            if ordinal % TURN == 0:
                await asyncio.sleep(0)
        condemned = sorted((ordinal for ordinal in pods if ordinal not in round.ordinals), reverse=True)
        for ordinal in condemned:
            await self.claims.retain(round.set, pods[ordinal], ordinal, scaled_down=True)
        ailing = [ordinal for ordinal in condemned if not round.healthy(pods[ordinal])]
        for ordinal in condemned:
            pod = pods[ordinal]
            if round.ordered and (pod.terminating or ordinal in ailing[:-1]):
                return False
            if not pod.terminating:
                await self._delete(round.set, pod)
                if round.ordered:
                    return False
        return True

    async def _ensure(self, round: Round, ordinal: int, pod: Pod | None) -> bool:
        """Bring one pod closer to what it is to be; True where it is all well."""
        set = round.set
        if pod is None:
            if not self.claims.stale(set, ordinal):
                await self._create(round, ordinal)
            return False
        if pod.finished:
            if not pod.terminating:
                await self._delete(set, pod)
            return False
        if pod.status.phase == "Pending":
            await self.claims.create(set, ordinal)
        if round.ordered and not round.healthy(pod):
            return False
        updated = await self.claims.retain(set, pod, ordinal, scaled_down=False)
        if pod.metadata.labels.get(POD_NAME) != pod.name:
            await self._label(pod, ordinal)
            updated = True
        if updated:
            note = f"Update Pod {pod.name} in StatefulSet {set.name} successful"
            self.event(self.owners, set, "Normal", "SuccessfulUpdate", note)
        return True

    async def _roll(self, round: Round) -> None:
        """Replace the last pod of another revision, once those after it are healthy."""
        pods = self._pods(round.set)
        for ordinal in reversed(range(round.partition, round.ordinals.stop)):
            pod = pods.get(ordinal)
            if pod is None:
                return
            if pod.metadata.labels.get(REVISION) != round.update.name and not pod.terminating:
                await self._delete(round.set, pod)
                return
            if not round.healthy(pod):
                return

    async def _create(self, round: Round, ordinal: int) -> None:
        set, name = round.set, f"{round.set.name}-{ordinal}"
        try:
            await self.claims.create(set, ordinal)
            pod = await self.create(
                self.pods, member_of(set, round.revision(ordinal), ordinal), set.namespace
            )
        except ApiError as refusal:
            if refusal.reason != "AlreadyExists":
                note = f"Create Pod {name} in StatefulSet {set.name} failed error: {refusal}"
                self.event(self.owners, set, "Warning", "FailedCreate", note)
            raise
        note = f"Create Pod {name} in StatefulSet {set.name} successful"
        self.event(self.owners, set, "Normal", "SuccessfulCreate", note)
        await self.claims.retain(set, pod, ordinal, scaled_down=False)

    async def _delete(self, set: StatefulSet, pod: Pod) -> None:
        try:
            await self.delete(self.pods, pod)
        except ApiError as refusal:
            note = f"Delete Pod {pod.name} in StatefulSet {set.name} failed error: {refusal}"
            self.event(self.owners, set, "Warning", "FailedDelete", note)
            raise
        note = f"Delete Pod {pod.name} in StatefulSet {set.name} successful"
        self.event(self.owners, set, "Normal", "SuccessfulDelete", note)

    async def _label(self, pod: Pod, ordinal: int) -> None:
        """Set the name and index labels of a pod that was adopted or lost them."""
        patch = {"metadata": {"labels": {POD_NAME: pod.name, POD_INDEX: str(ordinal)}}}
        self.pods.wrote(await self.cluster.patch(self.pods.resource, pod.name, patch, pod.namespace))

    # ---- status and history

    async def _write_status(self, round: Round, collisions: int) -> None:
        set, pods = round.set, self._pods(round.set).values()
        status = _count(round, list(pods))
        status.observed_generation = max(set.metadata.generation, set.status.observed_generation)
        status.collision_count = collisions
        patch = status_changes(set.status, status, _ALWAYS)
        if patch:
            written = await self.cluster.patch(
                STATEFUL_SETS, set.name, {"status": patch}, set.namespace, subresource="status"
            )
            self.owners.wrote(written)
        waits = [available_in(pod, set.spec.min_ready_seconds, round.now) for pod in pods]
        if next_check := min((wait for wait in waits if wait), default=None):
            self.enqueue(set.key, next_check)

    async def _truncate(self, round: Round, revisions: list[ControllerRevision]) -> None:
        """Keep only so many revisions of those that no pod has."""
        live = {pod.metadata.labels.get(REVISION) for pod in self.pods.controlled_by(round.set.uid)}
        live |= {round.current.name, round.update.name}
        past = [each for each in revisions if each.name not in live]
        await self.history.forget(past, len(past) - round.set.spec.revision_history_limit)


def _ordinal(set: StatefulSet, pod: Pod) -> int | None:
    """The number of a pod that bears the name of a set."""
    match = _MEMBER.fullmatch(pod.name)
    return int(match[2]) if match is not None and match[1] == set.name else None


def _running(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.ready


def _count(round: Round, pods: list[Pod]) -> StatefulSetStatus:
    set, update = round.set, round.update.name
    status = StatefulSetStatus(current_revision=round.current.name, update_revision=update)
    status.replicas = len(pods)
    for pod in pods:
        status.ready_replicas += _running(pod)
        status.available_replicas += _running(pod) and round.available(pod)
        if not pod.terminating:
            revision = pod.metadata.labels.get(REVISION)
            status.current_replicas += revision == round.current.name
            status.updated_replicas += revision == update
    rolling = set.spec.update_strategy.type == "RollingUpdate"
    if rolling and status.updated_replicas == status.ready_replicas == status.replicas == set.spec.replicas:
        status.current_replicas, status.current_revision = status.updated_replicas, update
    return status
