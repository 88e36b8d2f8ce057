"""What the scheduler holds in memory, as text: for the log, when SIGUSR2 asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mooring.api.counts import count
from mooring.api.times import format_time
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.scheduler import Scheduler
from mooring.framework.pod import PodInfo
from mooring.state.node_info import NodeRow


def dump(scheduler: Scheduler) -> Iterator[str]:
    """One text for each node, one for the queue, and one for the pods on their way to a node."""
    queue, cluster = scheduler.queue, scheduler.cluster
    yield f"Dump of the cache: {count(len(cluster.table), 'node')}, {count(len(cluster), 'pod')}"
    for node in cluster.table.nodes:
        yield "\n".join(_node(node, queue.nominator.nominated_for(node.name)))
    counts = ", ".join(f"{name} {count}" for name, count in queue.counts().items())
    yield "\n".join([f"Dump of the scheduling queue: {counts}", *map(_queued, queue)])
    held = [
        f"{pod.pod.key} for {pod.node_name}, by {', '.join(pod.pending_plugins)}" for pod in scheduler.waiting
    ]
    flying = [queued.pod.key for queued in queue.in_flight()]
    yield "\n".join([f"In flight: {len(flying)}; held by permit plugins: {len(held)}", *flying, *held])


def _node(node: NodeRow, nominated: Iterable[PodInfo]) -> Iterator[str]:
    yield f"Node {node.name}: {node.pod_count} of {count(node.allowed_pods, 'pod')}"
    yield f"  requested: {_amounts(node.requested)}"
    yield f"  allocatable: {_amounts(node.allocatable)}"
    for pod in node.pods:
        yield f"  {pod.key} uid={pod.uid} phase={pod.status.phase}"
    for pod in nominated:
        yield f"  nominated: {pod.key} uid={pod.uid} priority={pod.priority}"


def _amounts(amounts: dict[str, int]) -> str:
    return ", ".join(f"{name} {amount}{'m' if name == 'cpu' else ''}" for name, amount in amounts.items())


def _queued(queued: QueuedPodInfo) -> str:
    refused = ", ".join(sorted(queued.unschedulable_plugins | queued.pending_plugins))
    rejected = (
        f" gated by {queued.gating_plugin}" if queued.gated else f" refused by {refused}" if refused else ""
    )
    tried = f"attempts={queued.attempts} since={format_time(queued.timestamp)}"
    return f"  {queued.place.value}: {queued.pod.key} uid={queued.pod.uid} {tried}{rejected}"
