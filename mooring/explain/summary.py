"""The short answer: one sentence about a pod."""

from __future__ import annotations

from mooring.core.decision import Decision
from mooring.explain import words
from mooring.explain.explanation import Explanation, Now, Waiting
from mooring.explain.text import why

_GROUP_STATES = ("missing", "gated", "pending", "partial", "preempting")  # in which the group decides


def summarized(explanation: Explanation) -> str:
    """Why the pod is where it is."""
    return f"{explanation.pod} {_TOLD[explanation.state](explanation)}"


def _gone(explanation: Explanation) -> str:
    last = explanation.attempts[-1].decision
    where = f"placed on {last.node}" if last.node else last.result
    return f"is gone; in the last attempt it was {where}: {why(last)}"


def _scheduled(explanation: Explanation) -> str:
    placed = [a.decision for a in explanation.attempts if a.decision.node == explanation.node]
    if placed:
        return f"is on {explanation.node}: {why(placed[-1])}"
    if explanation.now is not None:
        return f"is on {explanation.node}; if it were scheduled again, {_fitting(explanation.now)}"
    return f"is on {explanation.node}; the attempt is not recorded"


def _finished(explanation: Explanation) -> str:
    where = f" on {explanation.node}" if explanation.node else ""
    if explanation.phase == "Failed":
        return f"is Failed: its containers ended with an error{where}"
    return f"is Completed: it ran to its end{where}"


def _terminating(explanation: Explanation) -> str:
    return "is being deleted, and is not scheduled any more"


def _binding(explanation: Explanation) -> str:
    return f"is being bound to {explanation.node}"


def _held(explanation: Explanation) -> str:
    held = explanation.waiting
    assert held is not None
    who = [f"{each.plugin} ({each.message})" if each.message else each.plugin for each in held.held_by]
    text = f"has {explanation.node} and waits there for permission from {words.joined(who, 'and')}"
    if held.until:
        text += f" until {held.until}"
    failed = [each for each in explanation.attempts if each.decision.tried_node]
    if failed:
        before = words.count(sum(each.count for each in failed), "earlier attempt")
        text += f"; {before} failed: {_cause(failed[-1].decision)}"
    return text


def _gated(explanation: Explanation) -> str:
    held, now = explanation.waiting, explanation.now
    assert held is not None
    text = f"is held back by {held.gated_by}: {held.gate}"
    if explanation.group is not None:
        return f"{text}; its group {explanation.group.summary}"
    if now is None or now.error:
        return text
    return f"{text}; without that {_fitting(now)}"


def _pending(explanation: Explanation) -> str:
    held, now = explanation.waiting, explanation.now
    if held is not None and held.nominated_node and held.victims:
        gone = words.listed(held.victims[:3], len(held.victims))
        return f"is promised {held.nominated_node} and waits there for {gone} to end"
    group = explanation.group
    if group is not None and group.state in _GROUP_STATES:
        return f"waits with its group: {group.summary}"
    if now is None:
        profiles = words.joined(explanation.profiles, "and")
        return f'is pending: no profile here has its schedulerName "{explanation.profile}", only {profiles}'
    failed = failure(explanation)
    if failed:
        return f"is pending: {failed}"
    text = f"is pending: {_fitting(now)}"
    if now.feasible:
        still = still_pending(explanation)
        return f"{text}; {still}" if still else text
    if now.preemption is not None and now.preemption.helps:
        victims = words.listed(now.preemption.victims[:2], len(now.preemption.victims))
        return f"{text}; evicting {victims} from {now.preemption.node} would make room"
    if now.changes:
        best = now.changes[0]
        return f"{text}; what would help on {words.count(best.nodes, 'node')}: {best.text}"
    return text


def _fitting(now: Now) -> str:
    if now.error:
        return f"an attempt would fail now: {now.error}"
    if not now.nodes:
        return "there are no nodes"
    if not now.feasible:
        return (
            f"none of {words.count(now.nodes, 'node')} fits"
            if now.nodes > 1
            else "the only node does not fit"
        )
    best = f", {now.ranking[0].node} best" if now.ranking else ""
    return f"{now.feasible} of {words.count(now.nodes, 'node')} would take it now{best}"


def failure(explanation: Explanation) -> str:
    """What failed in the last attempt after a node was chosen, or instead of a choice."""
    if not explanation.attempts:
        reason, _, message = explanation.condition.partition(": ")
        return f"the last attempt failed: {message}" if reason == "SchedulerError" else ""
    last = explanation.attempts[-1]
    decision = last.decision
    if not decision.tried_node and decision.result != "error":
        return ""
    chosen = f"{decision.tried_node} was chosen, but " if decision.tried_node else ""
    times = f"{last.count} times, last" if last.count > 1 else "once,"
    return f"{chosen}the attempt failed {times} at {last.last}: {_cause(decision)}"


def _cause(decision: Decision) -> str:
    """Why an attempt failed after its node was chosen, without the count of this one node."""
    message = decision.message
    if decision.tried_node and decision.result != "error":
        message = message.partition("nodes are available: 1 ")[2] or message
    return message.removesuffix(".")


def still_pending(explanation: Explanation) -> str:
    """Why a pod is pending although it would fit."""
    held = explanation.waiting
    if held is not None and held.queue:
        return _next(held)
    if not explanation.phase:
        return ""  # a manifest, of no cluster
    if not explanation.condition:
        return f"no scheduler has tried it yet: does one named {explanation.profile} run?"
    return (
        "the scheduler that rejected it retries it when the cluster changes, or has plugins or a "
        "configuration that are unknown here (--plugin, --config)"
    )


def _next(held: Waiting) -> str:
    if held.queue == "active":
        return "its turn comes next" if held.attempts else "it was not tried yet"
    if held.until:
        return f"it is in {held.queue} and tried again at {held.until}"
    if held.queue == "in flight":
        return "it is being tried"
    return "it is tried again after the next event that may help, or after a few minutes"


_TOLD = {
    "gone": _gone,
    "scheduled": _scheduled,
    "binding": _binding,
    "waiting": _held,
    "finished": _finished,
    "terminating": _terminating,
    "gated": _gated,
    "pending": _pending,
}
