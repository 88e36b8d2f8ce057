"""The plugins a profile has unless it says otherwise, and how its own are merged into them."""

from __future__ import annotations

from mooring.config.feature_gates import FeatureGates
from mooring.config.types import PluginRef, PluginSet

# In kube-scheduler's order, with the weights of its default feature gates.
DEFAULT_MULTI_POINT: tuple[tuple[str, int], ...] = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
)

# Appended to them where a feature gate is enabled.
GATED_MULTI_POINT: tuple[tuple[str, str, int], ...] = (
    ("GangScheduling", "GangScheduling", 0),
    ("TopologyAwareWorkloadScheduling", "TopologyPlacementGenerator", 0),
    ("TopologyAwareWorkloadScheduling", "PodGroupPodsCount", 1),
)


def with_gated_plugins(plugin_set: PluginSet, gates: FeatureGates) -> PluginSet:
    """Return a merged plugin set with the plugins of enabled gates, after the other defaults."""
    disabled = {plugin.name for plugin in plugin_set.disabled}
    listed = {plugin.name for plugin in plugin_set.enabled}
    gated = [
        PluginRef(name=name, weight=weight)
        for gate, name, weight in GATED_MULTI_POINT
        if gates.is_enabled(gate) and name not in listed and not disabled & {name, "*"}
    ]
    if not gated:
        return plugin_set
    defaults = {name for name, _ in DEFAULT_MULTI_POINT}
    end = sum(plugin.name in defaults for plugin in plugin_set.enabled)
    enabled = [*plugin_set.enabled[:end], *gated, *plugin_set.enabled[end:]]
    return PluginSet(enabled=enabled, disabled=plugin_set.disabled)


def merge_multi_point(plugin_set: PluginSet) -> tuple[PluginSet, list[int | None]]:
    """The defaults with `given` merged in, and for each enabled plugin its index in `given`.

    A default that is enabled again is replaced where it stands, weight included: leaving the weight
    out then means 1, not the default weight. Disabled names are kept, so that merging twice changes
    nothing.
    """
    disabled = {plugin.name for plugin in plugin_set.disabled}
    position: dict[str, int] = {}
    for index, plugin in enumerate(plugin_set.enabled):
        position.setdefault(plugin.name, index)
    enabled: list[PluginRef] = []
    origins: list[int | None] = []
    for name, weight in DEFAULT_MULTI_POINT:
        if name in disabled or "*" in disabled:
            continue
        origin = position.get(name)
        enabled.append(PluginRef(name=name, weight=weight) if origin is None else plugin_set.enabled[origin])
        origins.append(origin)
    for index, plugin in enumerate(plugin_set.enabled):
        if index not in origins:
            enabled.append(plugin)
            origins.append(index)
    return PluginSet(enabled=enabled, disabled=plugin_set.disabled), origins
