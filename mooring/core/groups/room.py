"""How many pods of one shape the nodes take, where nothing but resources limits their number.

Most gangs are like that: no ports, volumes, claims, affinity or spread constraints. What each node takes is
then one division, and whether a gang fits is one sum, before any member is placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from mooring.framework.nodes import BoolArray, IntArray
from mooring.framework.pod import PodInfo, Shape, relevant_volumes
from mooring.plugins.node_resources_fit.node_resources_fit import NodeResourcesFit
from mooring.runtime.amounts import ALLOWED_PODS, pods_line
from mooring.runtime.profile import Profile
from mooring.runtime.runners import PluginError

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler

# Plugins that refuse no pod without volumes and claims once it has a node, nor a member of a gang by itself.
_REFUSE_NONE = frozenset({"VolumeBinding", "DynamicResources", "GangScheduling", "Coscheduling"})


class Room(msgspec.Struct, eq=False):
    """What the nodes have left of what pods of one shape request."""

    passing: BoolArray  # the rows that all filters but NodeResourcesFit let pass
    lines: list[int]  # of the table's amounts that count: what pods take of each requested resource
    requests: IntArray  # of one pod, by line
    free: IntArray  # by line and row

    def capacities(self) -> IntArray:
        """How many pods each row takes."""
        counts: IntArray = (self.free // self.requests[:, None]).min(axis=0)
        return np.where(self.passing, np.maximum(counts, 0), 0)

    def taken_by(self, scheduler: Scheduler, pod: PodInfo) -> IntArray:
        """What a pod takes of each line."""
        return scheduler.cluster.table.footprint(pod.shape).vector[self.lines]


def alike(pods: Sequence[PodInfo]) -> bool:
    """Whether pods differ in their labels at most, as those of an indexed Job do. To the filters in question
    these make no difference."""
    shape = pods[0].shape
    others = {pod.shape for pod in pods if pod.shape is not shape}
    return not others or {_kind(other) for other in others} == {_kind(shape)}


def _kind(shape: Shape) -> bytes:
    kind: bytes | None = shape.derived.get(_kind)
    if kind is None:
        spec = shape.spec
        kind = shape.derived[_kind] = msgspec.msgpack.encode(
            (
                sorted(shape.requests.items()),
                sorted(shape.score_requests.items()),
                shape.priority,
                shape.host_ports,
                spec.node_name,
                spec.node_selector,
                spec.affinity,
                spec.tolerations,
                spec.topology_spread_constraints,
                relevant_volumes(spec.volumes),
                spec.resource_claims,
                spec.preemption_policy,
                (spec.host_network, spec.host_users),
                spec.scheduler_name,
            )
        )
    return kind


def measure(scheduler: Scheduler, profile: Profile, pod: PodInfo) -> Room | None:
    """The room for pods like this one; None where more than resources limits their number."""
    late = {name for point in ("reserve", "permit") for name in profile.points.get(point, ())}
    fit = profile.plugins.get(NodeResourcesFit.name)
    own = not any(r.name in profile.custom_plugins for r in profile.filters)
    if scheduler.extenders or late - _REFUSE_NONE or type(fit) is not NodeResourcesFit or not own:
        return None  # filters that are not ours may look at labels
    try:
        choice = scheduler.algorithm.filtered(profile, pod)
    except PluginError:
        return None
    filtering = choice.diagnosis.filtering
    passing = None if filtering is None else filtering.passing_nodes(but=NodeResourcesFit.name)
    needed = choice.state.get(NodeResourcesFit.PRE_FILTER_KEY)
    table = scheduler.cluster.table
    if passing is None or needed is None or needed.optional or not set(needed.names) <= set(table.resources):
        return None
    if choice.diagnosis.allowed is not None:
        passing = passing & choice.diagnosis.allowed
    nominations = scheduler.queue.nominator.nodes_with_nominations()
    taken = pods_line(len(table.amounts.data))
    places = [ALLOWED_PODS, *(1 + table.resource_index[name] for name in needed.names)]
    amounts = table.amounts.data[:, : len(table)]
    room = Room(
        passing,
        [taken + place for place in places],
        np.array([1, *needed.amounts], np.int64),
        amounts[places] - amounts[[taken + place for place in places]],
    )
    for name, nominated in nominations.items():
        row = table.row_of.get(name)
        for other in nominated if row is not None else ():
            if other.priority >= pod.priority:
                room.free[:, row] -= room.taken_by(scheduler, other)
    return room
