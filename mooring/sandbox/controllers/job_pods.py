"""The pods of Jobs: what became of them, and how new ones are made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from mooring.api.jobs import Job, OnExitCodes, OnPodCondition, PodFailurePolicyRule
from mooring.api.kinds import JOBS
from mooring.api.meta import Condition, Tree
from mooring.api.objects import ContainerStatus, Pod
from mooring.api.times import parse_time
from mooring.sandbox.controllers.owning import controller_reference
from mooring.sandbox.controllers.templates import pod_of

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""Keeps a pod from going before its Job has counted it."""
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"

FIRST_BACKOFF = 10.0  # seconds after a failure until the next pod; doubles with every failure in a row
LAST_BACKOFF = 600.0
_LONGEST_GENERATED = 58


# ---- what became of pods ------------------------------------------------------------------------


def has_finalizer(pod: Pod) -> bool:
    return FINALIZER in pod.metadata.finalizers


def waits_for_failed(job: Job) -> bool:
    """Whether a pod is replaced only once it has failed, not as soon as it is being deleted."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def has_failed(job: Job, pod: Pod) -> bool:
    """Pods that are deleted count as failed: some never get to say so themselves."""
    if pod.status.phase == "Failed":
        return True
    return pod.terminating and pod.status.phase != "Succeeded" and not waits_for_failed(job)


def index_of(pod: Pod) -> int | None:
    """The completion index of a pod."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if _is_number(text) else None


def failures_of(pod: Pod, *, ignored: bool = False) -> int:
    """How often pods of the same index had failed before this one; those that did not count on request."""
    text = pod.metadata.annotations.get(IGNORED_FAILURES if ignored else FAILURES, "")
    return int(text) if _is_number(text) else 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def finished_at(pod: Pod, now: float) -> float:
    """Return when a pod ended, as precisely as known."""
    ends = [_end_of(status) for status in pod.status.container_statuses]
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    ends += [_end_of(one) for one in pod.status.init_container_statuses if one.name in sidecars]
    if ends and all(ends):
        return max(parse_time(end) for end in ends if end)
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "False" and condition.last_transition_time:
            return parse_time(condition.last_transition_time)
    since = pod.metadata.deletion_timestamp or pod.metadata.creation_timestamp
    return now if since is None else min(parse_time(since), now)


def _end_of(status: ContainerStatus) -> str | None:
    terminated = status.state.terminated
    return None if terminated is None else terminated.finished_at


# ---- pod failure policies -----------------------------------------------------------------------


class Ruling(NamedTuple):
    """What the first rule that matches a failed pod says; for FailJob also why."""

    action: str = "Count"
    message: str = ""


def rule_on(job: Job, pod: Pod) -> Ruling:
    """What a Job's failure policy says about a pod that failed."""
    rules = job.spec.pod_failure_policy.rules if job.spec.pod_failure_policy is not None else ()
    for number, rule in enumerate(rules):
        if (why := _match(rule, pod)) is not None:
            return Ruling(rule.action, f"{why} matching {rule.action} rule at index {number}")
    return Ruling()


def counts(job: Job, pod: Pod) -> bool:
    """Whether a failed pod counts towards the backoff limit."""
    return rule_on(job, pod).action != "Ignore"


def _match(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """In which way a rule matches a pod, in words; None where it does not."""
    if rule.on_exit_codes is not None:
        statuses = [*pod.status.container_statuses, *pod.status.init_container_statuses]
        for status in statuses:
            terminated = status.state.terminated
            if terminated is not None and _code_matches(
                rule.on_exit_codes, status.name, terminated.exit_code
            ):
                return (
                    f"Container {status.name} for pod {pod.key} failed with exit code {terminated.exit_code}"
                )
        return None
    condition = _matching_condition(rule.on_pod_conditions, pod.status.conditions)
    return None if condition is None else f"Pod {pod.key} has condition {condition.type}"


def _code_matches(rule: OnExitCodes, container: str, code: int) -> bool:
    if code == 0 or rule.container_name not in (None, container):
        return False
    return (code in rule.values) == (rule.operator == "In")


def _matching_condition(patterns: list[OnPodCondition], conditions: Iterable[Condition]) -> Condition | None:
    matching = {(pattern.type, pattern.status) for pattern in patterns}
    return next((each for each in conditions if (each.type, each.status) in matching), None)


# ---- failures in a row --------------------------------------------------------------------------


class Backoff(NamedTuple):
    """Failures since the last success, and when the last of them was."""

    failures: int = 0
    last: float = 0.0

    def after(self, succeeded: list[float], failed: list[float]) -> Backoff:
        """As it is once pods have ended at these times."""
        failures, last = self
        times = sorted(failed)
        if succeeded:
            failures, last = 0, max(succeeded)
            times = [time for time in times if time > last]
        return Backoff(failures + len(times), times[-1] if times else last)

    def remaining(self, now: float) -> float:
        """In how many seconds the next pod may follow."""
        if self.failures == 0:
            return 0.0
        pause = min(FIRST_BACKOFF * 2.0 ** min(self.failures - 1, 10), LAST_BACKOFF)
        return max(0.0, self.last + pause - now)


# ---- new pods -----------------------------------------------------------------------------------


class Moulds:
    """New pods of a Job."""

    def __init__(self, job: Job) -> None:
        template = job.spec.template
        if job.indexed:
            template = {**template, "spec": _with_index(template.get("spec") or {})}
        self._job = job
        self._template = template
        self._reference = controller_reference(JOBS, job)

    def body(self) -> Tree:
        body = pod_of(self._template, self._job.name, self._reference)
        finalizers: list[str] = body["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        return body

    def body_of(self, index: int, replaced: Pod | None) -> Tree:
        """The pod of an index, perhaps in the place of one that failed."""
        job, body = self._job, self.body()
        metadata = body["metadata"]
        metadata["labels"] = {**metadata.get("labels", {}), COMPLETION_INDEX: str(index)}
        annotations = metadata["annotations"] = {
            **metadata.get("annotations", {}),
            COMPLETION_INDEX: str(index),
        }
        if job.spec.backoff_limit_per_index is not None:
            annotations.update(_failure_counts(job, replaced))
        suffix = f"-{index}-"
        metadata["generateName"] = job.name[: _LONGEST_GENERATED - len(suffix)] + suffix
        body["spec"] = {**body["spec"], "hostname": f"{job.name}-{index}"}
        return body


def _failure_counts(job: Job, replaced: Pod | None) -> dict[str, str]:
    if replaced is None:
        return {FAILURES: "0"}
    counted = counts(job, replaced)
    failures = failures_of(replaced) + counted
    ignored = failures_of(replaced, ignored=True) + (not counted)
    return {FAILURES: str(failures)} | ({IGNORED_FAILURES: str(ignored)} if ignored else {})


def _with_index(spec: Tree) -> Tree:
    """Containers find their index in the environment."""
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    changed = dict(spec)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            changed[field] = [_with_variable(container, variable) for container in spec[field]]
    return changed


def _with_variable(container: Tree, variable: Tree) -> Tree:
    present = container.get("env") or []
    if any(each["name"] == variable["name"] for each in present):
        return container
    return {**container, "env": [*present, variable]}
