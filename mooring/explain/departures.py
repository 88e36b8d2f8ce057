"""Which node would take a pod once other pods have left it?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.explain import words
from mooring.explain.explanation import Departure
from mooring.explain.fresh_node import ON_EVERY_NODE
from mooring.explain.refusing import Rows
from mooring.explain.rehearsal import Rehearsal
from mooring.framework.nodes import BoolArray
from mooring.framework.pod import GroupKey, PodInfo
from mooring.plugins.node_resources_fit.node_resources_fit import NodeResourcesFit

MOST_NODES = 16  # on which pods are taken away for a trial
MOST_PODS = 64  # of a node


def missing_resources(rehearsal: Rehearsal, within: BoolArray | None) -> dict[str, int]:
    """What the pod requests and none of the rows has free."""
    free = rehearsal.nodes.free
    rows = slice(None) if within is None else within
    requests = rehearsal.pod.requests
    return {name: n for name, n in requests.items() if n and int(free[name][rows].max(initial=0)) < n}


def departure(rehearsal: Rehearsal, within: BoolArray | None, group: GroupKey | None) -> Departure | None:
    """The node that the fewest pods would have to leave, the least important ones; None if there is none.

    Only nodes that refuse the pod for nothing but their resources are tried. Members of the group stay.
    """
    best: tuple[tuple[int, int, str], int, list[PodInfo]] | None = None
    for row in _by_deficit(rehearsal, _short_of_resources(rehearsal, within))[:MOST_NODES].tolist():
        pods = _leaving(rehearsal, row, group)
        if pods:
            key = (len(pods), max(pod.priority for pod in pods), rehearsal.nodes.names[row])
            if best is None or key < best[0]:
                best = key, row, pods
    return None if best is None else _described(rehearsal, best[1], best[2])


def _short_of_resources(rehearsal: Rehearsal, within: BoolArray | None) -> Rows:
    """The rows that only NodeResourcesFit refuses."""
    rows = [rows for plugin, _, rows in rehearsal.refusing.alone() if plugin == NodeResourcesFit.name]
    short: Rows = np.concatenate(rows) if rows else np.zeros(0, np.intp)
    return short if within is None else short[within[short]]


def _deficits(rehearsal: Rehearsal, rows: Rows) -> dict[str, np.ndarray]:
    """The share of each request that rows lack."""
    free = rehearsal.nodes.free
    return {
        name: np.maximum(0, requested - free[name][rows]) / requested
        for name, requested in rehearsal.pod.requests.items()
        if requested
    }


def _by_deficit(rehearsal: Rehearsal, rows: Rows) -> Rows:
    deficits = sum(_deficits(rehearsal, rows).values(), np.zeros(len(rows)))
    ordered: Rows = rows[np.argsort(deficits, kind="stable")]
    return ordered


def _leaving(rehearsal: Rehearsal, row: int, group: GroupKey | None) -> list[PodInfo]:
    """The pods that must leave a node: all that may, but those with which the pod would fit anyway."""
    pods = [pod for pod in rehearsal.nodes[row].pods if _may_leave(pod, group)]
    pods = sorted(pods, key=lambda pod: (-pod.priority, pod.start_time))[-MOST_PODS:]
    if not pods or not rehearsal.fits_without(row, pods):
        return []
    for pod in list(pods):  # most important first
        others = [each for each in pods if each is not pod]
        if others and rehearsal.fits_without(row, others):
            pods = others
    return pods


def _may_leave(pod: PodInfo, group: GroupKey | None) -> bool:
    owner = pod.shape.controller
    return (group is None or pod.group != group) and (owner is None or owner.kind not in ON_EVERY_NODE)


def _described(rehearsal: Rehearsal, row: int, pods: Sequence[PodInfo]) -> Departure:
    deficits = _deficits(rehearsal, np.array([row], np.intp))
    worst = max(deficits, key=lambda name: float(deficits[name][0]), default="")
    described = Departure(node=rehearsal.nodes.names[row], pods=[pod.key for pod in pods])
    if worst and float(deficits[worst][0]) > 0:
        described.resource = worst
        described.free = words.amount(worst, max(0, int(rehearsal.nodes.free[worst][row])))
        described.allocatable = words.amount(worst, int(rehearsal.nodes.allocatable[worst][row]))
    return described
