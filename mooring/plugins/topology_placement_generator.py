"""TopologyPlacementGenerator: one placement per topology domain for groups with a topology constraint."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.api.groups import PodGroup
from mooring.framework.nodes import Nodes
from mooring.framework.placements import Placement, PodGroupInfo
from mooring.framework.plugin import Plugin
from mooring.framework.pod import SCHEDULING_GROUP, PodInfo
from mooring.framework.status import Status, error


class TopologyPlacementGenerator(Plugin):
    """Offers the nodes of each value of the constraint's label; members that have a node fix the value."""

    name = "TopologyPlacementGenerator"

    def generate_placements(self, group: PodGroupInfo, nodes: Nodes) -> Sequence[Placement] | Status:
        namespace, name, api_group = group.key
        if api_group != SCHEDULING_GROUP:  # Coscheduling has no constraints
            return [Placement("")]
        stored = self.handle.listers.get(PodGroup, name, namespace)
        if stored is None:
            return error(f'podgroup.scheduling.k8s.io "{name}" not found')
        key = stored.topology_key
        if not key:
            return [Placement("")]
        required: str | None = None
        if group.scheduled:
            domain = self._domain(key, group.scheduled)
            if isinstance(domain, Status):
                return domain
            required = domain
        domains: dict[str, list[str]] = {}
        for node in nodes:
            value = node.labels.get(key)
            if value is not None and (required is None or value == required):
                domains.setdefault(value, []).append(node.name)
        return [Placement(value, frozenset(domains[value])) for value in sorted(domains)]

    def _domain(self, key: str, pods: Sequence[PodInfo]) -> str | Status:
        """The only value of the label on the nodes of these pods."""
        domain: str | None = None
        for pod in pods:
            node = self.handle.snapshot.node(pod.node_name)
            if node is None:
                missing = f'nodeinfo not found for node name "{pod.node_name}"'
                return self._unknown(f"getting node for pod {pod.key}: {missing}")
            value = node.labels.get(key)
            if value is None:
                return self._unknown(f"no topology domain found for pod {pod.key}")
            if domain and domain != value:
                return self._unknown(f"more than 1 domain found for pod group: {domain}, {value}")
            domain = value
        return domain or ""

    def _unknown(self, why: str) -> Status:
        return error(f"cannot determine domain for already scheduled pods: {why}")
