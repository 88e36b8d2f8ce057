"""The scheduling queue as a list: each pending pod or group of pods, why, and what it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mooring.api.groups import PodGroup
from mooring.api.times import format_time
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog
from mooring.explain.text import why
from mooring.explain.waiting import PERMIT, waiting
from mooring.framework.pod import GroupKey, PodInfo
from mooring.web.columns import counts, owner
from mooring.web.records import QueuedGroup, QueuedPod, QueueRecord

MOST_LISTED = 500
MOST_MEMBERS = 100  # of a group that are listed
STATES = ("active", "backoff", "unschedulable", "gated", PERMIT, "in flight")
SCHEDULED = "PodGroupScheduled"


class _Pending(NamedTuple):
    since: float
    pod: PodInfo
    place: str
    reason: str

    @property
    def entry(self) -> GroupKey | str:
        """What is one entry of the list: a group, or a pod alone."""
        return self.pod.key if self.pod.group is None else self.pod.group


def queue_record(
    scheduler: Scheduler, log: DecisionLog | None, *, state: str = "", text: str = "", limit: int = 200
) -> QueueRecord:
    """Return pending pods that match, those that wait longest first, and the most frequent reasons.

    The limit counts a group as one.
    """
    matching, reasons = [], Counter[str]()
    for pod, place, since in _pending(scheduler):
        reason = _reason(log, pod)
        if (not state or state == place) and (not text or _has(pod, reason, text)):
            matching.append(_Pending(since, pod, place, reason))
            reasons[reason or place] += 1
    matching.sort(key=lambda each: each.since)
    listed = list(_listed(matching, min(limit, MOST_LISTED)))
    groups = dict.fromkeys(each.pod.group for each in listed if each.pod.group is not None)
    return QueueRecord(
        as_of=format_time(scheduler.clock()),
        counts=counts(scheduler),
        pods=[row for each in listed if (row := _row(scheduler, log, each)) is not None],
        groups=[_group(scheduler, group) for group in groups],
        reasons=reasons.most_common(10),
        total=len(matching),
    )


def _has(pod: PodInfo, reason: str, text: str) -> bool:
    return text in pod.key or text in reason or (pod.group is not None and text in str(pod.group))


def _listed(matching: Iterable[_Pending], limit: int) -> Iterator[_Pending]:
    """Yield the pods of the first entries; members of a group after one another."""
    entries: dict[GroupKey | str, list[_Pending]] = {}
    for each in matching:
        if each.entry in entries or len(entries) < limit:
            entries.setdefault(each.entry, []).append(each)
    for members in entries.values():
        yield from members[:MOST_MEMBERS]


def _group(scheduler: Scheduler, key: GroupKey) -> QueuedGroup:
    members, group = scheduler.members, scheduler.members.group(key)
    size, scheduled = members.size(key), members.scheduled(key)
    record = QueuedGroup(
        group=str(key), members=size, scheduled=scheduled, pending=size - scheduled, missing=group is None
    )
    record.min_count = None if group is None else group.min_count
    if isinstance(group, PodGroup):
        record.topology, record.priority = group.topology_key, group.priority
        conditions = (each for each in group.status.conditions if each.type == SCHEDULED)
        record.message = next((each.message for each in conditions if each.status == "False"), "")
    return record


def _pending(scheduler: Scheduler) -> Iterator[tuple[PodInfo, str, float]]:
    for queued in scheduler.queue:
        place = "gated" if queued.gated else queued.place.value.removeprefix("error ")
        since = queued.initial_attempt_timestamp
        yield queued.pod, place, queued.timestamp if since is None else since
    for held in scheduler.waiting:
        yield held.pod, PERMIT, held.since


def _row(scheduler: Scheduler, log: DecisionLog | None, pending: _Pending) -> QueuedPod | None:
    pod = pending.pod
    waits = waiting(scheduler, pod)
    if waits is None:
        return None
    last = _last(log, pod)
    return QueuedPod(
        pod=pod.key,
        state=pending.place,
        waiting=waits,
        priority=pod.priority,
        owner=owner(pod.shape),
        reason=pending.reason,
        message="" if last is None else why(last),
        group="" if pod.group is None else str(pod.group),
    )


def _last(log: DecisionLog | None, pod: PodInfo) -> Decision | None:
    attempts = () if log is None else log.of(pod.key)
    return attempts[-1].decision if attempts and attempts[-1].uid == pod.uid else None


def _reason(log: DecisionLog | None, pod: PodInfo) -> str:
    """Return the most frequent reason of the pod's last attempt."""
    last = _last(log, pod)
    if last is None:
        return ""
    refused = [each for each in last.refused if each.reasons]
    if not refused or last.tried_node:
        return last.message[:120]
    return max(refused, key=lambda each: each.nodes).reasons[0].removeprefix("node(s) ")
