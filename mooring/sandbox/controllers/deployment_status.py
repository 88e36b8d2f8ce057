"""What a Deployment says of itself: counts, whether it is available, and whether its rollout gets on."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.api.meta import Condition
from mooring.api.times import parse_time
from mooring.api.workloads import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from mooring.sandbox.controllers.deployment_scaling import INT32_MAX, max_unavailable, total_size
from mooring.sandbox.controllers.replica_set import REPLICA_FAILURE

PROGRESSING = "Progressing"
AVAILABLE = "Available"

PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"
NEW_REPLICA_SET_AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"


# ---- conditions --------------------------------------------------------------------------------------------


def condition_of(status: DeploymentStatus, type: str) -> DeploymentCondition | None:
    return next((condition for condition in status.conditions if condition.type == type), None)


def set_condition(status: DeploymentStatus, new: DeploymentCondition) -> None:
    """Put a condition in the place of the one of its type, unless that says the same already."""
    old = condition_of(status, new.type)
    if old is not None and old.status == new.status:
        if old.reason == new.reason:
            return
        new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
    remove_condition(status, new.type)
    status.conditions.append(new)


def remove_condition(status: DeploymentStatus, type: str) -> None:
    status.conditions = [condition for condition in status.conditions if condition.type != type]


def condition(type: str, status: str, reason: str, message: str, now: str) -> DeploymentCondition:
    return DeploymentCondition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        last_update_time=now,
        last_transition_time=now,
    )


def has_deadline(deployment: Deployment) -> bool:
    deadline = deployment.spec.progress_deadline_seconds
    return deadline is not None and deadline != INT32_MAX


def note_pause(deployment: Deployment, status: DeploymentStatus, now: str) -> None:
    """Who is paused makes no progress, and does not have to; who is resumed has the whole time again."""
    progressing = condition_of(status, PROGRESSING)
    if not has_deadline(deployment) or (progressing is not None and progressing.reason == TIMED_OUT):
        return
    is_noted = progressing is not None and progressing.reason == PAUSED
    if deployment.spec.paused and not is_noted:
        set_condition(status, condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now))
    elif is_noted and not deployment.spec.paused:
        set_condition(status, condition(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed", now))


# ---- counts ------------------------------------------------------------------------------------------------


def counted(
    deployment: Deployment,
    status: DeploymentStatus,
    new: ReplicaSet | None,
    old: list[ReplicaSet],
    now: str,
) -> DeploymentStatus:
    """The status after counting; `status` is what it was so far, with what this turn found."""
    every = [*old, new] if new is not None else old
    available = sum(rs.status.available_replicas for rs in every)
    result = DeploymentStatus(
        replicas=sum(rs.status.replicas for rs in every),
        updated_replicas=0 if new is None else new.status.replicas,
        ready_replicas=sum(rs.status.ready_replicas for rs in every),
        available_replicas=available,
        unavailable_replicas=max(total_size(every) - available, 0),
        terminating_replicas=_terminating(every),
        observed_generation=deployment.metadata.generation,
        collision_count=status.collision_count,
        conditions=list(status.conditions),
    )
    if available >= deployment.spec.replicas - max_unavailable(deployment):
        said = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        said = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    set_condition(result, condition(AVAILABLE, *said, now))
    return result


def _terminating(replica_sets: Iterable[ReplicaSet]) -> int | None:
    """Unknown where a ReplicaSet that was looked after does not know it."""
    seen = [rs.status for rs in replica_sets if rs.status.observed_generation]
    counts = [status.terminating_replicas for status in seen]
    return None if None in counts else sum(count or 0 for count in counts)


# ---- progress ----------------------------------------------------------------------------------------------


def complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all pods are of the new template and available, and no others are left."""
    counts = (status.updated_replicas, status.replicas, status.available_replicas)
    all_there = all(count == deployment.spec.replicas for count in counts)
    return all_there and status.observed_generation >= deployment.metadata.generation


def note_progress(
    deployment: Deployment,
    before: DeploymentStatus,
    status: DeploymentStatus,
    new: ReplicaSet | None,
    now: float,
    stamp: str,
) -> None:
    """Update the progress of the rollout in the status."""
    if not has_deadline(deployment):
        remove_condition(status, PROGRESSING)
        return
    current = condition_of(before, PROGRESSING)
    over = current is not None and current.reason == NEW_REPLICA_SET_AVAILABLE
    if over and status.replicas == status.updated_replicas:
        return
    who = f'Deployment "{deployment.name}"' if new is None else f'ReplicaSet "{new.name}"'
    if complete(deployment, status):
        said = ("True", NEW_REPLICA_SET_AVAILABLE, f"{who} has successfully progressed.")
    elif _progressed(before, status):
        said = ("True", "ReplicaSetUpdated", f"{who} is progressing.")
    elif _timed_out(deployment, status, now):
        said = ("False", TIMED_OUT, f"{who} has timed out progressing.")
    else:
        return
    progressing = condition(PROGRESSING, *said, stamp)
    if said[1] == "ReplicaSetUpdated" and current is not None:  # each step is a new start of the time
        if current.status == "True":
            progressing.last_transition_time = current.last_transition_time
        remove_condition(status, PROGRESSING)
    set_condition(status, progressing)


def _progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    fewer_old = after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
    return (
        after.updated_replicas > before.updated_replicas
        or fewer_old
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _timed_out(deployment: Deployment, status: DeploymentStatus, now: float) -> bool:
    progressing = condition_of(status, PROGRESSING)
    if progressing is None or progressing.reason == NEW_REPLICA_SET_AVAILABLE:
        return False
    return progressing.reason == TIMED_OUT or _time_left(deployment, progressing, now) < 0


def _time_left(deployment: Deployment, progressing: DeploymentCondition, now: float) -> float:
    since = progressing.last_update_time
    return (parse_time(since) if since else 0.0) + (deployment.spec.progress_deadline_seconds or 0) - now


def next_check(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """In how many seconds a rollout without progress has to be looked at again, if ever."""
    progressing = condition_of(status, PROGRESSING)
    if not has_deadline(deployment) or deployment.spec.paused or progressing is None:
        return None
    if complete(deployment, status) or progressing.reason == TIMED_OUT:
        return None
    return max(_time_left(deployment, progressing, now), 0.0) + 1.0


def note_failures(status: DeploymentStatus, new: ReplicaSet | None, old: list[ReplicaSet]) -> None:
    """Take over what a ReplicaSet says of pods that it cannot create or delete, the new one's word first."""
    for rs in [*([] if new is None else [new]), *old]:
        for failure in rs.status.conditions:
            if failure.type == REPLICA_FAILURE:
                set_condition(status, _taken_over(failure))
                return
    remove_condition(status, REPLICA_FAILURE)


def _taken_over(failure: Condition) -> DeploymentCondition:
    return DeploymentCondition(
        type=failure.type,
        status=failure.status,
        reason=failure.reason,
        message=failure.message,
        last_transition_time=failure.last_transition_time,
        last_update_time=failure.last_transition_time,
    )
