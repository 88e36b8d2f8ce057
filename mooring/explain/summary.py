"""The short answer: one sentence about a pod."""

from __future__ import annotations

from mooring.explain import words
from mooring.explain.explanation import Explanation, Now, Waiting
from mooring.explain.text import why


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
    return f"ran to its end on {explanation.node}" if explanation.node else "ran to its end"


def _terminating(explanation: Explanation) -> str:
    return "is being deleted, and is not scheduled any more"


def _binding(explanation: Explanation) -> str:
    return f"is being bound to {explanation.node}"


def _held(explanation: Explanation) -> str:
    held = explanation.waiting
    assert held is not None
    who = [f"{each.plugin} ({each.message})" if each.message else each.plugin for each in held.held_by]
    return f"has {explanation.node} and waits there for permission from {words.joined(who, 'and')}"


def _gated(explanation: Explanation) -> str:
    held, now = explanation.waiting, explanation.now
    assert held is not None
    text = f"is held back by {held.gated_by}: {held.gate}"
    if now is None or now.error:
        return text
    return f"{text}; without that {_fitting(now)}"


def _pending(explanation: Explanation) -> str:
    held, now = explanation.waiting, explanation.now
    if held is not None and held.nominated_node and held.victims:
        gone = words.listed(held.victims[:3], len(held.victims))
        return f"is promised {held.nominated_node} and waits there for {gone} to end"
    if now is None:
        return f'is pending, and no profile here is named "{explanation.profile}"'
    text = f"is pending: {_fitting(now)}"
    if now.feasible:
        return f"{text}; {_next(held)}" if held is not None and held.queue else text
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


def _next(held: Waiting) -> str:
    if held.queue == "active":
        return "its turn comes next" if held.attempts else "it was not tried yet"
    if held.until:
        return f"it is tried again at {held.until}"
    return "it is being tried" if held.queue == "in flight" else "it is tried again after the next event"


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
