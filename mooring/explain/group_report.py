"""The explanation of a pod group as a person reads it: the short answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.explain import words
from mooring.explain.explanation import GroupExplanation, GroupMember, Lacking, Starvation
from mooring.explain.groups import lack
from mooring.explain.report import list_changes, list_waiting

MOST_LISTED = 20


def report_group(group: GroupExplanation) -> Iterator[str]:
    """All of an explanation, line by line."""
    yield group.summary
    if group.source:
        yield f"  {group.source}"
    yield f"  {_terms(group)}"
    if group.condition:
        yield f"  the group's status says: {group.condition}"
    if group.waiting is not None:
        yield from list_waiting(group.waiting, group.as_of, _awaited(group))
    if group.starvation is not None:
        yield from _starvation(group.starvation)
    if group.placements:
        yield from _placements(group)
    if group.members:
        yield ""
        yield "Members"
        yield from _members(group.members)
    for lacking in group.lacking:
        yield from list_changes(lacking.changes, len(lacking.pods))


def _terms(group: GroupExplanation) -> str:
    terms = [f"gang of at least {group.min_count}" if group.policy == "gang" else group.policy]
    if group.topology_key:
        outside = ""
        if group.unlabelled_nodes:
            verb = "does" if group.unlabelled_nodes == 1 else "do"
            outside = f", which {words.count(group.unlabelled_nodes, 'node')} {verb} not have"
        terms.append(f"all in one {group.topology_key}{outside}")
    terms.append(f"{words.count(group.pods, 'pod')}, {group.scheduled} on nodes")
    return "; ".join(term for term in terms if term)


def _awaited(group: GroupExplanation) -> list[str]:
    """What the group waits for, before the events that may bring it."""
    missing = group.min_count - group.pods
    if missing > 0:
        return [f"for {words.count(missing, 'more pod')}"]
    if group.state not in ("pending", "partial"):
        return []
    inside = f" in {group.topology_key}={group.placement}" if group.topology_key and group.placement else ""
    return [
        f"for {_room(each)}{inside}" if each.needs else f"for a place: {lack(each)}" for each in group.lacking
    ]


def _starvation(starvation: Starvation) -> Iterator[str]:
    more = starvation.pods - len(starvation.examples)
    pods = ", ".join(starvation.examples) + (f" and {more} more" if more else "")
    verb = "has a node" if starvation.pods == 1 else "have nodes"
    came = f"{words.count(starvation.pods, 'pod')} that came later {verb}: {pods}"
    yield f"  starves since {starvation.since}: {came}"
    if starvation.reserve_after is None:
        yield "  no node is kept for it; hint: set reserveAfterSeconds in the arguments of its plugin"
    else:
        yield f"  nodes are kept for it after {starvation.reserve_after}s of waiting"


def _room(lacking: Lacking) -> str:
    if len(lacking.pods) == 1:
        return f"a node with {lacking.needs} free"
    return f"room for {len(lacking.pods)} members that request {lacking.needs} each"


def _placements(group: GroupExplanation) -> Iterator[str]:
    yield ""
    yield f"Placements by {group.topology_key}" if group.topology_key else "Placements"
    tried = group.placements[:MOST_LISTED]
    width = max(len(each.name) for each in tried)
    waiting = group.pods - group.scheduled
    for each in tried:
        places = f"places for {each.places} of {waiting}"
        yield f"  {each.name:<{width}}  {places}, {words.count(each.nodes, 'node')}"
    if len(group.placements) > len(tried):
        yield f"  and {words.count(len(group.placements) - len(tried), 'other')}"


def _members(members: list[GroupMember]) -> Iterator[str]:
    """Those without a place first."""
    ordered = sorted(members, key=lambda each: (bool(each.node or each.place), bool(each.node)))
    listed = ordered[:MOST_LISTED]
    width = max(len(each.pod) for each in listed)
    for each in listed:
        yield f"  {each.pod:<{width}}  {_where(each)}"
    if len(members) > len(listed):
        yield f"  and {words.count(len(members) - len(listed), 'more member')}"


def _where(member: GroupMember) -> str:
    if member.node:
        return f"on {member.node}"
    return f"would go to {member.place}" if member.place else member.message or "waits"
