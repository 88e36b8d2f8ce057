"""CronJobs: a Job whenever the schedule says so, and not too many of them kept."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from mooring.api.jobs import CronJob, CronJobStatus, Job
from mooring.api.kinds import CRON_JOBS, JOBS
from mooring.api.meta import ObjectReference, OwnerReference
from mooring.api.times import format_time
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.cron_starts import UnclearScheduleError, find_due, zone_of
from mooring.sandbox.controllers.owning import controller_reference
from mooring.sandbox.controllers.statuses import status_changes

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY = 100  # starts missed in a row, which is recorded


class CronJobController(Controller):
    name = "cronjob-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.cron_jobs = self.cache.follow(CRON_JOBS)
        self.jobs = self.cache.follow(JOBS)
        self.cron_jobs.subscribe(self._cron_job_changed)
        self.jobs.subscribe(self._job_changed)

    def _cron_job_changed(self, old: CronJob | None, new: CronJob | None) -> None:
        if new is None or self.is_own(new):
            return
        after = 0.0
        if old is not None and _timing(old) != _timing(new):
            # a new schedule holds from now on: what it would have said before does not count
            with suppress(UnclearScheduleError):  # reported when it is synced
                after = find_due(new, self.context.clock()).wait
        self.enqueue(new.key, after)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        """A Job matters when it comes, when it ends, and when it goes although it is active."""
        changed = new or old
        owner = None if changed is None else changed.metadata.controller()
        if changed is None or owner is None or owner.kind != "CronJob" or self.is_own(new):
            return
        if old is not None and new is not None and old.finished == new.finished and _controls(owner, old):
            return
        cron_job = self.cron_jobs.get(f"{changed.namespace}/{owner.name}")
        if cron_job is None or cron_job.uid != owner.uid:
            return
        if new is not None or any(one.uid == changed.uid for one in cron_job.status.active):
            self.enqueue(cron_job.key)

    async def sync(self, key: str) -> None:
        cron_job = self.cron_jobs.get(key)
        if cron_job is None:
            return
        status = msgspec.structs.replace(cron_job.status, active=list(cron_job.status.active))
        jobs = self.jobs.controlled_by(cron_job.uid)
        try:
            await self._clean_up(cron_job, jobs)
            self._look_after(cron_job, jobs, status)
            if cron_job.metadata.deletion_timestamp is None and not cron_job.spec.suspend:
                await self._start(cron_job, status)
        except UnclearScheduleError as problem:
            reason, note = problem.args
            self.event(self.cron_jobs, cron_job, "Warning", reason, note)
        finally:
            await self._write(cron_job, status)

    # ---- the Jobs there are

    async def _clean_up(self, cron_job: CronJob, jobs: list[Job]) -> None:
        """Of the Jobs that ended, keep only the latest."""
        limits = {
            "Complete": cron_job.spec.successful_jobs_history_limit,
            "Failed": cron_job.spec.failed_jobs_history_limit,
        }
        there = [job for job in jobs if job.status.conditions and not job.metadata.deletion_timestamp]
        for type, limit in limits.items():
            if limit is None or len(there) <= limit:
                continue
            ended = [job for job in there if job.condition(type)]
            ended.sort(key=lambda job: (job.status.start_time is None, job.status.start_time or "", job.name))
            for job in ended[: max(0, len(ended) - limit)]:
                await self._delete(cron_job, job)

    async def _delete(self, cron_job: CronJob, job: Job) -> None:
        """Delete a Job, and its pods with it: by itself the API server would let them be."""
        try:
            await self.cluster.delete(
                JOBS, job.name, job.namespace, uid=job.uid, propagation_policy="Background"
            )
        except ApiError as refusal:
            if not refusal.not_found:
                self.event(self.cron_jobs, cron_job, "Warning", "FailedDelete", f"Deleted job: {refusal}")
                raise
        self.jobs.deleting(job, self.context.now())
        self.event(self.cron_jobs, cron_job, "Normal", "SuccessfulDelete", f"Deleted job {job.name}")

    def _look_after(self, cron_job: CronJob, jobs: list[Job], status: CronJobStatus) -> None:
        """Put down which Jobs are active, and when one last succeeded."""
        active = {one.uid: one for one in status.active}
        for job in jobs:
            ended = job.finished
            if ended is None:
                if job.uid not in active and job.metadata.deletion_timestamp is None:
                    note = f"Saw a job that the controller did not create or forgot: {job.name}"
                    self.event(self.cron_jobs, cron_job, "Warning", "UnexpectedJob", note)
                continue
            if active.pop(job.uid, None) is not None:
                note = f"Saw completed job: {job.name}, condition: {ended.type}"
                self.event(self.cron_jobs, cron_job, "Normal", "SawCompletedJob", note)
            if ended.type == "Complete" and job.status.completion_time is not None:
                last = status.last_successful_time
                status.last_successful_time = max(last or "", job.status.completion_time)
        there = {job.uid for job in jobs}
        for missing in [one for one in active.values() if one.uid not in there]:
            del active[missing.uid]
            note = f"Active job went missing: {missing.name}"
            self.event(self.cron_jobs, cron_job, "Normal", "MissingJob", note)
        status.active = list(active.values())

    # ---- the next one

    async def _start(self, cron_job: CronJob, status: CronJobStatus) -> None:
        """Create the Job that is due, if any, and come back for the next."""
        now = self.context.clock()
        due = find_due(cron_job, now)
        self.enqueue(cron_job.key, max(due.wait, 0.001))
        if due.time is None:
            return
        if due.missed > MANY:
            note = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds"
            note += " or check clock skew"
            self.event(self.cron_jobs, cron_job, "Warning", "TooManyMissedTimes", note)
        deadline = cron_job.spec.starting_deadline_seconds
        if deadline is not None and due.time + deadline < now:
            note = f"Missed scheduled time to start a job: {_rfc1123(due.time)}"
            self.event(self.cron_jobs, cron_job, "Warning", "MissSchedule", note)
            return
        if status.active and cron_job.spec.concurrency_policy == "Forbid":
            note = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.event(self.cron_jobs, cron_job, "Normal", "JobAlreadyActive", note)
            return
        if cron_job.spec.concurrency_policy == "Replace":
            await self._replace(cron_job, status)
        job = await self._create(cron_job, due.time)
        if job is not None:
            status.active.append(_reference(job))
            status.last_schedule_time = format_time(due.time)

    async def _replace(self, cron_job: CronJob, status: CronJobStatus) -> None:
        for one in list(status.active):
            job = self.jobs.get(f"{one.namespace}/{one.name}")
            if job is not None and job.uid == one.uid:
                await self._delete(cron_job, job)
            status.active.remove(one)

    async def _create(self, cron_job: CronJob, time: float) -> Job | None:
        """Create the Job of a start time. Its name follows from the time, so it is not created twice. Return
        None if the name is taken by another object."""
        body = job_body(cron_job, time)
        try:
            job = await self.create(self.jobs, body, cron_job.namespace)
        except ApiError as refusal:
            if refusal.reason == "AlreadyExists":
                job = await self.cluster.get(JOBS, body["metadata"]["name"], cron_job.namespace)
                owner = job.metadata.controller()
                return job if owner is not None and owner.uid == cron_job.uid else None
            if not refusal.namespace_terminating:
                self.event(
                    self.cron_jobs, cron_job, "Warning", "FailedCreate", f"Error creating job: {refusal}"
                )
            raise
        self.event(self.cron_jobs, cron_job, "Normal", "SuccessfulCreate", f"Created job {job.name}")
        return job

    async def _write(self, cron_job: CronJob, status: CronJobStatus) -> None:
        patch = status_changes(cron_job.status, status)
        if patch:
            await self.write_status(self.cron_jobs, cron_job, status, patch)


def _controls(owner: OwnerReference, job: Job) -> bool:
    """Whether a Job had this owner before, too."""
    return job.metadata.controller() == owner


def _timing(cron_job: CronJob) -> tuple[str, str | None]:
    return cron_job.spec.schedule, cron_job.spec.time_zone


def job_name(cron_job: CronJob, time: float) -> str:
    """The name of the Job of a start time."""
    return f"{cron_job.name}-{int(time // 60)}"


def job_body(cron_job: CronJob, time: float) -> dict[str, Any]:
    """The Job of a start time."""
    template = cron_job.spec.job_template
    metadata = template.get("metadata") or {}
    moment = datetime.fromtimestamp(time, zone_of(cron_job)).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(cron_job, time),
            "labels": metadata.get("labels") or {},
            "annotations": {**(metadata.get("annotations") or {}), SCHEDULED_AT: moment},
            "ownerReferences": [controller_reference(CRON_JOBS, cron_job)],
        },
        "spec": template.get("spec") or {},
    }


def _reference(job: Job) -> ObjectReference:
    return ObjectReference(
        api_version=JOBS.api_version,
        kind="Job",
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        resource_version=job.metadata.resource_version,
    )


def _rfc1123(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
