"""How many replicas a resource metric calls for: kube-controller-manager's arithmetic for autoscalers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mooring.api.meta import Tree
from mooring.api.objects import Pod
from mooring.api.quantity import NANO, parse
from mooring.api.quantity_texts import written
from mooring.api.resources import has_pod_level_requests, total_requests
from mooring.api.times import parse_time
from mooring.sandbox.controllers.scaling_limits import TOLERANCE
from mooring.sandbox.programs.usage import request_of

STARTING_FOR = 300.0  # seconds in which the CPU usage of a pod counts only once it has been ready for a while
FIRST_READY_WITHIN = 30.0
WINDOW = 15.0  # seconds that one sample of usage covers

Usage = dict[str, int]
"""Nano-units by the name of a pod."""


class MetricError(Exception):
    """No number of replicas follows from a metric."""


class Proposal(NamedTuple):
    replicas: int
    metric: str
    """As events and conditions name it."""
    current: Tree
    """The current value, as in the status of autoscalers."""


class Tolerances(NamedTuple):
    """How far the ratio of usage to target may be from 1 without consequences."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def include(self, ratio: float) -> bool:
        return 1 - self.down <= ratio <= 1 + self.up


class _Samples(NamedTuple):
    usage: Usage
    """Of pods that count."""
    unready: Sequence[str]
    missing: Sequence[str]


class Source(NamedTuple):
    """What a metric measures: a resource of whole pods, or of one container of each."""

    resource: str
    target: Tree
    container: str = ""

    @property
    def name(self) -> str:
        return f"{self.resource} container resource" if self.container else f"{self.resource} resource"


Measure = Callable[[Pod], Mapping[str, Usage]]
"""Returns what the containers of a pod use, by resource."""


def propose(
    pods: Sequence[Pod],
    source: Source,
    replicas: int,
    tolerances: Tolerances,
    measure: Measure,
    now: float,
) -> Proposal:
    """Return the replicas that bring a resource to its target. Raises MetricError."""
    if "averageValue" not in source.target and "averageUtilization" not in source.target:
        raise MetricError(
            "invalid resource metric source: neither an average utilization target "
            "nor an average value (usage) target was set"
        )
    kind = "usage" if "averageValue" in source.target else "utilization"
    failed = f"failed to get {source.resource} {kind}"
    samples = _samples(pods, source, measure, now, failed)
    if kind == "usage":
        return _propose_average(samples, source, replicas, tolerances)
    requests = {pod.name: _request(pod, source, failed) for pod in pods}
    return _propose_utilization(samples, requests, source, replicas, tolerances, failed)


def _propose_utilization(
    samples: _Samples,
    requests: Usage,
    source: Source,
    replicas: int,
    tolerances: Tolerances,
    failed: str,
) -> Proposal:
    target: int = source.target["averageUtilization"]
    fallbacks = {name: requests[name] * max(100, target) // 100 for name in samples.missing}

    def percent(usage: Usage) -> int:
        requested = sum(requests[name] for name in usage)
        if not requested:
            raise MetricError(f"{failed}: no metrics returned matched known pods")
        return sum(usage.values()) * 100 // requested

    proposed = _replicas(samples, replicas, lambda usage: percent(usage) / target, fallbacks, tolerances)
    mean = _mean(samples.usage, source.resource)
    current = {"averageUtilization": percent(samples.usage), "averageValue": mean}
    return Proposal(proposed, f"{source.name} utilization (percentage of request)", current)


def _propose_average(samples: _Samples, source: Source, replicas: int, tolerances: Tolerances) -> Proposal:
    bound = parse(source.target["averageValue"])
    fallbacks = dict.fromkeys(samples.missing, bound)

    def ratio(usage: Usage) -> float:
        return sum(usage.values()) / len(usage) / bound

    proposed = _replicas(samples, replicas, ratio, fallbacks, tolerances)
    current = {"averageValue": _mean(samples.usage, source.resource)}
    return Proposal(proposed, f"{source.resource} resource", current)


def _replicas(
    samples: _Samples,
    replicas: int,
    ratio_of: Callable[[Usage], float],
    fallbacks: Mapping[str, int],
    tolerances: Tolerances,
) -> int:
    """Return the replicas by the ratio of usage to target. Pods without a sample count such that they dampen
    the change, and never turn it around."""
    ratio = ratio_of(samples.usage)
    if not samples.missing and not (samples.unready and ratio > 1):
        return replicas if tolerances.include(ratio) else math.ceil(ratio * len(samples.usage))
    usage = dict(samples.usage)
    if ratio < 1:
        usage.update(fallbacks)
    elif ratio > 1:
        usage.update(dict.fromkeys((*samples.missing, *samples.unready), 0))
    dampened = ratio_of(usage)
    if tolerances.include(dampened) or (ratio < 1) != (dampened < 1):
        return replicas
    proposed = math.ceil(dampened * len(usage))
    return replicas if (dampened < 1) == (proposed > replicas) else proposed


def _samples(pods: Sequence[Pod], source: Source, measure: Measure, now: float, failed: str) -> _Samples:
    if not pods:
        raise MetricError(f"{failed}: no pods returned by selector while calculating replica count")
    usage, unready, missing = Usage(), list[str](), list[str]()
    for pod in pods:
        if pod.terminating or pod.status.phase == "Failed":
            continue
        used = measure(pod)
        if source.container:
            used = {name: usage for name, usage in used.items() if name == source.container}
        if pod.status.phase == "Pending":
            unready.append(pod.name)
        elif not used:
            missing.append(pod.name)
        elif source.resource == "cpu" and _is_starting(pod, now):
            unready.append(pod.name)
        else:
            usage[pod.name] = sum(one[source.resource] for one in used.values())
    if not usage:
        raise MetricError(f"{failed}: did not receive metrics for targeted pods (pods might be unready)")
    return _Samples(usage, unready, missing)


def _is_starting(pod: Pod, now: float) -> bool:
    """Return whether the CPU usage of a pod says nothing yet about its load."""
    ready = next((one for one in pod.status.conditions if one.type == "Ready"), None)
    if ready is None or pod.status.start_time is None:
        return True
    since, started = parse_time(ready.last_transition_time or ""), parse_time(pod.status.start_time)
    if started + STARTING_FOR > now:
        return ready.status == "False" or now < since + WINDOW
    return ready.status == "False" and started + FIRST_READY_WITHIN > since


def _request(pod: Pod, source: Source, failed: str) -> int:
    """Return the request of the container, or that of the pod, or the sum of its containers'."""
    resource = source.resource
    if not source.container and has_pod_level_requests(pod):
        requests = total_requests(pod, use_status=False)
        if resource not in requests:
            raise MetricError(f"{failed}: missing pod-level request for {resource} in Pod {pod.name}")
        return requests[resource]
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    containers = [one for one in (*pod.spec.containers, *sidecars) if source.container in ("", one.name)]
    if not containers:
        raise MetricError(f"{failed}: container {source.container} not found in Pod {pod.name}")
    total = 0
    for container in containers:
        request = request_of(container, resource)
        if request is None:
            where = f"container {container.name} of Pod {pod.name}"
            raise MetricError(f"{failed}: missing request for {resource} in {where}")
        total += request
    return total


def _mean(usage: Usage, resource: str) -> str:
    mean = sum(usage.values()) // len(usage)
    if resource == "memory":
        return written(mean // NANO * NANO, "1Ki")
    return written(mean // 1_000_000 * 1_000_000, "1m")
