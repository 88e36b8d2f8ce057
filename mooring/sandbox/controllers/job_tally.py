"""Jobs counted: how many of their pods run, succeeded and failed, and whether that is the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mooring.api.jobs import Job, UncountedTerminatedPods
from mooring.api.objects import Pod
from mooring.api.times import parse_time
from mooring.sandbox.controllers.job_indexes import IndexSet, parse_indexes
from mooring.sandbox.controllers.job_pods import (
    counts,
    failures_of,
    finished_at,
    has_failed,
    index_of,
    rule_on,
)


class Finish(NamedTuple):
    """How a Job ends: the type of its last condition, Complete or Failed, with reason and message."""

    type: str
    reason: str
    message: str

    @property
    def first(self) -> str:
        """The condition that says so while pods are still to be counted, or to go."""
        return "SuccessCriteriaMet" if self.type == "Complete" else "FailureTarget"


COMPLETE = Finish("Complete", "CompletionsReached", "Reached expected number of succeeded pods")


class Tally:
    """A Job's pods by state. `tracked` are those that are not counted yet or still have their finalizer."""

    def __init__(self, job: Job, pods: list[Pod], tracked: Callable[[Pod], bool], now: float) -> None:
        self.job = job
        self.pods = pods
        self.now = now
        self.active = [pod for pod in pods if pod.active]
        self.ready = sum(pod.ready for pod in self.active)
        self.terminating = [pod for pod in pods if pod.terminating and not pod.finished]
        self.tracked = [pod for pod in pods if tracked(pod)]
        valid = [pod for pod in self.tracked if self.valid(pod)]
        self.all_failed = [pod for pod in valid if has_failed(job, pod)]
        self.uncounted = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
        counted = {*self.uncounted.succeeded, *self.uncounted.failed}
        succeeded = [pod for pod in valid if pod.status.phase == "Succeeded"]
        self.new_succeeded = [pod for pod in succeeded if pod.uid not in counted]
        self.new_failed = [pod for pod in self.all_failed if pod.uid not in counted]
        self.failed = job.status.failed + len(self.uncounted.failed)
        self.failed += sum(counts(job, pod) for pod in self.new_failed)
        self.succeeded = job.status.succeeded + len(self.uncounted.succeeded) + len(self.new_succeeded)
        self.succeeded_indexes = self.failed_indexes = IndexSet()
        self.delayed: dict[int, Pod] = {}
        if job.indexed:
            self._count_indexes(succeeded)

    def valid(self, pod: Pod) -> bool:
        """Whether a pod counts at all: those of an indexed Job need an index."""
        index = index_of(pod)
        return not self.job.indexed or (index is not None and index < (self.job.spec.completions or 0))

    def _count_indexes(self, succeeded: list[Pod]) -> None:
        job, completions = self.job, self.job.spec.completions or 0
        counted = parse_indexes(job.status.completed_indexes, completions)
        self.succeeded_indexes = counted | indexes_of(succeeded)
        self.succeeded = len(self.succeeded_indexes)
        if job.spec.backoff_limit_per_index is None:
            return
        limit = job.spec.backoff_limit_per_index
        counted = parse_indexes(job.status.failed_indexes or "", completions)
        self.failed_indexes = counted | indexes_of(
            [pod for pod in self.all_failed if self._index_failed(pod, limit)]
        )
        self._delay()

    def _index_failed(self, pod: Pod, limit: int) -> bool:
        action = rule_on(self.job, pod).action
        return action == "FailIndex" or (action != "Ignore" and failures_of(pod) >= limit)

    def _delay(self) -> None:
        """Failed pods stay until another takes the place: it has to know how often its index failed."""
        settled = self.succeeded_indexes | self.failed_indexes | indexes_of(self.active)
        for pod in sorted(self.all_failed, key=lambda pod: (_tries(pod), finished_at(pod, self.now))):
            index = index_of(pod)
            if index is not None and index not in settled:
                self.delayed[index] = pod

    def failures_at(self, index: int) -> tuple[int, float]:
        """How often an index failed in a row, and when last."""
        pod = self.delayed.get(index)
        return (0, 0.0) if pod is None else (_tries(pod) + 1, finished_at(pod, self.now))


def indexes_of(pods: list[Pod]) -> IndexSet:
    return IndexSet.of(index for pod in pods if (index := index_of(pod)) is not None)


def _tries(pod: Pod) -> int:
    return failures_of(pod) + failures_of(pod, ignored=True)


# ---- the end ------------------------------------------------------------------------------------


def finish_of(tally: Tally) -> Finish | None:
    """Whether and how a Job ends, leaving aside that all its completions may be reached."""
    job = tally.job
    if met := job.condition("SuccessCriteriaMet"):
        return Finish("Complete", met.reason, met.message)
    if target := job.condition("FailureTarget"):
        return Finish("Failed", target.reason, target.message)
    for pod in tally.pods if job.spec.pod_failure_policy is not None else ():
        if has_failed(job, pod) and (ruling := rule_on(job, pod)).action == "FailJob":
            return Finish("Failed", "PodFailurePolicy", ruling.message)
    if tally.failed > job.spec.backoff_limit or _restarted_too_often(tally):
        return Finish("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if (left := deadline_in(job, tally.now)) is not None and left <= 0:
        return Finish("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    return _by_indexes(tally) if job.indexed else None


def deadline_in(job: Job, now: float) -> float | None:
    """In how many seconds a Job will have been active for too long."""
    limit, start = job.spec.active_deadline_seconds, job.status.start_time
    if limit is None or start is None or job.spec.suspend:
        return None
    return parse_time(start) + limit - now


def _restarted_too_often(tally: Tally) -> bool:
    """Where containers restart in their pods, restarts are what counts."""
    job = tally.job
    if (job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in tally.pods
        if pod.status.phase in ("Running", "Pending")
        for status in [*pod.status.init_container_statuses, *pod.status.container_statuses]
    )
    return restarts >= max(job.spec.backoff_limit, 1)


def _by_indexes(tally: Tally) -> Finish | None:
    job, failed = tally.job, len(tally.failed_indexes)
    if job.spec.max_failed_indexes is not None and failed > job.spec.max_failed_indexes:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Finish("Failed", "MaxFailedIndexesExceeded", message)
    if failed and failed + len(tally.succeeded_indexes) >= (job.spec.completions or 0):
        return Finish("Failed", "FailedIndexes", "Job has failed indexes")
    for number, rule in enumerate(job.spec.success_policy.rules if job.spec.success_policy else ()):
        succeeded, needed = tally.succeeded_indexes, rule.succeeded_count
        if rule.succeeded_indexes is not None:
            indexes = parse_indexes(rule.succeeded_indexes, job.spec.completions or 0)
            if not indexes:
                continue
            succeeded = succeeded & indexes
            needed = len(indexes) if needed is None else needed
        if needed is not None and succeeded and len(succeeded) >= needed:
            return Finish("Complete", "SuccessPolicy", f"Matched rules at index {number}")
    return None
