"""The controller of Deployments: rolls templates out through ReplicaSets, and keeps the old ones."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from mooring.api.objects import Pod
from mooring.api.selectors import Selector, compile_selector
from mooring.api.workloads import Deployment, DeploymentStatus, ReplicaSet
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.deployment_history import (
    REVISION,
    annotations_of_new,
    next_revision,
    outdated,
    replica_set_body,
    split,
)
from mooring.sandbox.controllers.deployment_scaling import (
    Sizes,
    replicas_annotations,
    rolls,
    size_of_new,
    sizes_of_old,
    sizes_when_scaled,
    total_size,
    was_scaled,
)
from mooring.sandbox.controllers.deployment_status import (
    PROGRESSING,
    complete,
    condition,
    condition_of,
    counted,
    has_deadline,
    next_check,
    note_failures,
    note_pause,
    note_progress,
    set_condition,
)
from mooring.sandbox.controllers.owning import Claims, concerned, controller_reference, index_orphans
from mooring.sandbox.controllers.statuses import status_changes

PAUSE = 0.01  # seconds in which many pods may go before a Deployment that waits for it looks again


class DeploymentController(Controller):
    name = "deployment-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.deployments = self.cache.follow(DEPLOYMENTS)
        self.replica_sets = self.cache.follow(REPLICA_SETS)
        self.pods = self.cache.follow(PODS)
        index_orphans(self.replica_sets)
        self.deployments.subscribe(self._deployment_changed)
        self.replica_sets.subscribe_owner(self.deployments.kind, self._replica_set_changed)
        self.pods.subscribe(self._pod_changed, updates=False)

    def _deployment_changed(self, old: Deployment | None, new: Deployment | None) -> None:
        if new is not None:
            self.enqueue(new.key)

    def _replica_set_changed(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        for key in concerned(self.deployments, selector_of, old, new):
            self.enqueue(key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Enqueue Deployments with the strategy Recreate: they wait until their old pods are gone."""
        if new is not None or old is None:
            return
        for key in concerned(self.replica_sets, _nothing, old, None):
            for owner in concerned(self.deployments, selector_of, self.replica_sets.get(key), None):
                deployment = self.deployments.get(owner)
                if deployment is not None and not rolls(deployment):
                    self.enqueue(owner, PAUSE)

    async def sync(self, key: str) -> None:
        deployment = self.deployments.get(key)
        if deployment is None:
            return
        claims = Claims(self, self.deployments, deployment, selector_of(deployment), self.replica_sets)
        turn = _Turn(self, deployment, await claims.claim())
        try:
            await turn.take()
        except ApiError as refusal:
            if not refusal.namespace_terminating:
                raise


def selector_of(deployment: Deployment) -> Selector:
    return compile_selector(deployment.spec.selector)


def _nothing(_: ReplicaSet) -> Selector:
    return compile_selector(None)


class _Turn:
    """One look at one Deployment: what it finds and decides on the way is in here, and written at the end."""

    def __init__(
        self, controller: DeploymentController, deployment: Deployment, replica_sets: list[ReplicaSet]
    ) -> None:
        self._controller = controller
        self._deployment = deployment
        self._new, self._old = split(deployment, replica_sets)
        conditions = list(deployment.status.conditions)
        self._status = msgspec.structs.replace(deployment.status, conditions=conditions)
        self._revision = deployment.metadata.annotations.get(REVISION)

    async def take(self) -> None:
        deployment = self._deployment
        if deployment.metadata.deletion_timestamp is not None:
            await self._write_status()
            return
        note_pause(deployment, self._status, self._controller.context.now())
        if self._new is not None:
            await self._keep_new(self._new)
        if deployment.spec.paused:
            await self._follow_size()
            await self._clean_up()
            await self._write_status()
        elif was_scaled(deployment, self._every()):
            await self._follow_size()
            await self._write_status()
        else:
            await (self._roll() if rolls(deployment) else self._recreate())
            await self._write_status(rolling_out=True)

    async def _follow_size(self) -> None:
        """The Deployment was scaled: ReplicaSets follow, and remember it even where they stay as they are."""
        await self._scale_to(sizes_when_scaled(self._deployment, self._new, self._old), remember=True)

    def _every(self) -> list[ReplicaSet]:
        return self._old if self._new is None else [*self._old, self._new]

    # ---- rolling out

    async def _roll(self) -> None:
        """One step: let the new ReplicaSet grow if it may, else old ones shrink, else clean up."""
        deployment = self._deployment
        new = self._new or await self._create_new()
        if new is None:
            return
        size = size_of_new(deployment, new.spec.replicas, total_size(self._every()))
        if await self._scale_to([(new, size)]):
            return
        if await self._scale_to(sizes_of_old(deployment, new, self._old)):
            return
        await self._clean_up_if_complete()

    async def _recreate(self) -> None:
        """First all old pods go, then the new ones come."""
        if await self._scale_to([(rs, 0) for rs in self._old if rs.spec.replicas > 0]):
            return
        if self._old_pods_left():
            return
        new = self._new or await self._create_new()
        if new is None:
            return
        await self._scale_to([(new, self._deployment.spec.replicas)])
        await self._clean_up_if_complete()

    def _old_pods_left(self) -> bool:
        pods = self._controller.pods
        return any(
            rs.status.replicas or any(not pod.finished for pod in pods.controlled_by(rs.uid))
            for rs in self._old
        )

    async def _clean_up_if_complete(self) -> None:
        if complete(self._deployment, self._deployment.status):
            await self._clean_up()

    async def _clean_up(self) -> None:
        for rs in outdated(self._deployment, self._old):
            await self._controller.delete(self._controller.replica_sets, rs)

    # ---- ReplicaSets

    async def _keep_new(self, new: ReplicaSet) -> None:
        """Have the ReplicaSet of the present template know its revision and what the Deployment passes on."""
        deployment = self._deployment
        present = new.metadata.annotations
        annotations = annotations_of_new(deployment, present, next_revision(self._old))
        patch: dict[str, Any] = {}
        if annotations != present:
            patch["metadata"] = {"annotations": annotations}
        if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
            patch["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
        if patch:
            self._new = new = await self._patch(new, patch)
        self._revision = new.metadata.annotations.get(REVISION, "")
        if has_deadline(deployment) and condition_of(self._status, PROGRESSING) is None:
            self._progressing("FoundNewReplicaSet", f'Found new replica set "{new.name}"')

    async def _create_new(self) -> ReplicaSet | None:
        """Create the ReplicaSet of the present template. None where its name is another's."""
        controller, deployment = self._controller, self._deployment
        size = size_of_new(deployment, 0, total_size(self._old))
        revision = next_revision(self._old)
        owner = controller_reference(DEPLOYMENTS, deployment)
        body = replica_set_body(deployment, size, revision, owner)
        name = body["metadata"]["name"]
        try:
            new = await controller.create(controller.replica_sets, body, deployment.namespace)
        except ApiError as refusal:
            if refusal.conflict:
                return await self._resolve_conflict(name)
            if not refusal.namespace_terminating:
                await self._record_refusal(name, refusal)
            raise
        self._new = new
        if size > 0:
            self._event("Normal", "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {size}")
        self._revision = str(revision)
        if has_deadline(deployment):
            self._progressing("NewReplicaSetCreated", f'Created new replica set "{name}"')
        return new

    async def _resolve_conflict(self, name: str) -> ReplicaSet | None:
        """There is a ReplicaSet of this name: ours, if the answer to an earlier request was lost. Otherwise
        the Deployment counts a collision, which makes for another name."""
        controller, deployment = self._controller, self._deployment
        existing = await controller.cluster.get(REPLICA_SETS, name, deployment.namespace)
        owner = existing.metadata.controller()
        if owner is not None and owner.uid == deployment.uid and split(deployment, [existing])[0] is existing:
            controller.replica_sets.wrote(existing)
            self._new = existing
            self._revision = existing.metadata.annotations.get(REVISION, "")
            return existing
        self._status.collision_count = (self._status.collision_count or 0) + 1
        return None

    async def _record_refusal(self, name: str, refusal: ApiError) -> None:
        message = f'Failed to create new replica set "{name}": {refusal}'
        if has_deadline(self._deployment):
            self._progressing("ReplicaSetCreateError", message, "False")
            await self._write(self._status)
        self._event("Warning", "ReplicaSetCreateError", message)

    async def _scale_to(self, sizes: Sizes, *, remember: bool = False) -> bool:
        """Give ReplicaSets their sizes. Returns whether any changed."""
        annotations = replicas_annotations(self._deployment)
        changed = False
        for rs, size in sizes:
            before = rs.spec.replicas
            is_current = annotations.items() <= rs.metadata.annotations.items()
            if size == before and (is_current or not remember):
                continue
            patch = {"metadata": {"annotations": annotations}, "spec": {"replicas": size}}
            self._put(await self._patch(rs, patch))
            if size != before:
                changed = True
                way = "up" if size > before else "down"
                note = f"Scaled {way} replica set {rs.name} from {before} to {size}"
                self._event("Normal", "ScalingReplicaSet", note)
        return changed

    def _put(self, written: ReplicaSet) -> None:
        if self._new is not None and self._new.uid == written.uid:
            self._new = written
        self._old = [written if rs.uid == written.uid else rs for rs in self._old]

    async def _patch(self, rs: ReplicaSet, patch: dict[str, Any]) -> ReplicaSet:
        controller = self._controller
        patch = {**patch, "metadata": {**patch.get("metadata", {}), "uid": rs.uid}}
        written = await controller.cluster.patch(REPLICA_SETS, rs.name, patch, rs.namespace)
        controller.replica_sets.wrote(written)
        return written

    # ---- telling

    def _event(self, type: str, reason: str, note: str) -> None:
        self._controller.event(self._controller.deployments, self._deployment, type, reason, note)

    def _progressing(self, reason: str, message: str, status: str = "True") -> None:
        now = self._controller.context.now()
        set_condition(self._status, condition(PROGRESSING, status, reason, message, now))

    async def _write_status(self, *, rolling_out: bool = False) -> None:
        deployment, context = self._deployment, self._controller.context
        stamp, now = context.now(), context.clock()
        status = counted(deployment, self._status, self._new, self._old, stamp)
        if rolling_out:
            note_progress(deployment, self._status, status, self._new, now, stamp)
            note_failures(status, self._new, self._old)
        await self._write(status)
        wait = next_check(deployment, status, now)
        if wait is not None:
            self._controller.enqueue(deployment.key, wait)

    async def _write(self, status: DeploymentStatus) -> None:
        """Write what changed, the revision along with it."""
        controller, deployment = self._controller, self._deployment
        patch: dict[str, Any] = {}
        changes = status_changes(deployment.status, status)
        if changes:
            patch["status"] = changes
        if self._revision != deployment.metadata.annotations.get(REVISION):
            patch["metadata"] = {"annotations": {REVISION: self._revision}}
        if not patch:
            return
        patch["metadata"] = {**patch.get("metadata", {}), "uid": deployment.uid}
        try:
            written = await controller.cluster.patch(
                DEPLOYMENTS, deployment.name, patch, deployment.namespace, subresource="status"
            )
        except ApiError as refusal:
            if not refusal.not_found:
                raise
        else:
            controller.deployments.wrote(written)
