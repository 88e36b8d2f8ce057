"""The scheduling queue as a list: each pending pod, why, and what it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mooring.api.times import format_time
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog
from mooring.explain.text import why
from mooring.explain.waiting import PERMIT, waiting
from mooring.framework.pod import PodInfo
from mooring.web.columns import counts, owner
from mooring.web.records import QueuedPod, QueueRecord

MOST_LISTED = 500
STATES = ("active", "backoff", "unschedulable", "gated", PERMIT, "in flight")


def queue_record(
    scheduler: Scheduler, log: DecisionLog | None, *, state: str = "", text: str = "", limit: int = 200
) -> QueueRecord:
    """Return pending pods that match, those that wait longest first, and the most frequent reasons."""
    matching, reasons = [], Counter[str]()
    for pod, place, since in _pending(scheduler):
        reason = _reason(log, pod)
        if (not state or state == place) and (not text or text in pod.key or text in reason):
            matching.append((since, pod, place, reason))
            reasons[reason or place] += 1
    matching.sort(key=lambda each: each[0])
    return QueueRecord(
        as_of=format_time(scheduler.clock()),
        counts=counts(scheduler),
        pods=[
            row
            for _, pod, place, reason in matching[: min(limit, MOST_LISTED)]
            if (row := _row(scheduler, log, pod, place, reason)) is not None
        ],
        reasons=reasons.most_common(10),
        total=len(matching),
    )


def _pending(scheduler: Scheduler) -> Iterator[tuple[PodInfo, str, float]]:
    for queued in scheduler.queue:
        place = "gated" if queued.gated else queued.place.value.removeprefix("error ")
        since = queued.initial_attempt_timestamp
        yield queued.pod, place, queued.timestamp if since is None else since
    for held in scheduler.waiting:
        yield held.pod, PERMIT, held.since


def _row(
    scheduler: Scheduler, log: DecisionLog | None, pod: PodInfo, place: str, reason: str
) -> QueuedPod | None:
    waits = waiting(scheduler, pod)
    if waits is None:
        return None
    last = _last(log, pod)
    return QueuedPod(
        pod=pod.key,
        state=place,
        waiting=waits,
        priority=pod.priority,
        owner=owner(pod.shape),
        reason=reason,
        message="" if last is None else why(last),
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
