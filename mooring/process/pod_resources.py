"""/metrics/resources: what each pod requests and is limited to, a line for every pod and resource.

There may be hundreds of thousands of lines. They are written while they are sent, some pods at a time, so
that scheduling goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from msgspec.structs import replace
from prometheus_client.utils import floatToGoString

from mooring.api.objects import Container, Pod
from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, pod_requests
from mooring.core.scheduler import Scheduler
from mooring.framework.pod import PodInfo
from mooring.process.aside import Ask
from mooring.serving.messages import Answer, Handler, Request

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
AT_ONCE = 200  # pods between two looks at what else there is to do

_BYTES = (MEMORY, EPHEMERAL_STORAGE, "storage")
_LIMITS = "limits"  # in a shape's memory
_number: Callable[[float], str] = floatToGoString
_escape = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def pod_resources(scheduler: Scheduler, leads: Callable[[], bool], ask: Ask) -> Handler:
    """Only the leader says anything: one line for each pod is enough."""

    async def handle(request: Request) -> Answer:
        pods = await ask(lambda: list(scheduler.intake.pods())) if leads() else []
        return Answer(content_type=CONTENT_TYPE, stream=_families(pods))

    return handle


async def _families(pods: Sequence[PodInfo]) -> AsyncIterator[bytes]:
    for name, words, amounts in (
        ("kube_pod_resource_request", "What a pod has to find free on a node", _requests),
        ("kube_pod_resource_limit", "What a pod is limited to", _limits),
    ):
        head = f"# HELP {name} [STABLE] {words}, by resource.\n# TYPE {name} gauge\n"
        for start in range(0, len(pods), AT_ONCE):
            some = pods[start : start + AT_ONCE]
            yield (head + "".join(_lines(name, pod, amounts(pod)) for pod in some)).encode()
            head = ""
            await asyncio.sleep(0)


def _lines(name: str, pod: PodInfo, amounts: Mapping[str, int]) -> str:
    spec = pod.spec
    priority = "" if spec.priority is None else spec.priority
    head = (
        f'{name}{{namespace="{pod.namespace}",pod="{pod.name}",node="{spec.node_name}",'
        f'scheduler="{spec.scheduler_name.translate(_escape)}",priority="{priority}"'
    )
    return "".join(
        f'{head},resource="{resource.translate(_escape)}",unit="{unit(resource)}"}} '
        f"{_number(amount / 1000 if resource == CPU else amount)}\n"
        for resource, amount in sorted(amounts.items())
        if amount
    )


def unit(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""


def _requests(pod: PodInfo) -> Mapping[str, int]:
    return pod.requests


def _limits(pod: PodInfo) -> Mapping[str, int]:
    memory = pod.shape.derived
    limits: Mapping[str, int] | None = memory.get(_LIMITS)
    if limits is None:
        limits = memory[_LIMITS] = pod_limits(pod.pod)
    return limits


def pod_limits(pod: Pod) -> dict[str, int]:
    """Limits add up as requests do, but for overhead, which counts only where there is a limit."""
    spec = pod.spec
    limits = replace(
        spec,
        containers=[_limited(each) for each in spec.containers],
        init_containers=[_limited(each) for each in spec.init_containers],
        resources=None if spec.resources is None else replace(spec.resources, requests=spec.resources.limits),
        overhead={},
    )
    sums = _sums(replace(pod, spec=limits))
    overhead = {name: amount for name, amount in spec.overhead.items() if sums.get(name)}
    return _sums(replace(pod, spec=replace(limits, overhead=overhead))) if overhead else sums


def _limited(container: Container) -> Container:
    resources = container.resources
    return replace(container, resources=replace(resources, requests=resources.limits))


def _sums(pod: Pod) -> dict[str, int]:
    return pod_requests(pod, use_status=False, pod_level=True, non_missing=False)
