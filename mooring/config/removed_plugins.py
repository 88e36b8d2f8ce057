"""In-tree plugins that Kubernetes has removed, and what does their work now."""

from __future__ import annotations

# Gone since v1 froze: validation refuses these by name, whatever is registered.
VOLUME_LIMITS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})

# Before v1beta2 each of these scored by itself; they became strategies of NodeResourcesFit.
SCORING_STRATEGIES: dict[str, str] = {
    "NodeResourcesLeastAllocated": "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}

REMOVED: dict[str, str] = {
    "DefaultPodTopologySpread": "remove it: the system default constraints of PodTopologySpread do its work",
    "NodeLabel": "use NodeAffinity, if need be with args.addedAffinity for every pod of the profile",
    "NodePreferAvoidPods": "remove it and give the nodes a taint with effect PreferNoSchedule",
    "NodeResourceLimits": "remove it: no plugin scores by limits any more",
    "SelectorSpread": "remove it: the system default constraints of PodTopologySpread do its work",
    "ServiceAffinity": "use InterPodAffinity, with affinity terms in the pods of the service",
    **dict.fromkeys(sorted(VOLUME_LIMITS), "remove it: NodeVolumeLimits counts CSI and migrated volumes"),
    **{
        name: f"use NodeResourcesFit with args.scoringStrategy.type: {strategy}"
        for name, strategy in SCORING_STRATEGIES.items()
    },
}
