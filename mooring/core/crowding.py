"""Nominated pods in the way: nodes that would take a pod, were it not for the pods promised to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mooring.core.nominator import Nominator
from mooring.framework.cycle_state import StateKey
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status
from mooring.runtime.changes import Changes
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.engine_state import EngineState
from mooring.runtime.filtering import Answer
from mooring.runtime.profile import Profile


class Crowding:
    """For pods of one shape: the rows that refuse them once the pods nominated there are counted, and why.

    Nominated pods of at least the pod's priority count; a node must pass with them and without. Nominations
    are logged as changes of their node, so where the filters look at single nodes only, the rows that did
    not change keep their answer.
    """

    def __init__(self) -> None:
        self._refusals: dict[int, Status] = {}
        self._complete = False

    def refresh(
        self,
        profile: Profile,
        pod: PodInfo,
        nodes: EngineNodes,
        state: EngineState,
        nominator: Nominator,
        changes: Changes,
    ) -> Mapping[int, Status]:
        nominations = nominator.nodes_with_nominations()
        local = profile.filters_are_local(state)
        rows = changes.any
        if not self._complete or isinstance(rows, slice) or not local:
            self._refusals.clear()
            crowded = [
                (row, nominations[name]) for name in nominations if (row := nodes.index(name)) is not None
            ]
            self._refusals.update(refusals_with(profile, pod, nodes, state, crowded))
        elif rows is not None:
            changed = list(dict.fromkeys(rows if isinstance(rows, list) else rows.tolist()))
            for row in changed:
                self._refusals.pop(row, None)
            crowded = [(row, pods) for row in changed if (pods := nominator.nominated_for(nodes[row].name))]
            self._refusals.update(refusals_with(profile, pod, nodes, state, crowded))
        self._complete = local
        own = nominator.node_of(pod.uid)
        row = nodes.index(own) if own else None
        if row is None or row not in self._refusals:
            return self._refusals
        # A nominated pod is not in its own way.
        others = [other for other in nominator.nominated_for(own) if other.uid != pod.uid]
        refusals = {k: status for k, status in self._refusals.items() if k != row}
        refusals.update(refusals_with(profile, pod, nodes, state, [(row, others)]))
        return refusals


def refusals_with(
    profile: Profile,
    pod: PodInfo,
    nodes: EngineNodes,
    state: EngineState,
    nominated: Iterable[tuple[int, Sequence[PodInfo]]],
) -> dict[int, Status]:
    """The rows that refuse the pod with these pods present, and why."""
    important = [(row, [p for p in pods if p.priority >= pod.priority]) for row, pods in nominated]
    crowded = [(row, pods) for row, pods in important if pods]
    if not crowded:
        return {}
    rows = [row for row, _ in crowded]
    view = nodes.what_if(np.array(rows, np.intp), [()] * len(rows), [pods for _, pods in crowded])
    view.set_all_present(np.ones(view.present.shape, np.bool_), True)
    answer = Answer(profile.filters, state, pod, view)
    refused = np.flatnonzero(answer.first).tolist()
    return {rows[i]: status for i in refused if (status := answer.status(i)) is not None}


CROWDING = StateKey[Crowding]("crowding")
