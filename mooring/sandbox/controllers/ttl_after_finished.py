"""Finished Jobs go after a while, where they say so."""

from __future__ import annotations

from mooring.api.jobs import Job
from mooring.api.kinds import JOBS
from mooring.api.times import parse_time
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller


class TTLAfterFinishedController(Controller):
    name = "ttl-after-finished-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.jobs = self.cache.follow(JOBS)
        self.jobs.subscribe(self._job_changed)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        if new is not None and new.spec.ttl_seconds_after_finished is not None and new.finished is not None:
            self.enqueue(new.key)

    async def sync(self, key: str) -> None:
        job = self.jobs.get(key)
        if job is None or (left := self._left(job)) is None:
            return
        if left > 0:
            self.enqueue(key, left)
            return
        try:
            await self.cluster.delete(
                JOBS, job.name, job.namespace, uid=job.uid, propagation_policy="Foreground"
            )
        except ApiError as refusal:
            if not (refusal.not_found or refusal.conflict):
                raise

    def _left(self, job: Job) -> float | None:
        """For how many seconds a Job may stay; None where it may for ever."""
        finished, limit = job.finished, job.spec.ttl_seconds_after_finished
        if finished is None or limit is None or job.metadata.deletion_timestamp is not None:
            return None
        since = finished.last_transition_time
        return None if since is None else parse_time(since) + limit - self.context.clock()
