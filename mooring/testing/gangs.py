"""Gangs, and binding requests that fail, for tests of what starts together."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.api.groups import GangSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy, PodGroupSpec
from mooring.api.meta import ObjectMeta
from mooring.api.objects import Pod, PodSchedulingGroup
from mooring.core.scheduler import Scheduler
from mooring.framework.pod import PodInfo
from mooring.testing.pods import make_pod

GATE = "GangScheduling"
UNABLE = "the server is currently unable to handle the request"


def make_gang(name: str, size: int, min_count: int, **pod: Any) -> tuple[PodGroup, list[Pod]]:
    """Return a PodGroup and its pods, "name-0" and so on; `pod` are arguments of make_pod."""
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=min_count))
    group = PodGroup(
        api_version="scheduling.k8s.io/v1alpha2",
        kind="PodGroup",
        metadata=ObjectMeta(
            name=name, namespace=pod.get("namespace", "default"), uid=f"podgroup-{name}", generation=1
        ),
        spec=PodGroupSpec(scheduling_policy=policy),
    )
    member = PodSchedulingGroup(pod_group_name=name)
    pods = [make_pod(f"{name}-{i}", **pod) for i in range(size)]
    return group, [replace(each, spec=replace(each.spec, scheduling_group=member)) for each in pods]


def require_gangs(scheduler: Scheduler) -> None:
    """Raise where gangs would mean nothing."""
    if not scheduler.feature_gates.is_enabled(GATE):
        raise RuntimeError(
            f"gang: feature gate {GATE} is off\n"
            'hint: make_cluster(…, feature_gates=["GenericWorkload", "GangScheduling"])'
        )


def fail_bind(scheduler: Scheduler, key: str, times: int, error: Exception | None) -> list[float]:
    """Have binding requests of a pod fail; the times of all its requests are added to the list returned."""
    client: Any = scheduler.client
    bind, requests = client.bind, list[float]()

    async def failing(pod: PodInfo, node_name: str) -> None:
        if pod.key == key:
            requests.append(scheduler.clock())
            if len(requests) <= times:
                raise RuntimeError(UNABLE) if error is None else error
        await bind(pod, node_name)

    client.bind = failing
    return requests
