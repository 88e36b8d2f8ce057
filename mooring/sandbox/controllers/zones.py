"""Zones of nodes: how fast nodes that are not ready may lose their pods, which depends on how many they are.

Where most of a zone is lost, or all of a cluster, it is rather the network than the nodes, and evicting
everything would make it worse.
"""

from __future__ import annotations

from mooring.api.objects import Node

EVICTION_INTERVAL = 10.0  # seconds between two nodes of a zone that lose their pods
SLOW_EVICTION_INTERVAL = 100.0  # where most of a large zone is lost
LARGE_ZONE = 50  # nodes; of a smaller one that is mostly lost nothing is evicted
MOSTLY_LOST = 0.55
EXCLUDED = "node.kubernetes.io/exclude-disruption"

Zone = tuple[str, str]
"""Region and zone."""


def zone_of(node: Node) -> Zone:
    labels = node.metadata.labels
    return labels.get("topology.kubernetes.io/region", ""), labels.get("topology.kubernetes.io/zone", "")


class Zones:
    """Counts nodes, ready and not."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[Zone, bool]] = {}
        self._ready: dict[Zone, int] = {}
        self._lost: dict[Zone, int] = {}
        self._all_ready = 0

    def update(self, name: str, node: Node | None) -> bool:
        """Take notice of a node as it is now. Returns whether others may have to be looked at again."""
        counted = node is not None and EXCLUDED not in node.metadata.labels
        new = (zone_of(node), node.ready) if node is not None and counted else None
        old = self._nodes.get(name)
        if old == new:
            return False
        zones = {one[0] for one in (old, new) if one is not None}
        before = self.all_lost, [self.interval(zone) for zone in zones]
        if old is not None:
            del self._nodes[name]
            self._count(*old, -1)
        if new is not None:
            self._nodes[name] = new
            self._count(*new, 1)
        return before != (self.all_lost, [self.interval(zone) for zone in zones])

    def _count(self, zone: Zone, ready: bool, by: int) -> None:
        counts = self._ready if ready else self._lost
        counts[zone] = counts.get(zone, 0) + by
        self._all_ready += by if ready else 0

    @property
    def all_lost(self) -> bool:
        """Whether no node at all is ready."""
        return self._all_ready == 0 and bool(self._nodes)

    def interval(self, zone: Zone) -> float | None:
        """Seconds between the evictions of two nodes of a zone; None where there are to be none."""
        ready, lost = self._ready.get(zone, 0), self._lost.get(zone, 0)
        if self.all_lost:
            return None
        if ready and lost > 2 and lost / (lost + ready) >= MOSTLY_LOST:
            return SLOW_EVICTION_INTERVAL if lost + ready > LARGE_ZONE else None
        return EVICTION_INTERVAL

    def lost(self) -> list[str]:
        """The nodes that are not ready."""
        return [name for name, (_, ready) in self._nodes.items() if not ready]
