"""Waits for pods to be scheduled or tried: barriers, and the end of createPods."""

from __future__ import annotations

import asyncio

from mooring.api.objects import Pod
from mooring.simulate.perf.measuring import matches
from mooring.simulate.perf.suite import Barrier
from mooring.simulate.perf.workspace import WorkloadError, Workspace

WAIT = 600.0  # seconds for pods to be scheduled
LOOK = 0.05  # seconds between two looks at pods that change all the time


class PodWaits:
    """Waits for the pods of a workload."""

    def __init__(self, work: Workspace) -> None:
        self._work = work
        self._changed = asyncio.Event()

    def pod_changed(self) -> None:
        self._changed.set()

    async def barrier(self, operation: Barrier) -> None:
        attempted = operation.stage_requirement == "Attempted"
        for namespace in operation.namespaces or list(self._work.expected):
            if namespace not in self._work.expected:
                raise ValueError(f"unknown namespace {namespace}")
            count = self._work.expected[namespace]
            await self.wait(namespace, operation.label_selector, count, attempted)
        if not attempted:
            for namespace in operation.namespaces or list(self._work.expected):
                self._work.expected[namespace] = 0

    async def wait(self, namespace: str, selector: dict[str, str], count: int, attempted: bool) -> None:
        """Wait until as many pods of a namespace are scheduled, or were tried."""
        try:
            async with asyncio.timeout(WAIT):
                while self._missing(namespace, selector, count, attempted):
                    self._changed.clear()
                    await self._changed.wait()
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            raise WorkloadError(self._why(namespace, selector, count, attempted)) from None

    def _missing(self, namespace: str, selector: dict[str, str], count: int, attempted: bool) -> bool:
        pods = self._work.bench.pods.in_namespace(namespace)
        if len(pods) < count:
            return True
        return sum(matches(pod, selector) and _is_done(pod, attempted) for pod in pods) < count

    def _why(self, namespace: str, selector: dict[str, str], count: int, attempted: bool) -> str:
        waiting = [
            pod
            for pod in self._work.bench.pods.in_namespace(namespace)
            if matches(pod, selector) and not _is_done(pod, attempted)
        ]
        word = "attempted" if attempted else "scheduled"
        text = f"{len(waiting)} of {count} pods of namespace {namespace} not {word} after {WAIT:.0f} s"
        if waiting:
            text += f", such as {waiting[0].name}: {_reason(waiting[0])}"
        return text


def _is_done(pod: Pod, attempted: bool) -> bool:
    if pod.spec.node_name:
        return True
    return attempted and any(each.type == "PodScheduled" for each in pod.status.conditions)


def _reason(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled":
            return condition.message or condition.reason or "no reason given"
    return "no attempt yet"
