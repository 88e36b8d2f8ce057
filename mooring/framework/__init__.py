"""The plugin contract. `from mooring.framework import Plugin, Args, unschedulable` writes most plugins."""

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.framework.args import Args, Problem
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.devices import Devices, NodeDevice
from mooring.framework.events import Action, ClusterEvent, EventHint, Hint, Resource, requeue_on
from mooring.framework.handle import Client, Handle, Listers, Snapshot, WaitingPod
from mooring.framework.nodes import (
    BoolArray,
    Columns,
    Ids,
    IntArray,
    NodeInfo,
    Nodes,
    PodPredicate,
    Verdicts,
    refuse,
)
from mooring.framework.placements import Assignment, Placement, PlacementPlan, PodGroupInfo
from mooring.framework.plugin import Plugin, PostFilterResult, PreFilterResult, QueuedPod
from mooring.framework.pod import GroupKey, PodInfo, Resources, Shape
from mooring.framework.registration import plugin
from mooring.framework.status import Code, Status, error, pending, skip, unresolvable, unschedulable, wait

__all__ = [
    "Action",
    "ApiResource",
    "Args",
    "Assignment",
    "BoolArray",
    "CacheKey",
    "Client",
    "ClusterEvent",
    "Code",
    "Columns",
    "CycleState",
    "Devices",
    "EventHint",
    "GroupKey",
    "Handle",
    "Hint",
    "Ids",
    "IntArray",
    "KubeObject",
    "Listers",
    "NodeDevice",
    "NodeInfo",
    "Nodes",
    "Placement",
    "PlacementPlan",
    "Plugin",
    "PodGroupInfo",
    "PodInfo",
    "PodPredicate",
    "PostFilterResult",
    "PreFilterResult",
    "Problem",
    "QueuedPod",
    "Resource",
    "Resources",
    "Shape",
    "Snapshot",
    "StateKey",
    "Status",
    "Verdicts",
    "WaitingPod",
    "error",
    "pending",
    "plugin",
    "refuse",
    "requeue_on",
    "skip",
    "unresolvable",
    "unschedulable",
    "wait",
]
