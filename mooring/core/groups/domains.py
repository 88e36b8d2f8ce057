"""What a topology constraint adds to the message of a member without a place: the domain that holds its
group, who is in the way there, and how many nodes are in no domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.api.groups import PodGroup
from mooring.framework.pod import GroupKey, PodInfo

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

MOST_NAMED = 3


def describe_domain(scheduler: Scheduler, key: GroupKey, pod: PodInfo) -> str:
    """What to add to the message; "" for a group without a constraint."""
    group = scheduler.members.group(key)
    if not isinstance(group, PodGroup) or not group.topology_key:
        return ""
    nodes = scheduler.cluster.table.nodes
    notes = []
    domain = _domain(scheduler, key, group.topology_key)
    if domain:
        others = [
            other.key
            for node in nodes
            if node.node.metadata.labels.get(group.topology_key) == domain
            for other in node.pods
            if other.group != key and any(other.shape.used.get(name) for name in pod.shape.requests)
        ]
        held = f"the group is held in {group.topology_key}={domain} by its pods there"
        notes.append(f"{held}, in the way: {_names(others)}" if others else held)
    unlabelled = sum(group.topology_key not in node.node.metadata.labels for node in nodes)
    if unlabelled:
        notes.append(f"{unlabelled} node(s) without label {group.topology_key}")
    return ". ".join(f"{note[0].upper()}{note[1:]}" for note in notes)


def _domain(scheduler: Scheduler, key: GroupKey, label: str) -> str:
    """Where the members are that have a node."""
    for pod in scheduler.members.scheduled_pods(key):
        info = scheduler.cluster.node(pod.node_name)
        if info is not None:
            return info.node.metadata.labels.get(label, "")
    return ""


def _names(keys: list[str]) -> str:
    keys = sorted(keys)
    more = len(keys) - MOST_NAMED
    return ", ".join(keys[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
