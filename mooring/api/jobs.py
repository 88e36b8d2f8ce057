"""Job and CronJob."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.meta import Condition, KubeObject, LabelSelector, ObjectReference, Struct, Value


class OnExitCodes(Value, frozen=True):
    container_name: str | None = None
    operator: str = ""
    values: list[int] = []


class OnPodCondition(Value, frozen=True):
    type: str = ""
    status: str = "True"


class PodFailurePolicyRule(Value, frozen=True):
    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: list[OnPodCondition] = []


class PodFailurePolicy(Value, frozen=True):
    rules: list[PodFailurePolicyRule] = []


class SuccessPolicyRule(Value, frozen=True):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Value, frozen=True):
    rules: list[SuccessPolicyRule] = []


class JobSpec(Struct):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    selector: LabelSelector | None = None
    template: dict[str, Any] = {}
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    success_policy: SuccessPolicy | None = None
    managed_by: str = "kubernetes.io/job-controller"


class UncountedTerminatedPods(Value, frozen=True):
    """The uids of pods that are done, but whose finalizer may still be there: they count once it is gone."""

    succeeded: list[str] = []
    failed: list[str] = []


class JobStatus(Struct):
    conditions: list[Condition] = []
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    ready: int | None = None
    terminating: int | None = None
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(KubeObject):
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)

    def condition(self, type: str) -> Condition | None:
        """The condition of a type, where it holds."""
        for condition in self.status.conditions:  # asked many times a Job: a loop is the quickest
            if condition.type == type and condition.status == "True":
                return condition
        return None

    @property
    def finished(self) -> Condition | None:
        conditions = self.status.conditions
        return (self.condition("Complete") or self.condition("Failed")) if conditions else None

    @property
    def indexed(self) -> bool:
        return self.spec.completion_mode == "Indexed"


class CronJobSpec(Struct):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: dict[str, Any] = {}
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(Struct):
    active: list[ObjectReference] = []
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(KubeObject):
    spec: CronJobSpec = msgspec.field(default_factory=CronJobSpec)
    status: CronJobStatus = msgspec.field(default_factory=CronJobStatus)
