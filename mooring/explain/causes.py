"""Pending pods grouped by cause, the largest group first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mooring.explain import words
from mooring.explain.explanation import Cause, Causes, Explanation, GroupExplanation, Workload
from mooring.explain.report import PROMPT
from mooring.explain.summary import failure, still_pending

MOST_NAMED = 3
SETTLED = ("scheduled", "binding", "finished", "terminating", "gone")


def by_cause(
    pods: Iterable[tuple[Explanation, Sequence[str]]],
    workloads: Sequence[Workload] = (),
    pod_groups: Iterable[tuple[GroupExplanation, Sequence[str]]] = (),
) -> Causes:
    """Group explanations of pending pods; each stands for the pods that it is given with. A pod group is a
    cause of its own."""
    groups = {group.group: _cause_of_group(group, keys) for group, keys in pod_groups}
    total = sum(len(each.pods) for each in groups.values())
    for explanation, keys in pods:
        if explanation.state in SETTLED:
            continue
        total += len(keys)
        text = cause(explanation)
        group = groups.setdefault(text, Cause(text=text, pods=[]))
        group.pods += keys
        if explanation.now is not None and not group.changes:
            group.changes = explanation.now.changes
    ordered = sorted(groups.values(), key=lambda group: (-len(group.pods), group.text))
    return Causes(pending=total, causes=ordered, workloads=list(workloads))


def _cause_of_group(group: GroupExplanation, pods: Sequence[str]) -> Cause:
    changes = [change for each in group.lacking[:1] for change in each.changes]
    return Cause(text=f"podgroup {group.summary}", pods=list(pods), changes=changes, group=group.group)


def cause(explanation: Explanation) -> str:
    """Return why a pod is pending, in words that are the same for all pods of one cause."""
    held, now = explanation.waiting, explanation.now
    if held is not None and held.held_by:
        return f"waits for permission from {words.joined([each.plugin for each in held.held_by], 'and')}"
    if held is not None and held.gated_by:
        return f"held back by {held.gated_by}: {held.gate}"
    if now is None:
        return f'no profile has the schedulerName "{explanation.profile}"'
    if explanation.attempts and failure(explanation):
        last = explanation.attempts[-1].decision
        return f"failed after a node was chosen: {last.message}" if last.tried_node else last.message
    if failure(explanation):
        return failure(explanation)
    if now.error:
        return f"an attempt would fail: {now.error}"
    if now.feasible:
        return f"would fit now; {still_pending(explanation)}".removesuffix("; ")
    return now.message


def list_causes(causes: Causes) -> Iterator[str]:
    """All of it, line by line."""
    count = words.count(causes.pending, "pod")
    verb = "is" if causes.pending == 1 else "are"
    if not causes.pending:
        yield "no pod is pending"
    elif len(causes.causes) == 1:
        yield f"{count} {verb} pending, for one cause"
    else:
        yield f"{count} {verb} pending, for {len(causes.causes)} causes"
    for group in causes.causes:
        yield ""
        yield f"{words.count(len(group.pods), 'pod')}: {group.text}"
        yield f"  {words.listed(group.pods[:MOST_NAMED], len(group.pods))}"
        for change in group.changes[:1]:
            for part in change.parts or [change]:
                yield f"  would help: {part.text}"
                if part.command:
                    yield f"    {PROMPT}{part.command}"
    for each in causes.workloads:
        yield ""
        yield from list_workload(each)


def list_workload(workload: Workload) -> Iterator[str]:
    missing = workload.desired - workload.pods
    where = f"{workload.workload} in {workload.namespace}"
    have = f"{workload.pods} of {words.count(workload.desired, 'pod')}"
    if missing > 0 and workload.message:
        last = f" (last at {workload.last})" if workload.last else ""
        yield f"{where} has {have}: the others could not be created"
        yield f"  {workload.reason}{last}: {workload.message}"
    elif missing > 0:
        yield f"{where} has {have}"
    elif not workload.desired and workload.workload.startswith("job/"):
        yield f"{where} has finished"
    else:
        pending = f", {workload.pending} pending" if workload.pending else ", none pending"
        yield f"{where} has {have}{pending}"
