"""A scheduler that was just started, given what another one knows: it must decide the same."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.api.decode import KINDS
from mooring.api.objects import Node, Pod
from mooring.core.decision import Decision
from tests.state.world import Rules, World

_KINDS_KEPT = [kind.model for kind in KINDS.values() if kind.model not in (Pod, Node)]


class Moment:
    """All that a scheduler knows before an attempt, as plain objects."""

    def __init__(self, world: World) -> None:
        scheduler = world.scheduler
        self.now, self.luck = world.now, world.random.getstate()
        self.nodes = [row.node for row in scheduler.cluster.table.nodes]
        self.placed = [(info.pod, info.node_name) for info in scheduler.cluster.pods()]
        self.things = [obj for kind in _KINDS_KEPT for obj in scheduler.store.list(kind)]
        self.nominated = {
            name: [info.pod for info in pods]
            for name, pods in scheduler.queue.nominator.nodes_with_nominations().items()
        }
        self.pending = {pod.key: pod for pod in world.cluster.pods.values() if not pod.spec.node_name}

    def again(self, rules: Rules, key: str) -> Decision:
        """The attempt at a pod as a scheduler makes it that has never seen anything else."""
        world = World(rules)
        world.now = self.now
        scheduler = world.scheduler
        for obj in (*self.nodes, *self.things):
            scheduler.apply(obj)
        for pod, node_name in self.placed:
            scheduler.apply(replace(pod, spec=replace(pod.spec, node_name=node_name)))
        for node_name, pods in self.nominated.items():
            for pod in pods:
                scheduler.queue.nominator.add(scheduler.cluster.info(pod), node_name)
        scheduler.apply(self.pending[key])
        world.random.setstate(self.luck)
        decision = scheduler.schedule_one()
        assert decision is not None
        return decision
