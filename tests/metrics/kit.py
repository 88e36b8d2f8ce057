"""A cluster in memory whose scheduler is observed by a timer that a test can foresee."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from mooring.api.meta import KubeObject
from mooring.config import LoadedConfig, from_object
from mooring.core.scheduler import Scheduler
from mooring.framework import (
    Action,
    CycleState,
    EventHint,
    Plugin,
    PodInfo,
    Resource,
    Status,
    error,
    requeue_on,
    skip,
    unschedulable,
    wait,
)
from mooring.framework.nodes import NodeInfo, Nodes
from mooring.metrics import SchedulerMetrics, encode, make_registry
from mooring.testing import VirtualClock, config_with, make_node
from mooring.testing.scheduler_cluster import SchedulerCluster

TICK = 0.001  # seconds that seem to pass between two looks at the timer


class Ticks:
    """A timer that every look at it moves on, by the same amount."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks * TICK


class Wishes(Plugin):
    """Answers at each extension point as the pod's annotation of that name wishes. Nothing that happens in
    these tests brings a pod back that it refused."""

    name = "Wishes"

    def events_to_register(self) -> list[EventHint]:
        return [requeue_on(Resource.CSI_NODE, Action.ADD)]

    def _answer(self, point: str, pod: PodInfo) -> Status | None:
        wish = pod.annotations.get(point)
        if wish == "refuse":
            return unschedulable("not today")
        if wish == "fail":
            return error("out of order")
        if wish == "raise":
            raise RuntimeError("boom")
        if wish == "wait":
            return wait(30)
        return skip() if wish == "skip" else None

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return self._answer("preEnqueue", pod)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return self._answer("preFilter", pod)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return self._answer("filter", pod)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return self._answer("preScore", pod)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        self._answer("score", pod)
        return 0

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._answer("reserve", pod)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._answer("permit", pod)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._answer("preBind", pod)

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._answer("postBind", pod)


class Observed:
    """A cluster, and what its metrics say when they are scraped."""

    def __init__(
        self,
        nodes: Iterable[KubeObject] | int = 2,
        *,
        plugins: Iterable[type[Plugin]] = (),
        config: LoadedConfig | None = None,
        sample_every: int = 1,
        max_wait: float = 300,
        observe: bool = True,
    ) -> None:
        plugins = list(plugins)
        self.ticks, clock = Ticks(), VirtualClock()
        self.metrics = SchedulerMetrics(self.ticks, sample_every)
        self.scheduler = Scheduler(
            config or from_object(config_with(plugins)),
            clock=clock,
            pick=random.Random(0).randrange,
            plugins=plugins,
            observer=self.metrics if observe else None,
            pod_max_in_unschedulable_pods_duration=max_wait,
        )
        self.cluster = SchedulerCluster(self.scheduler, clock)
        self.registry = make_registry(self.metrics, self.scheduler)
        self.cluster.apply(
            *([make_node(f"node-{i}") for i in range(nodes)] if isinstance(nodes, int) else nodes)
        )

    def schedule(self, *pods: KubeObject) -> None:
        self.cluster.apply(*pods)
        self.cluster.schedule()

    def families(self) -> dict[str, Metric]:
        """The exposition, parsed, by the names it uses."""
        text, _ = encode(self.registry.collect(), "")
        found = {}
        for family in text_string_to_metric_families(text.decode()):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found[name] = family
        return found

    def values(self, metric: str, **labels: str) -> dict[str, float]:
        """A metric's samples with these labels, by what is left of their labels, the values joined by "/"."""
        found: dict[str, float] = {}
        name = f"scheduler_{metric}"
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    left = [value for label, value in sample.labels.items() if label not in labels]
                    found["/".join(left)] = sample.value
        return found

    def value(self, metric: str, **labels: str) -> float:
        """The one sample with exactly these labels."""
        return self.values(metric, **labels)[""]

    def points(self, field: str = "count") -> dict[str, float]:
        """What was counted (or summed up) of each extension point and status."""
        return self.values(f"framework_extension_point_duration_seconds_{field}", profile="default-scheduler")


def wishing(**wishes: str) -> Mapping[str, Any]:
    """For make_pod: what Wishes is to answer."""
    return {"annotations": wishes}
