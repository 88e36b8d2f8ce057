"""An explanation as a person reads it: the short answer first, then what it rests on.

Lines without indentation are headings. Nodes come in groups with some of their names, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mooring.api.times import parse_time
from mooring.core.decision import Decision, Ranked, RefusedNodes
from mooring.explain import words
from mooring.explain.explanation import Change, Closest, Explanation, Now, PastAttempt, Waiting
from mooring.explain.text import why

PROMPT = "$ "  # before a command
MOST_CHANGES = 8
_NEW_NODES = ("newNode", "largerNode")
MOST_EVENTS = 6


def report(explanation: Explanation) -> Iterator[str]:
    """All of an explanation, line by line."""
    yield explanation.summary
    if explanation.source:
        yield f"  {explanation.source}"
    if explanation.condition and not explanation.attempts:
        yield f"  the pod's status says: {explanation.condition}"
    if explanation.group is not None and explanation.group.summary not in explanation.summary:
        yield f"  its group: {explanation.group.summary}"
    if explanation.waiting is not None:
        yield from list_waiting(explanation.waiting, explanation.as_of)
    if explanation.now is not None:
        yield from _now(explanation.now)
    if explanation.attempts:
        yield from _attempts(explanation)


def list_waiting(held: Waiting, as_of: str, awaited: Sequence[str] = ()) -> Iterator[str]:
    """Where a pod waits, and for what; `awaited` comes before the events that may bring it back."""
    lines = [*_place(held, as_of), *(f"  {each}" for each in awaited), *_events(held)]
    if lines:
        yield ""
        yield "Waiting"
        yield from lines


def _place(held: Waiting, as_of: str) -> Iterator[str]:
    tried = f", {words.count(held.attempts, 'attempt')}" if held.attempts else ""
    last = f", the last {_distance(held.last_attempt, as_of)}" if held.last_attempt else ""
    since = f" since {held.since} ({_distance(held.since, as_of)})" if held.since else ""
    if held.queue:
        yield f"  {held.queue}{since}{tried}{last}"
    if held.gated_by:
        yield f"  held back by {held.gated_by}: {held.gate}"
    for hold in held.held_by:
        yield f"  held by {hold.plugin}" + (f": {hold.message}" if hold.message else "")
    if held.nominated_node:
        victims = f", once {words.listed(held.victims[:5], len(held.victims))} ended" if held.victims else ""
        yield f"  promised {held.nominated_node}{victims}"
    if held.until:
        yield f"  until {held.until} ({_distance(held.until, as_of)})"


def _events(held: Waiting) -> Iterator[str]:
    """What would bring a refused pod back."""
    if held.queue not in ("", "unschedulable"):
        return
    lines = [f"{each.text} ({', '.join(each.plugins)})" for each in held.events]
    for i, line in enumerate(lines[:MOST_EVENTS]):
        yield f"  {'or' if i else 'until'} {line}"
    if len(lines) > MOST_EVENTS:
        others = words.count(len(lines) - MOST_EVENTS, "other kind", "other kinds")
        yield f"  or an object of {others} comes or changes"
    if held.queue:
        yield f"  {'or' if lines else 'until'} it has waited for a few minutes"


def _now(now: Now) -> Iterator[str]:
    yield ""
    yield f"Now: {now.feasible} of {words.count(now.nodes, 'node')} would take it"
    if now.error:
        yield f"  an attempt would fail: {now.error}"
    yield from _refused(now.refused)
    if now.ranking:
        yield from _scores(now.scored_by, now.ranking, now.feasible)
    if now.preemption is not None:
        preemption = now.preemption
        if preemption.helps:
            victims = words.listed(preemption.victims[:5], len(preemption.victims))
            nodes = words.count(preemption.candidates, "node")
            yield f"  preemption would help on {nodes}: {victims} would have to go from {preemption.node}"
        else:
            yield f"  no help from preemption: {_without_prefix(preemption.message)}"
    yield from remedies(now)


def remedies(now: Now) -> Iterator[str]:
    """What would make the pod fit, or what comes closest."""
    yield from ["", *now.claims] if now.claims else ()
    yield from list_changes(now.changes)
    yield from _closest(now.closest)


def _without_prefix(message: str) -> str:
    return message.removeprefix("preemption: ")


def _refused(refused: list[RefusedNodes]) -> Iterator[str]:
    width = max((len(str(each.nodes)) for each in refused), default=1)
    for each in refused:
        reasons = ", ".join(each.reasons) or ("gives no reason" if each.plugin else "for other reasons")
        who = f"{each.plugin}: " if each.plugin else ""
        some = f"  ({words.listed(each.examples, each.nodes)})" if each.examples else ""
        yield f"  {each.nodes:>{width}} refused  {who}{reasons}{some}"


def _scores(scored_by: list[str], ranking: list[Ranked], feasible: int) -> Iterator[str]:
    """A table of the best nodes; plugins that gave nothing to anybody are left out."""
    shown = [i for i in range(len(scored_by)) if any(each.scores[i] for each in ranking)]
    width = max(len(each.node) for each in ranking)
    yield f"  {'':<{width}}  {'score':>6}" + "".join(f"  {scored_by[i]}" for i in shown)
    for each in ranking:
        cells = "".join(f"  {each.scores[i]:>{len(scored_by[i])}}" for i in shown)
        yield f"  {each.node:<{width}}  {each.total:>6}{cells}"
    if feasible > len(ranking):
        yield f"  and {words.count(feasible - len(ranking), 'more node')}"


def list_changes(changes: list[Change], members: int = 1) -> Iterator[str]:
    """What would make a pod fit; of members of a group that are alike, one of them."""
    if not changes:
        return
    yield ""
    yield _heading(changes) + (f", for one of {members} members" if members > 1 else "")
    width = max(len(words.count(each.nodes, "node")) for each in changes)
    for each in changes[:MOST_CHANGES]:
        some = f"  ({words.listed(each.examples, each.nodes)})" if each.kind not in _NEW_NODES else ""
        first, *others = each.parts or [each]
        yield f"  {words.count(each.nodes, 'node'):<{width}}  {first.text}{some}"
        yield from _command(first, width)
        for other in others:
            yield f"  {'':<{width}}  and {other.text}"
            yield from _command(other, width)
    if len(changes) > MOST_CHANGES:
        yield f"  and {words.count(len(changes) - MOST_CHANGES, 'other')}"


def _heading(changes: list[Change]) -> str:
    if changes[0].parts:
        which = "any of these pairs" if len(changes) > 1 else "these two together"
        return f"No single change would do; {which} would"
    return "Any one of these would do" if len(changes) > 1 else "This would do"


def _command(change: Change, width: int) -> Iterator[str]:
    if change.command:
        yield f"  {'':<{width}}  {PROMPT}{change.command}"


def _closest(closest: list[Closest]) -> Iterator[str]:
    if not closest:
        return
    yield ""
    yield "No single change would do; closest are"
    for each in closest:
        yield f"  {words.count(each.nodes, 'node')} ({words.listed(each.examples, each.nodes)}), refused by"
        for refusal in each.refused_by:
            yield f"    {refusal.plugin}: {', '.join(refusal.reasons)}"


def _attempts(explanation: Explanation) -> Iterator[str]:
    yield ""
    yield "Attempts"
    for each in explanation.attempts:
        yield f"  {_when(each)}  {_outcome(each.decision)}"
    placed = [a.decision for a in explanation.attempts if a.decision.node]
    if placed and placed[-1].ranking and explanation.now is None:
        last = placed[-1]
        yield ""
        yield f"Scores of {last.node}" + (" and the next best" if len(last.ranking) > 1 else "")
        yield from _scores(last.scored_by, last.ranking, last.feasible_nodes)


def _when(attempt: PastAttempt) -> str:
    if attempt.count == 1:
        return attempt.first
    return f"{attempt.first} to {attempt.last}, {attempt.count} times"


def _outcome(decision: Decision) -> str:
    if decision.node:
        return f"placed on {decision.node}: {why(decision)}"
    tried = f" after {decision.tried_node} was chosen" if decision.tried_node else ""
    return f"{decision.result}{tried}: {why(decision)}"


def _distance(time: str, as_of: str) -> str:
    """How long ago, or how far ahead."""
    seconds = parse_time(as_of) - parse_time(time)
    return f"{words.duration(seconds)} ago" if seconds >= 0 else f"in {words.duration(-seconds)}"
