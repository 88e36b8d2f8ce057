"""TopologyPlacementGenerator: one placement per topology domain for groups with a topology constraint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mooring.api.groups import PodGroup
from mooring.framework.nodes import NodeInfo, Nodes
from mooring.framework.placements import Placement, PodGroupInfo
from mooring.framework.plugin import Plugin
from mooring.framework.pod import SCHEDULING_GROUP, PodInfo
from mooring.framework.status import Status, error
from mooring.plugins.args import TopologyPlacementGeneratorArgs

PREFERRED = "mooring/preferred-topology"  # annotation of a PodGroup: the label of the preferred domain


class TopologyPlacementGenerator(Plugin[TopologyPlacementGeneratorArgs]):
    """Offers the nodes of each value of the constraint's label; members that have a node fix the value.

    Placements are divided by the labels of narrower domains, which are preferred.
    """

    name = "TopologyPlacementGenerator"

    def generate_placements(self, group: PodGroupInfo, nodes: Nodes) -> Sequence[Placement] | Status:
        namespace, name, api_group = group.key
        if api_group != SCHEDULING_GROUP:  # Coscheduling has no constraints
            return [Placement("")]
        stored = self.handle.listers.get(PodGroup, name, namespace)
        if stored is None:
            return error(f'podgroup.scheduling.k8s.io "{name}" not found')
        key, narrower = stored.topology_key, self._narrower(stored)
        if not key:
            return [Placement("", None, _divided(nodes, narrower))]
        required: str | None = None
        if group.scheduled:
            domain = self._domain(key, group.scheduled)
            if isinstance(domain, Status):
                return domain
            required = domain
        domains = _by_label(nodes, key)
        domains.pop(None, None)
        return [
            _placement(value, domains[value], narrower)
            for value in sorted(domains, key=str)
            if required is None or value == required
        ]

    def _narrower(self, group: PodGroup) -> Sequence[str]:
        """The labels of the domains that are preferred within a placement, from wide to narrow."""
        preferred = group.metadata.annotations.get(PREFERRED)
        if preferred:
            return [preferred]
        levels = self.args.levels
        return levels[levels.index(group.topology_key) + 1 :] if group.topology_key in levels else ()

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


def _by_label(nodes: Iterable[NodeInfo], key: str) -> dict[str | None, list[NodeInfo]]:
    """The nodes by their value of a label; None are those that do not have it."""
    domains: dict[str | None, list[NodeInfo]] = {}
    for node in nodes:
        domains.setdefault(node.labels.get(key), []).append(node)
    return domains


def _placement(value: str | None, nodes: Sequence[NodeInfo], narrower: Sequence[str]) -> Placement:
    return Placement(value or "", frozenset(node.name for node in nodes), _divided(nodes, narrower))


def _divided(nodes: Iterable[NodeInfo], keys: Sequence[str]) -> tuple[Placement, ...]:
    if not keys:
        return ()
    domains = _by_label(nodes, keys[0])
    return tuple(_placement(value, domains[value], keys[1:]) for value in sorted(domains, key=str))
