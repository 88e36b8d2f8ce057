"""A registry of plugins that exist only by name, extension points and type of arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mooring.framework.args import Args
from mooring.plugins.args import IN_TREE_ARGS

POINTS: dict[str, str] = {
    "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption",
    "queueSort": "PrioritySort",
    "preFilter": (
        "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding "
        "VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"
    ),
    "filter": (
        "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit "
        "VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread "
        "InterPodAffinity DynamicResources NodeDeclaredFeatures"
    ),
    "postFilter": "DynamicResources DefaultPreemption",
    "preScore": (
        "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread "
        "InterPodAffinity NodeResourcesBalancedAllocation"
    ),
    "score": (
        "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity "
        "DynamicResources NodeResourcesBalancedAllocation ImageLocality"
    ),
    "reserve": "VolumeBinding DynamicResources",
    "preBind": "VolumeBinding DynamicResources",
    "bind": "DefaultBinder",
}


@dataclass(frozen=True)
class FakePlugin:
    name: str
    extension_points: frozenset[str]
    args_type: type[Args] | None = None


def registry(*more: FakePlugin) -> dict[str, FakePlugin]:
    """The in-tree plugins, and `more`."""
    names = {name for listed in POINTS.values() for name in listed.split()}
    plugins = [
        FakePlugin(
            name,
            frozenset(point for point, listed in POINTS.items() if name in listed.split()),
            IN_TREE_ARGS.get(name),
        )
        for name in sorted(names)
    ]
    return {plugin.name: plugin for plugin in (*plugins, *more)}


def plugin(name: str, *points: str, args: type[Args] | None = None) -> FakePlugin:
    return FakePlugin(name, frozenset(points), args)


def v1(**fields: object) -> dict[str, Any]:
    """A v1 configuration with these fields."""
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **fields}
