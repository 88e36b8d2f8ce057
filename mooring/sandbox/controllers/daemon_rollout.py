"""Rolling updates of DaemonSets: which pods go, and which nodes get a second one, so that never too many are
unavailable or too many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mooring.api.objects import Pod
from mooring.api.workloads import DaemonSet


class Steps(NamedTuple):
    """What is to be done next."""

    delete: list[Pod]
    create: list[str]


class OnNode(NamedTuple):
    """The pods of a set on one node that are not being deleted."""

    wanted: bool
    """Whether there is to be a pod on this node."""
    new: list[Pod]
    old: list[Pod]

    @property
    def settled(self) -> bool:
        """Whether there is at most one of each."""
        return len(self.new) <= 1 and len(self.old) <= 1


def limits(set: DaemonSet, desired: int) -> tuple[int, int]:
    """How many pods may be unavailable, and how many nodes may have a second pod."""
    rolling = set.spec.update_strategy.rolling_update
    if set.spec.update_strategy.type != "RollingUpdate" or rolling is None:
        return 0, 0
    unavailable = _scaled(rolling.max_unavailable, desired)
    surge = _scaled(rolling.max_surge, desired)
    return unavailable or int(not surge), surge


def surges(set: DaemonSet) -> bool:
    return limits(set, 1)[1] > 0


def next_steps(
    set: DaemonSet, nodes: Mapping[str, OnNode], available: Callable[[Pod], bool], desired: int
) -> Steps:
    """What a rolling update may do now; nodes that are not settled count, and are left alone."""
    max_unavailable, max_surge = limits(set, desired)
    if max_surge:
        return _surge(nodes, available, desired, max_surge)
    return _replace(nodes, available, max_unavailable)


def _replace(nodes: Mapping[str, OnNode], available: Callable[[Pod], bool], max_unavailable: int) -> Steps:
    """Old pods that are unavailable may go at once; of the others as many as may be missing."""
    unavailable = 0
    ailing: list[Pod] = []
    candidates: list[Pod] = []
    for on_node in nodes.values():
        new, old = on_node.new, on_node.old
        if not on_node.settled or bool(new) == bool(old):
            unavailable += 1
        elif new:
            unavailable += not available(new[0])
        elif available(old[0]):
            candidates.append(old[0])
        else:
            ailing.append(old[0])
            unavailable += 1
    return Steps(ailing + candidates[: max(0, max_unavailable - unavailable)], [])


def _surge(
    nodes: Mapping[str, OnNode], available: Callable[[Pod], bool], desired: int, max_surge: int
) -> Steps:
    """New pods come before old ones go. Where pods no longer belong, they stay until enough are available
    elsewhere."""
    surging = running = 0
    delete: list[Pod] = []
    leaving: list[Pod] = []
    replace: list[str] = []
    candidates: list[str] = []
    for name, on_node in nodes.items():
        new, old = on_node.new, on_node.old
        if not on_node.settled:
            surging += 1
            continue
        running += any(available(pod) for pod in (old or new))
        if not old:
            continue
        if new:
            if available(new[0]):
                delete.append(old[0])
            else:
                surging += 1
        elif not on_node.wanted:
            (leaving if available(old[0]) else delete).append(old[0])
        else:
            (candidates if available(old[0]) else replace).append(name)
    delete += leaving[: max(0, running - desired)]
    return Steps(delete, replace + candidates[: max(0, max_surge - surging)])


def _scaled(value: int | str | None, total: int) -> int:
    """A number, or a percentage of the total, rounded up."""
    if isinstance(value, str):
        return -(-int(value.removesuffix("%")) * total // 100)
    return value or 0
