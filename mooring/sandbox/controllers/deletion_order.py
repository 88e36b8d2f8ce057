"""Which pods of a ReplicaSet go first when there are too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from heapq import nsmallest
from math import log2

from mooring.api.objects import Pod
from mooring.api.selectors import parse_int64
from mooring.api.times import parse_time

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NANOSECOND = 1e-9
_INT32 = 2**31

Key = tuple[bool, int, bool, int, int, int, int, int, int, str]


def pods_to_delete(pods: list[Pod], related: Iterable[Pod], count: int, now: float) -> list[Pod]:
    """Return the `count` pods to delete first: those not assigned, pending, not ready; with a low deletion
    cost; on nodes with many related pods; recently ready, often restarted, young.

    Ages are compared by their logarithm, and equal ones by uid, so that it is not always the youngest.
    (kube-controller-manager's comparison is no order between pods of like age that restarted differently;
    this one is.)
    """
    if count >= len(pods):
        return pods
    on_node = Counter(pod.spec.node_name for pod in related if pod.active)

    @cache  # times are whole seconds: many pods share them
    def age(since: str | None) -> int:
        return _age(since, now)

    return nsmallest(count, pods, key=lambda pod: _key(pod, on_node[pod.spec.node_name], age))


def _key(pod: Pod, neighbours: int, age: Callable[[str | None], int]) -> Key:
    ready_since = pod.ready_since
    restarts, sidecar_restarts = _restarts(pod)
    return (
        pod.spec.node_name != "",
        _PHASES.get(pod.status.phase, 0),
        ready_since is not None,
        deletion_cost(pod),
        -neighbours,
        age(ready_since),
        -restarts,
        -sidecar_restarts,
        age(pod.metadata.creation_timestamp),
        pod.uid,
    )


def _age(since: str | None, now: float) -> int:
    """An age on a logarithmic scale; what has no time is younger than all."""
    if not since:
        return -2
    age = now - parse_time(since)
    return int(log2(age / _NANOSECOND)) if age > 0 else -1


def _restarts(pod: Pod) -> tuple[int, int]:
    """The restarts of the container, and of the sidecar, that restarted most often."""
    statuses = pod.status.container_statuses
    most = max((status.restart_count for status in statuses), default=0)
    if not pod.status.init_container_statuses:
        return most, 0
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    counts = (one.restart_count for one in pod.status.init_container_statuses if one.name in sidecars)
    return most, max(counts, default=0)


def deletion_cost(pod: Pod) -> int:
    """What the pod's annotation says: a 32-bit integer in its plainest form; otherwise 0."""
    text = pod.metadata.annotations.get(DELETION_COST, "")
    if not text or text[0] == "+" or (text[0] == "0" and text != "0"):
        return 0
    cost = parse_int64(text)
    return cost if cost is not None and -_INT32 <= cost < _INT32 else 0
