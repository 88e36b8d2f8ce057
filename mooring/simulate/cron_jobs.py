"""CronJobs at depth `core`: Jobs by a schedule, created when their time has come."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.api.jobs import CronJob
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.api.times import format_time
from mooring.sandbox.controllers.cron_job import job_name
from mooring.sandbox.controllers.cron_starts import find_due
from mooring.simulate.controlled import Controlled
from mooring.simulate.engine import START, CoreRun
from mooring.simulate.jobs import CoreJob, JobRun


class CoreCronJob(Controlled, kw_only=True):
    """A CronJob, and the Job that it creates again and again."""

    cron_job: CronJob
    job: CoreJob

    def begin(self, run: CoreRun) -> CronJobRun:
        return CronJobRun(run, self)


def first_endless(objects: Iterable[KubeObject]) -> CoreCronJob | None:
    """The first CronJob that creates Jobs as long as a run lasts."""
    return next(
        (obj for obj in objects if isinstance(obj, CoreCronJob) and not obj.cron_job.spec.suspend), None
    )


class CronJobRun:
    """A CronJob during a run. Its Jobs share a template."""

    def __init__(self, run: CoreRun, plan: CoreCronJob) -> None:
        self._run = run
        self._follow(plan.job)
        created = format_time(START + run.clock.now)
        metadata = msgspec.structs.replace(plan.cron_job.metadata, creation_timestamp=created)
        status = msgspec.structs.replace(plan.cron_job.status, last_schedule_time=None)
        self._cron_job = msgspec.structs.replace(plan.cron_job, metadata=metadata, status=status)
        self._active: list[JobRun] = []
        self._timer: int | None = None
        self._sync()

    def change(self, obj: KubeObject) -> None:
        """Follow a change. A new schedule holds from now on: what it would have said before does not
        count."""
        assert isinstance(obj, CoreCronJob)
        old = self._cron_job.spec
        self._follow(obj.job)
        self._cron_job = msgspec.structs.replace(self._cron_job, spec=obj.cron_job.spec)
        new = self._cron_job.spec
        if (old.schedule, old.time_zone) != (new.schedule, new.time_zone):
            self._plan_sync(find_due(self._cron_job, START + self._run.clock.now).wait)
        else:
            self._sync()

    def _follow(self, job: CoreJob) -> None:
        self._run.templates.append(job.template)
        self._job, self._template = job, len(self._run.templates) - 1

    def adopt(self, row: int, pod: Pod) -> None:
        """No-op: its pods belong to its Jobs."""

    def stop(self) -> None:
        self._cancel()
        for job in self._active:
            job.stop()

    def _plan_sync(self, wait: float) -> None:
        self._cancel()
        time = round(self._run.clock.now + wait, 6)
        if time < self._run.until:
            self._timer = self._run.start_timer(time, self._fall_due)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._run.cancel_timer(self._timer)
            self._timer = None

    def _fall_due(self) -> None:
        self._timer = None
        self._sync()

    def _sync(self) -> None:
        spec, now = self._cron_job.spec, START + self._run.clock.now
        if spec.suspend:
            self._cancel()
            return
        self._active = [job for job in self._active if not job.finished]
        due = find_due(self._cron_job, now)
        self._plan_sync(due.wait)
        if due.time is None or (self._active and spec.concurrency_policy == "Forbid"):
            return
        if spec.concurrency_policy == "Replace":
            for job in self._active:
                self._run.afterwards(job.stop)  # pods end while those of the next Job are scheduled already
            self._active.clear()
        self._cron_job.status.last_schedule_time = format_time(due.time)
        name = job_name(self._cron_job, due.time)
        on_finish = self._sync if spec.concurrency_policy == "Forbid" else None  # for a start that it missed
        self._active.append(JobRun(self._run, self._job, name, self._template, on_finish))
