"""Everything that a scheduler can say about one group of pods: who is missing what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mooring.api.groups import PodGroup
from mooring.api.times import format_time
from mooring.core.groups.dialects import DIALECTS, AnyPodGroup
from mooring.core.groups.plan import Member, Plan
from mooring.core.groups.rehearsal import GroupRehearsal
from mooring.core.scheduler import Scheduler
from mooring.explain import words
from mooring.explain.changes import changes
from mooring.explain.departures import departure, missing_resources
from mooring.explain.explanation import (
    Departure,
    GroupExplanation,
    GroupMember,
    GroupOutline,
    Lacking,
    TriedPlacement,
    Waiting,
)
from mooring.explain.rehearsal import Rehearsal
from mooring.explain.starvation import starvation
from mooring.explain.waiting import waiting
from mooring.framework.nodes import BoolArray
from mooring.framework.placements import Placement
from mooring.framework.pod import GroupKey, PodInfo
from mooring.framework.status import Status
from mooring.runtime.runners import PluginError

CONDITION = "PodGroupScheduled"
MOST_EXPLAINED = 4  # kinds of members without a place
MOST_CHANGES = 3


def find_group(scheduler: Scheduler, namespace: str, name: str) -> GroupKey | None:
    """The group of that name that has an object or a pod; Kubernetes' own before one of Coscheduling."""
    keys = [GroupKey(namespace, name, api_group) for api_group in DIALECTS]
    members = scheduler.members
    return next((key for key in keys if members.group(key) is not None or members.size(key)), None)


def explain_named_group(scheduler: Scheduler, namespace: str, name: str) -> GroupExplanation | None:
    """Put together what the scheduler knows of a group; None if there is neither an object nor a pod."""
    key = find_group(scheduler, namespace, name)
    return None if key is None else explain_group(scheduler, key)


def explain_group(scheduler: Scheduler, key: GroupKey) -> GroupExplanation:
    stored = scheduler.members.group(key)
    pods = sorted(scheduler.members.pods(key), key=lambda pod: pod.name)
    explanation = GroupExplanation(
        group=str(key),
        state="missing",
        summary="",
        as_of=format_time(scheduler.clock()),
        pods=len(pods),
        scheduled=scheduler.members.scheduled(key),
        members=[GroupMember(pod=pod.key, node=_node(scheduler, pod)) for pod in pods],
    )
    if stored is not None:
        _describe_object(explanation, stored)
        explanation.starts_with = _others(scheduler, key)
    if explanation.topology_key:
        key_of_domain = explanation.topology_key
        explanation.unlabelled_nodes = sum(
            key_of_domain not in node.labels for node in scheduler.cluster.nodes
        )
    rehearsal = GroupRehearsal(scheduler, key)
    if rehearsal.pods:
        refused_by = _rehearse(scheduler, key, rehearsal, explanation)
        explanation.waiting = _longest_wait(scheduler, rehearsal.pods, refused_by)
        explanation.starvation = starvation(scheduler, key)
    explanation.state = _state(explanation, is_missing=stored is None)
    explanation.summary = f"{explanation.group} {summary(explanation)}"
    return explanation


def _node(scheduler: Scheduler, pod: PodInfo) -> str:
    placed = scheduler.cluster.placed(pod.uid)
    return "" if placed is None else placed.node_name


def outline(scheduler: Scheduler, key: GroupKey) -> GroupOutline:
    """The group of a pod, in a sentence."""
    explanation = explain_group(scheduler, key)
    return GroupOutline(group=explanation.group, state=explanation.state, summary=explanation.summary)


def _others(scheduler: Scheduler, key: GroupKey) -> list[str]:
    """The groups that start together with this one and have too few members on nodes, in words."""
    members, others = scheduler.members, []
    for other in members.attempted_with(key):
        if other != key:
            minimum, size = members.minimum(other), members.size(other)
            others.append(
                f"{other}, of which {size} of {minimum} pods exist" if size < minimum else str(other)
            )
    templates = [f'a group of "{each}", which does not exist' for each in members.missing_templates(key)]
    return others + templates


def _describe_object(explanation: GroupExplanation, group: AnyPodGroup) -> None:
    explanation.policy = "basic" if group.min_count is None else "gang"
    explanation.min_count = group.min_count or 0
    if not isinstance(group, PodGroup):
        explanation.condition = group.status.phase
        return
    explanation.topology_key = group.topology_key
    condition = next((each for each in group.status.conditions if each.type == CONDITION), None)
    if condition is not None:
        explanation.condition = f"{condition.reason}: {condition.message}".removesuffix(": ")


def _state(explanation: GroupExplanation, *, is_missing: bool) -> str:
    if is_missing:
        return "missing"
    if explanation.pods < explanation.min_count or not explanation.pods:
        return "gated"
    needed = explanation.min_count or 1
    if explanation.scheduled >= needed:
        return "scheduled"
    if explanation.scheduled:
        return "partial"
    if explanation.victims:
        return "preempting"
    return "fits" if explanation.places >= needed and not explanation.starts_with else "pending"


def _longest_wait(scheduler: Scheduler, pods: Sequence[PodInfo], refused_by: Iterable[str]) -> Waiting | None:
    """Where the member stands that waits for the most kinds of events: it stands for the group."""
    waits = [each for pod in pods if (each := waiting(scheduler, pod, refused_by)) is not None]
    return max(waits, key=lambda each: (len(each.events), each.attempts), default=None)


# ---- an attempt, rehearsed


class _Trial(NamedTuple):
    placement: Placement
    nodes: int
    places: int
    fits: bool


def _rehearse(
    scheduler: Scheduler, key: GroupKey, rehearsal: GroupRehearsal, explanation: GroupExplanation
) -> frozenset[str]:
    """Add what an attempt would come to now, in the placement that has a place for most members; return the
    plugins that would refuse members."""
    placements = rehearsal.placements()
    if isinstance(placements, Status):
        explanation.lacking = [Lacking(pods=[pod.key for pod in rehearsal.pods], message=placements.message)]
        return frozenset()
    trials = []
    for placement in placements if len(placements) > 1 else ():
        with rehearsal.plan(placement) as plan:
            nodes = len(placement.node_names or scheduler.cluster.table.names)
            trials.append(_Trial(placement, nodes, _places(plan), plan.status.ok))
    trials.sort(key=lambda trial: (-trial.fits, -trial.places, trial.placement.name))
    explanation.placements = [
        TriedPlacement(name=t.placement.name, nodes=t.nodes, places=t.places) for t in trials
    ]
    best = trials[0].placement if trials else placements[0]
    explanation.placement = best.name
    with rehearsal.plan(best) as plan:
        _describe_plan(scheduler, key, plan, rehearsal.rows(best), explanation)
        diagnoses = [member.diagnosis for member in plan.members if member.diagnosis is not None]
        return frozenset(plugin for each in diagnoses for plugin in each.unschedulable_plugins)


def _places(plan: Plan) -> int:
    return sum(member.cycle is not None and member.status.ok for member in plan.members)


def _describe_plan(
    scheduler: Scheduler, key: GroupKey, plan: Plan, within: BoolArray | None, explanation: GroupExplanation
) -> None:
    explanation.places = _places(plan)
    if plan.waiting_on_preemption:
        victims = [member.preemption.victims for member in plan.members if member.preemption is not None]
        explanation.victims = list(dict.fromkeys(victim.key for each in victims for victim in each))
    described = {each.pod: each for each in explanation.members}
    alike: dict[tuple[str, str], list[Member]] = {}
    for member in plan.members:
        entry = described[member.queued.pod.key]
        if member.cycle is not None and member.status.ok:
            entry.place = member.cycle.node_name
        else:
            entry.message = member.status.message
            # Not by shape: members of an indexed Job differ in a label that matters to no filter.
            requests = str(sorted(member.queued.pod.requests.items()))
            alike.setdefault((member.status.message, requests), []).append(member)
    explanation.lacking = [
        _lacking(scheduler, key, each, within, explain_first=i < MOST_EXPLAINED)
        for i, each in enumerate(alike.values())
    ]


def _lacking(
    scheduler: Scheduler,
    key: GroupKey,
    members: Sequence[Member],
    within: BoolArray | None,
    *,
    explain_first: bool,
) -> Lacking:
    """Why members that are alike have no place, on the nodes as the others leave them."""
    lacking = Lacking(pods=[member.queued.pod.key for member in members], message=members[0].status.message)
    if explain_first and members[0].cycle is None:
        try:
            rehearsal = Rehearsal(scheduler, members[0].queued.pod)
        except PluginError:
            return lacking
        missing = missing_resources(rehearsal, within)
        lacking.needs = words.joined(
            [f"{words.amount(name, n)} {name}" for name, n in missing.items()], "and"
        )
        lacking.departure = departure(rehearsal, within, key)
        if within is None and not rehearsal.feasible.any():
            # Members usually come from one template: a smaller request would be one of all of them.
            found = [change for change in changes(rehearsal) if change.kind != "resource"]
            found.sort(key=lambda change: -change.nodes)
            lacking.changes = found[:MOST_CHANGES]
    return lacking


# ---- in words


def summary(explanation: GroupExplanation) -> str:
    """The short answer, without the name of the group."""
    return _SUMMARIES[explanation.state](explanation)


def _missing(group: GroupExplanation) -> str:
    return f"does not exist, and {words.count(group.pods, 'pod')} {_verb(group.pods, 'wait')} for it"


def _gated(group: GroupExplanation) -> str:
    if not group.pods:
        return "has no pods"
    text = f"waits for pods: {group.pods} of {group.min_count} pods exist"
    if group.scheduled:
        text += f", {group.scheduled} of them {_verb(group.scheduled, 'have')} a node"
    waiting = group.pods - group.scheduled
    if waiting and group.places == waiting:
        return f"{text}; {'it' if waiting == 1 else 'all of them'} would fit now"
    return f"{text}; {_who_lacks_what(group)}" if group.lacking else text


def _members_with(group: GroupExplanation, count: int) -> str:
    return f"{count} of {words.count(group.pods, 'member')} {_verb(group.pods, 'have')}"


def _scheduled(group: GroupExplanation) -> str:
    text = f"is scheduled: {_members_with(group, group.scheduled)} a node"
    if not group.lacking:
        return text
    return f"{text}; {_who_lacks_what(group)}"


def _partial(group: GroupExplanation) -> str:
    members = f"{group.scheduled} of {group.min_count} members{_where(group)}"
    others = _who_lacks_what(group) if group.lacking else "the others would fit now"
    return f"runs in part, {members}, and comes first in the queue; {others}"


def _preempting(group: GroupExplanation) -> str:
    victims = words.listed(group.victims[:3], len(group.victims))
    return f"would start once {victims} {_verb(len(group.victims), 'are')} evicted"


def _fits(group: GroupExplanation) -> str:
    return f"would start now: {_members_with(group, group.places)} a place"


def _pending(group: GroupExplanation) -> str:
    least = f", and the group needs {group.min_count}" if group.min_count not in (0, group.pods) else ""
    places = f"{_members_with(group, group.places)} a place{least}"
    if not group.starts_with or (group.lacking and group.places < (group.min_count or 1)):
        return f"is pending: {places}{_where(group)}; {_who_lacks_what(group)}"
    others = words.joined(group.starts_with, "and")
    return f"is pending: {places}{_where(group)}; it starts together with {others}"


def _where(group: GroupExplanation) -> str:
    return f" in {group.topology_key}={group.placement}" if group.topology_key and group.placement else ""


_SUMMARIES = {
    "missing": _missing,
    "gated": _gated,
    "scheduled": _scheduled,
    "partial": _partial,
    "preempting": _preempting,
    "fits": _fits,
    "pending": _pending,
}


def _who_lacks_what(group: GroupExplanation) -> str:
    return words.listed([lack(each) for each in group.lacking[:2]], len(group.lacking)) or "no placement fits"


def lack(lacking: Lacking) -> str:
    """`train-7 lacks 8 nvidia.com/gpu: n12 would do after default/web-3 leaves (4 of 8 free)`."""
    names = [pod.partition("/")[2] for pod in lacking.pods]
    who = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    if not lacking.needs:
        return f"{who} {_verb(len(names), 'have')} no place: {lacking.message}"
    text = f"{who} {_verb(len(names), 'lack')} {lacking.needs}{' each' if len(names) > 1 else ''}"
    if lacking.departure is not None:
        text += f": {'for one of them, ' if len(names) > 1 else ''}{would_do(lacking.departure)}"
    return text


def would_do(each: Departure) -> str:
    pods = words.listed(each.pods[:2], len(each.pods))
    text = f"{each.node} would do after {pods} {_verb(len(each.pods), 'leave')}"
    return f"{text} ({each.free} of {each.allocatable} {each.resource} free)" if each.resource else text


def _verb(count: int, plural: str) -> str:
    """The verb for so many subjects."""
    if count != 1:
        return plural
    return {"have": "has", "are": "is"}.get(plural, f"{plural}s")
