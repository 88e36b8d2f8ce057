"""Everything that a scheduler can say about one pod, or about the pods that it tried last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from mooring.api.objects import Pod
from mooring.api.times import format_time
from mooring.core.scheduler import Scheduler
from mooring.explain.explanation import Explanation, Outline, Outlines, PastAttempt, Waiting
from mooring.explain.groups import outline
from mooring.explain.log import Attempt, DecisionLog
from mooring.explain.now import now
from mooring.explain.summary import summarized
from mooring.explain.text import why
from mooring.explain.waiting import BINDING, PERMIT, find_pod, waiting
from mooring.framework.pod import PodInfo

MOST_LISTED = 500


def decisions(scheduler: Scheduler, log: DecisionLog | None, namespace: str, pod: str) -> Explanation | None:
    """What there is to say about a pod; None where nothing is known of it."""
    key = f"{namespace}/{pod}"
    attempts = () if log is None else log.of(key)
    current = find_pod(scheduler, key, attempts[-1].uid if attempts else "")
    if current is None and not attempts:
        return None
    return explain(scheduler, current, [a for a in attempts if current is None or a.uid == current.uid], key)


def explain(
    scheduler: Scheduler, pod: PodInfo | None, attempts: Sequence[Attempt] = (), key: str = ""
) -> Explanation:
    """Put together what the scheduler knows of a pod; None: it is gone, and its attempts are all there is."""
    explanation = Explanation(
        pod=key if pod is None else pod.key,
        state="gone",
        summary="",
        as_of=format_time(scheduler.clock()),
        attempts=[
            PastAttempt(
                first=format_time(a.first), last=format_time(a.last), count=a.count, decision=a.decision
            )
            for a in attempts
        ],
    )
    if pod is not None:
        explanation.uid, explanation.profile = pod.uid, pod.scheduler_name
        explanation.phase = pod.status.phase
        explanation.condition = _condition(pod)
        _present(scheduler, pod, explanation)
    explanation.summary = summarized(explanation)
    return explanation


def _present(scheduler: Scheduler, pod: PodInfo, explanation: Explanation) -> None:
    """Where a pod is that exists, and what an attempt at it would come to where it has no node."""
    if pod.pod.finished:
        explanation.state, explanation.node = "finished", pod.node_name
    elif scheduler.cluster.placed(pod.uid) is not None:
        explanation.node = scheduler.cluster.node_of(pod.uid)
        explanation.waiting = waiting(scheduler, pod)
        explanation.state = _state_with_node(explanation.waiting)
    elif pod.terminating:
        explanation.state = "terminating"
    else:
        refused_by: frozenset[str] = frozenset()
        if pod.scheduler_name in scheduler.profiles:
            explanation.now, refused_by = now(scheduler, pod)
        else:
            explanation.profiles = list(scheduler.profiles)
        explanation.waiting = waiting(scheduler, pod, refused_by)
        if pod.group is not None:
            explanation.group = outline(scheduler, pod.group)
        gated = explanation.waiting is not None and explanation.waiting.gated_by
        explanation.state = "gated" if gated else "pending"


def _state_with_node(held: Waiting | None) -> str:
    return {PERMIT: "waiting", BINDING: "binding"}.get(held.queue, "scheduled") if held else "scheduled"


def _condition(pod: PodInfo) -> str:
    condition = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    return (
        "" if condition is None or condition.status == "True" else f"{condition.reason}: {condition.message}"
    )


def explain_objects(scheduler: Scheduler, pod: Pod, source: str) -> Explanation:
    """Explain a pod with a scheduler that has a cluster's objects and has made no attempts.

    If the pod has a node, the objects must not include it: the explanation says where it would be scheduled.
    """
    free = replace(pod, spec=replace(pod.spec, node_name="")) if not pod.finished else pod
    explanation = explain(scheduler, scheduler.cluster.info(free))
    explanation.source = source
    held = explanation.waiting
    if held is not None:  # of the queue it knows only what it was just given
        held.queue = held.since = ""
    if pod.spec.node_name and not pod.finished:
        explanation.node, explanation.state = pod.spec.node_name, "scheduled"
        explanation.waiting, explanation.group = None, None
    explanation.summary = summarized(explanation)
    return explanation


def recent(scheduler: Scheduler, log: DecisionLog | None, limit: int = 100) -> Outlines:
    """The pods that were tried last, the latest first, each in a line."""
    keys = () if log is None else islice(log, max(0, min(limit, MOST_LISTED)))
    return Outlines(
        as_of=format_time(scheduler.clock()),
        pods=[_outline(key, log.of(key)) for key in keys if log is not None],
    )


def _outline(key: str, attempts: Sequence[Attempt]) -> Outline:
    last = attempts[-1]
    decision = last.decision
    return Outline(
        pod=key,
        result=decision.result,
        summary=why(decision),
        last=format_time(last.last),
        attempts=decision.attempts,
        node=decision.node,
    )
