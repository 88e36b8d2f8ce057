"""Jobs: pods that run to their end, as often as needed, counted once each."""

from __future__ import annotations

import asyncio
from itertools import islice

import msgspec

from mooring.api.groups import PodGroup
from mooring.api.jobs import Job, JobStatus, UncountedTerminatedPods
from mooring.api.kinds import JOBS, PODS
from mooring.api.meta import Condition, LabelSelector
from mooring.api.objects import Pod
from mooring.api.selectors import Selector, compile_selector
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.controller import Context, Controller
from mooring.client.port import PatchType
from mooring.sandbox.controllers.deletion_order import pods_to_delete
from mooring.sandbox.controllers.job_groups import JobGroups, join
from mooring.sandbox.controllers.job_pods import (
    FINALIZER,
    Backoff,
    Moulds,
    counts,
    finished_at,
    has_failed,
    has_finalizer,
    index_of,
    waits_for_failed,
)
from mooring.sandbox.controllers.job_tally import COMPLETE, Finish, Tally, deadline_in, finish_of, indexes_of
from mooring.sandbox.controllers.owning import Claims, controller_reference
from mooring.sandbox.controllers.pod_controller import PodController
from mooring.sandbox.controllers.statuses import status_changes

OURS = "kubernetes.io/job-controller"
BATCH = 1.0  # seconds for which changes of pods are gathered
MOST_UNCOUNTED = 500  # pods that a status lists at a time
BURST = 500  # pods created or deleted by one sync
TURN = 32  # pods before others on the event loop have their turn


class JobController(PodController[Job]):
    name = "job-controller"

    def __init__(self, context: Context, *, with_groups: bool = False) -> None:
        self._backoffs: dict[str, Backoff] = {}
        self._selectors: dict[str, tuple[LabelSelector | None, Selector]] = {}
        self._released: set[str] = set()  # uids of pods that we let go, until the cache shows it
        super().__init__(context, JOBS)
        self._groups = JobGroups(self) if with_groups else None

    def selector_of(self, owner: Job) -> Selector:
        label_selector, key = owner.spec.selector, owner.key
        of, selector = self._selectors.get(key, (None, None))
        if selector is None or of != label_selector:
            selector = compile_selector(label_selector)
            self._selectors[key] = label_selector, selector
        return selector

    def owner_changed(self, old: Job | None, new: Job | None) -> None:
        """What others say in a status is no reason to hurry; what we said ourselves, none to look again."""
        if new is None or new.finished is not None:
            changed = new or old
            assert changed is not None
            self._forget(changed.key)
        elif not self.is_own(new):
            same = old is not None and old.metadata.generation == new.metadata.generation
            self.enqueue(new.key, BATCH if same else 0.0)

    def _forget(self, key: str) -> None:
        self._backoffs.pop(key, None)
        self._selectors.pop(key, None)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or not has_finalizer(new)):
            self._released.discard(old.uid)
        super().pod_changed(old, new)

    def pod_of_changed(self, key: str, old: Pod | None, new: Pod | None) -> None:
        self.enqueue(key, BATCH)

    def _tracked(self, pod: Pod) -> bool:
        return has_finalizer(pod) and pod.uid not in self._released

    def _tally(self, job: Job) -> Tally:
        pods = self.pods.controlled_by(job.uid)
        return Tally(job, pods, self._tracked, self.context.clock())

    async def sync(self, key: str) -> None:
        job = self.owners.get(key)
        if job is None or job.finished is not None or job.spec.managed_by != OURS:
            self._forget(key)
            return
        await _Adopting(self, self.owners, job, self.selector_of(job), self.pods).claim()
        tally = self._tally(job)
        group = None
        if self._groups is not None:
            group = await self._groups.group_for(job, self.pods.controlled_by(job.uid))
        status = msgspec.structs.replace(job.status, conditions=list(job.status.conditions))
        failure: ClusterError | None = None
        finish, dropped = finish_of(tally), set[str]()
        if finish is not None:
            dropped = {pod.uid for pod in tally.active}
            await self._delete_all(job, tally.active)
        elif job.metadata.deletion_timestamp is None:
            try:
                await self._manage(tally, self._backoff(tally), group)
            except ClusterError as refusal:
                failure = refusal
        if self.pods.controlled_by(job.uid) != tally.pods:
            tally = self._tally(job)
        if finish is None:
            finish = _completion(tally)
            if finish is None and job.metadata.deletion_timestamp is None:
                self._note_suspension(job, status)
        if status.start_time is None and not job.spec.suspend:
            status.start_time = self.context.now()
        status.active, status.ready = len(tally.active), tally.ready
        status.terminating = len(tally.terminating)
        await _Counting(self, tally, status, finish, dropped).run(self._backoff(tally))
        self._set_timers(job)
        if failure is not None:
            raise failure

    def _set_timers(self, job: Job) -> None:
        current = self.owners.get(job.key)
        left = None if current is None else deadline_in(current, self.context.clock())
        if left is not None and current is not None and current.finished is None:
            self.enqueue(job.key, max(left, 0.001))

    def _backoff(self, tally: Tally) -> Backoff:
        backoff = self._backoffs.get(tally.job.key, Backoff())
        ends = [
            [finished_at(pod, tally.now) for pod in pods] for pods in (tally.new_succeeded, tally.new_failed)
        ]
        return backoff.after(*ends)

    def remember(self, job: Job, backoff: Backoff) -> None:
        """Failures are known for certain once the status has them."""
        self._backoffs[job.key] = backoff

    def _note_suspension(self, job: Job, status: JobStatus) -> None:
        """Update the condition Suspended of a Job; its start time is reset when it resumes."""
        now = self.context.now()
        suspended = next((each for each in status.conditions if each.type == "Suspended"), None)
        if job.spec.suspend == (suspended is not None and suspended.status == "True"):
            return
        word = "suspended" if job.spec.suspend else "resumed"
        self.event(self.owners, job, "Normal", word.capitalize(), f"Job {word}")
        status.start_time = None if job.spec.suspend else now
        said = "True" if job.spec.suspend else "False"
        changed = _condition("Suspended", said, f"Job{word.capitalize()}", f"Job {word}", now)
        if suspended is None:
            status.conditions.append(changed)
        else:
            status.conditions[status.conditions.index(suspended)] = changed

    # ---- pods

    async def _manage(self, tally: Tally, backoff: Backoff, group: PodGroup | None) -> None:
        """As many pods as there are to be: fewer at once, more after a pause for every failure."""
        job, active = tally.job, len(tally.active)
        desired = _wanted(tally)
        surplus = _surplus(tally, active - desired)[:BURST]
        if surplus:
            for pod in surplus:
                await self.release(pod)  # it did not fail and is not counted
            await self._delete_all(job, surplus)
            return
        missing = desired - active - (len(tally.terminating) if waits_for_failed(job) else 0)
        if missing <= 0:
            return
        per_index = job.spec.backoff_limit_per_index is not None
        if not per_index and (wait := backoff.remaining(tally.now)) > 0:
            self.enqueue(job.key, max(wait, BATCH))
            return
        missing = min(missing, BURST)  # the pods that are created lead to the next sync
        moulds = Moulds(job)
        if not job.indexed:
            bodies = [moulds.body() for _ in range(missing)]
        else:
            indexes = _pending_indexes(tally, missing)
            if per_index:
                indexes = self._due_indexes(tally, indexes)
            bodies = [moulds.body_of(index, tally.delayed.get(index)) for index in indexes]
        for number, body in enumerate(bodies, 1):
            if group is not None:
                join(body, group)
            try:
                await self.create_pod(job, body)
            except ApiError as refusal:
                if not refusal.namespace_terminating:
                    raise
            if number % TURN == 0:
                await asyncio.sleep(0)

    def _due_indexes(self, tally: Tally, indexes: list[int]) -> list[int]:
        """The indexes whose pause after a failure is over; if none is, they are looked at when one is."""
        waits = {index: Backoff(*tally.failures_at(index)).remaining(tally.now) for index in indexes}
        due = [index for index in indexes if not waits[index]]
        if not due and waits:
            self.enqueue(tally.job.key, max(min(waits.values()), BATCH))
        return due

    async def _delete_all(self, job: Job, pods: list[Pod]) -> None:
        for number, pod in enumerate(pods, 1):
            await self.delete_pod(job, pod)
            if number % TURN == 0:
                await asyncio.sleep(0)

    async def release(self, pod: Pod) -> None:
        """Take our finalizer off a pod."""
        if self._tracked(pod):
            self._released.add(pod.uid)
            try:
                await release(self, pod)
            except ClusterError:
                self._released.discard(pod.uid)
                raise


class _Counting:
    """Counts the pods that ended: each once, even if this process ends in between.

    First the status lists the pods to count, then their finalizers are removed, then they are counted.
    """

    def __init__(
        self,
        controller: JobController,
        tally: Tally,
        status: JobStatus,
        finish: Finish | None,
        dropped: set[str],
    ) -> None:
        self._controller = controller
        self._tally = tally
        self._job = tally.job
        self._status = status
        self._finish = finish
        self._dropped = dropped
        self._succeeded = list(tally.uncounted.succeeded)
        self._failed = list(tally.uncounted.failed)
        self._all = True  # whether no pod is left for the next sync

    async def run(self, backoff: Backoff) -> None:
        self._count({pod.uid for pod in self._tally.tracked})
        leaving = self._leaving()
        self._write_indexes()
        finish, status = self._finish, self._status
        if finish is not None and not any(each.type == finish.first for each in status.conditions):
            self._say(finish.first, finish)
        await self._flush()
        self._controller.remember(self._job, backoff)
        for number, pod in enumerate(leaving, 1):
            await self._controller.release(pod)
            if number % TURN == 0:
                await asyncio.sleep(0)
        gone = {pod.uid for pod in leaving}
        self._count({pod.uid for pod in self._tally.tracked if pod.uid not in gone})
        if not self._all or self._succeeded or self._failed or self._tally.terminating:
            finish = None  # not yet
        if finish is not None:
            self._say(finish.type, finish)
            if finish.type == "Complete":
                status.completion_time = self._controller.context.now()
        await self._flush()
        if finish is not None:
            self._record(finish)

    def _leaving(self) -> list[Pod]:
        """The pods to let go now; those that count from now on are put down."""
        tally, leaving = self._tally, []
        pods = tally.tracked
        if self._job.indexed:
            pods = sorted(pods, key=lambda pod: -1 if (index := index_of(pod)) is None else index)
        room = MOST_UNCOUNTED - len(self._succeeded) - len(self._failed)
        for pod in pods:
            if room <= 0:
                self._all = False
                break
            if self._may_go(pod):
                leaving.append(pod)
                room -= self._put_down(pod)
        return leaving

    def _may_go(self, pod: Pod) -> bool:
        if self._job.metadata.deletion_timestamp or self._finish or pod.status.phase == "Succeeded":
            return True
        index = index_of(pod)
        awaited = None if index is None else self._tally.delayed.get(index)
        return has_failed(self._job, pod) and (awaited is None or awaited.uid != pod.uid)

    def _put_down(self, pod: Pod) -> bool:
        """Whether the pod is new among those to be counted."""
        job = self._job
        if pod.status.phase == "Succeeded" and pod.uid not in self._failed:
            if job.indexed or pod.uid in self._succeeded:
                return job.indexed
            self._succeeded.append(pod.uid)
            return True
        ended = self._finish is not None and self._finish.type == "Failed"
        failed = has_failed(job, pod) and pod.uid not in self._dropped
        if not (failed or ended) or pod.uid in self._failed:
            return False
        if not self._tally.valid(pod) or not counts(job, pod):
            return False
        self._failed.append(pod.uid)
        return True

    def _count(self, tracked: set[str]) -> None:
        """Count the pods that the status lists and whose finalizers are removed."""
        status = self._status
        succeeded = [uid for uid in self._succeeded if uid in tracked]
        failed = [uid for uid in self._failed if uid in tracked]
        status.succeeded += len(self._succeeded) - len(succeeded)
        status.failed += len(self._failed) - len(failed)
        self._succeeded, self._failed = succeeded, failed

    def _write_indexes(self) -> None:
        status, tally = self._status, self._tally
        if self._job.indexed:
            status.succeeded = len(tally.succeeded_indexes)
            status.completed_indexes = str(tally.succeeded_indexes)
            if self._job.spec.backoff_limit_per_index is not None:
                status.failed_indexes = str(tally.failed_indexes)

    def _say(self, type: str, finish: Finish) -> None:
        now = self._controller.context.now()
        self._status.conditions.append(_condition(type, "True", finish.reason, finish.message, now))

    async def _flush(self) -> None:
        """Write the status, where it changed."""
        status, key = self._status, "uncountedTerminatedPods"
        status.uncounted_terminated_pods = UncountedTerminatedPods(
            succeeded=list(self._succeeded), failed=list(self._failed)
        )
        patch = status_changes(self._job.status, status)
        if key in patch:  # a merge patch merges what is in it, too
            patch[key] = {"succeeded": self._succeeded or None, "failed": self._failed or None}
        if patch:
            controller, job = self._controller, self._job
            self._job = await controller.write_status(controller.owners, job, status, patch)

    def _record(self, finish: Finish) -> None:
        job, event, jobs = self._job, self._controller.event, self._controller.owners
        if finish.type != "Complete":
            event(jobs, job, "Warning", finish.reason, finish.message)
            return
        if job.spec.completions is not None and job.status.succeeded > job.spec.completions:
            note = "Too many succeeded pods running after completion count reached"
            event(jobs, job, "Warning", "TooManySucceededPods", note)
        event(jobs, job, "Normal", "Completed", "Job completed")


class OrphanedJobPods(Controller):
    """Removes the finalizers of pods whose Job is gone or has ended: they will not be counted."""

    name = "job-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.jobs = self.cache.follow(JOBS)
        self.pods = self.cache.follow(PODS)
        self.jobs.subscribe(self._job_changed)
        self.pods.subscribe(self._pod_changed)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        if old is not None and (new is None or new.finished is not None or new.uid != old.uid):
            for pod in self.pods.controlled_by(old.uid):
                if has_finalizer(pod):
                    self.enqueue(pod.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and has_finalizer(new) and self._orphaned(new):
            self.enqueue(new.key)

    def _orphaned(self, pod: Pod) -> bool:
        owner = pod.metadata.controller()
        if owner is None:
            return True
        if owner.kind != "Job":
            return False
        job = self.jobs.get(f"{pod.namespace}/{owner.name}")
        if job is None or job.uid != owner.uid:
            return True
        return job.finished is not None and job.spec.managed_by == OURS

    async def sync(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is not None and has_finalizer(pod) and self._orphaned(pod):
            await release(self, pod)


class _Adopting(Claims[Job, Pod]):
    """Pods that a Job adopts are counted as those that it made."""

    async def _adopt(self, obj: Pod) -> Pod | None:
        await self._check_owner()
        owner = controller_reference(JOBS, self._owner)
        metadata = {"ownerReferences": [owner], "uid": obj.uid, "finalizers": [FINALIZER]}
        return await self._patch(obj, {"metadata": metadata})


async def release(controller: Controller, pod: Pod) -> None:
    """Remove the Job finalizer from a pod; no-op if the pod or the finalizer is gone."""
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    try:
        written = await controller.cluster.patch(
            PODS, pod.name, patch, pod.namespace, kind=PatchType.STRATEGIC
        )
    except ApiError as refusal:
        if not refusal.not_found:
            raise
    else:
        if written.metadata.deletion_timestamp is None:  # else it may be gone by now
            controller.cache.follow(PODS).wrote(written)


def _condition(type: str, status: str, reason: str, message: str, now: str) -> Condition:
    return Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        last_probe_time=now,
        last_transition_time=now,
    )


def _completion(tally: Tally) -> Finish | None:
    """Whether all has been done. Without a number of completions, one success is enough."""
    needed = tally.job.spec.completions
    enough = tally.succeeded > 0 if needed is None else tally.succeeded >= needed
    return COMPLETE if enough and not tally.active else None


def _wanted(tally: Tally) -> int:
    """How many pods are to be active."""
    spec = tally.job.spec
    if spec.suspend:
        return 0
    if spec.completions is None:
        return len(tally.active) if tally.succeeded else spec.parallelism
    return max(0, min(spec.completions - tally.succeeded, spec.parallelism))


def _surplus(tally: Tally, count: int) -> list[Pod]:
    """The pods to be removed: those of no use to an indexed Job, and others until there are enough."""
    useless: list[Pod] = []
    rest = tally.active
    if tally.job.indexed:
        by_index: dict[int | None, list[Pod]] = {}
        for pod in tally.active:
            by_index.setdefault(index_of(pod) if tally.valid(pod) else None, []).append(pod)
        useless = by_index.pop(None, [])
        for same in by_index.values():
            useless += pods_to_delete(same, (), len(same) - 1, tally.now)
        chosen = {pod.uid for pod in useless}
        rest = [pod for pod in tally.active if pod.uid not in chosen]
    more = max(0, count - len(useless))
    return useless + (pods_to_delete(rest, (), more, tally.now) if more else [])


def _pending_indexes(tally: Tally, count: int) -> list[int]:
    """Return the first indexes that have no active pod and are not finished."""
    job = tally.job
    taken = tally.succeeded_indexes | tally.failed_indexes | indexes_of(tally.active)
    if waits_for_failed(job):
        taken |= indexes_of(tally.terminating)
    return list(islice(taken.missing(job.spec.completions or 0), count))
