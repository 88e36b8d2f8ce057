"""Making nodes and pod templates out of the numbers of traces."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from mooring.api.meta import ObjectMeta
from mooring.api.objects import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from mooring.simulate.arrivals import Arrivals, Job, Template

HOSTNAME = "kubernetes.io/hostname"


def make_node(
    name: str, resources: Mapping[str, int | str], labels: Mapping[str, str] | None = None, pods: int = 110
) -> Node:
    """A node that has what it can hold, and is ready."""
    amounts: dict[str, int | float | str] = {**resources, "pods": pods}
    return Node(
        metadata=ObjectMeta(name=name, uid=name, labels={HOSTNAME: name, **(labels or {})}),
        status=NodeStatus(allocatable=amounts, capacity=amounts),
    )


def make_pod(
    requests: Mapping[str, int | str],
    *,
    namespace: str = "default",
    priority: int = 0,
    node_labels: Mapping[str, Sequence[str]] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Pod:
    """A pod to make others of; `node_labels` are the values that its node may have."""
    affinity = None
    if node_labels:
        expressions = [
            NodeSelectorRequirement(key=key, operator="In", values=list(values))
            for key, values in node_labels.items()
        ]
        term = NodeSelectorTerm(match_expressions=expressions)
        affinity = Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=[term])))
    amounts: dict[str, int | float | str] = {name: amount for name, amount in requests.items() if amount}
    container = Container(name="main", image="trace", resources=ResourceRequirements(requests=amounts))
    return Pod(
        metadata=ObjectMeta(namespace=namespace, labels=dict(labels or {})),
        spec=PodSpec(
            containers=[container],
            affinity=affinity,
            priority=priority,
            preemption_policy="PreemptLowerPriority",
        ),
        status=PodStatus(phase="Pending"),
    )


class ArrivalRows:
    """Collects the rows of a trace; pods that are made of the same share a template."""

    def __init__(self) -> None:
        self._index: dict[Hashable, int] = {}
        self._templates: list[Template] = []
        self._rows: list[tuple[float, int, float]] = []
        self._names: list[str] = []
        self._jobs: dict[Job, int] = {}
        self._job_of: list[int] = []

    def template(self, key: Hashable) -> int | None:
        return self._index.get(key)

    def add_template(self, key: Hashable, template: Template) -> int:
        index = self._index[key] = len(self._templates)
        self._templates.append(template)
        return index

    def add(self, name: str, time: float, template: int, run_time: float, job: Job | None = None) -> None:
        """A pod; those with equal jobs belong together."""
        self._job_of.append(-1 if job is None else self._jobs.setdefault(job, len(self._jobs)))
        self._names.append(name)
        self._rows.append((time, template, run_time))

    def __len__(self) -> int:
        return len(self._rows)

    def arrivals(self) -> Arrivals:
        """In the order of the file."""
        columns = np.array(self._rows, np.float64).reshape(-1, 3)
        times, templates, lives = columns[:, 0].copy(), columns[:, 1].astype(np.int32), columns[:, 2].copy()
        jobs = np.array(self._job_of, np.int32)
        return Arrivals(self._templates, times, templates, lives, self._names, list(self._jobs), jobs)
