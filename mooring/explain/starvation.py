"""Gangs that starve: since when they wait, and which pods that came later have the room."""

from __future__ import annotations

from mooring.api.times import format_time, parse_time
from mooring.core.groups.dialects import group_args
from mooring.core.scheduler import Scheduler
from mooring.explain.explanation import Starvation
from mooring.framework.pod import GroupKey, PodInfo

MOST_NAMED = 5


def starvation(scheduler: Scheduler, key: GroupKey) -> Starvation | None:
    """How a waiting group was overtaken; None where no pod came later and has a node."""
    wait = scheduler.members.waits.get(key)
    member = next((pod for pod in scheduler.members.pods(key) if not pod.node_name), None)
    profile = None if member is None else scheduler.profiles.get(member.scheduler_name)
    if wait is None or member is None or profile is None:
        return None
    later = [pod for pod in scheduler.cluster.pods() if _overtook(pod, member, key, wait.since)]
    if not later:
        return None
    later.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
    return Starvation(
        since=format_time(wait.since),
        pods=len(later),
        examples=[pod.key for pod in later[-MOST_NAMED:]],
        reserve_after=group_args(profile, key).reserve_after_seconds,
    )


def _overtook(pod: PodInfo, member: PodInfo, key: GroupKey, since: float) -> bool:
    """Whether a pod on a node came after the group had to wait, may not preempt it, and has what it needs."""
    created = pod.metadata.creation_timestamp
    if created is None or parse_time(created) < since or pod.group == key or pod.priority > member.priority:
        return False
    return any(pod.shape.used.get(name) for name in member.shape.requests)
