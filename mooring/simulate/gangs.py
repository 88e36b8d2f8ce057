"""Gangs that arrive: a PodGroup and its pods for each arrival, which run equally long."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec.structs import replace

from mooring.api.groups import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    TopologyConstraint,
)
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.objects import Pod, PodSchedulingGroup
from mooring.simulate.arrivals import Arrivals, FloatArray, Template
from mooring.simulate.distributions import Draw, parse_distribution
from mooring.simulate.processes import MOST_ARRIVALS
from mooring.simulate.random_streams import stream
from mooring.simulate.scenario import GangSpec, JobGangSpec

MOST_MEMBERS = 10_000


class Gangs:
    """Makes gangs of a template by the scenario's `gang`."""

    def __init__(self, name: str, spec: GangSpec, folder: Path) -> None:
        self._name = name
        self._spec = spec
        self._size: Draw = parse_distribution(spec.size, folder)
        if spec.min_count is not None and spec.min_count < 1:
            raise ValueError(f"minCount: expected at least 1, found {spec.min_count}")

    def make(
        self, template: Template, times: FloatArray, lives: FloatArray, seed: int
    ) -> tuple[Arrivals, list[KubeObject]]:
        """The members of a gang for each arrival, and the PodGroups, which are there from the beginning."""
        drawn = self._size(stream(seed, f"{self._name}/size"), len(times))
        sizes = np.clip(np.rint(drawn), 1, MOST_MEMBERS).astype(np.int64)
        if int(sizes.sum()) > MOST_ARRIVALS:
            raise ValueError(f"more than {MOST_ARRIVALS} pods")
        keys = [f"{self._name}-{number}" for number in range(len(times))]
        pairs = list(zip(keys, sizes.tolist(), strict=True))
        namespace = template.pod.namespace
        topology = self._spec.topology
        groups: list[KubeObject] = [
            _group(key, namespace, self._least(size), topology) for key, size in pairs
        ]
        gang = np.repeat(np.arange(len(keys), dtype=np.int32), sizes)
        return Arrivals(
            [
                replace(template, pod=_member(template.pod, key), min_count=self._least(size))
                for key, size in pairs
            ],
            times[gang],
            gang,
            lives[gang],
            [f"{key}-{index}" for key, size in pairs for index in range(size)],
        ), groups

    def _least(self, size: int) -> int:
        return size if self._spec.min_count is None else min(size, self._spec.min_count)


def gangs_of_jobs(arrivals: Arrivals, spec: JobGangSpec) -> tuple[Arrivals, list[KubeObject]]:
    """The pods of a trace, those of each job as members of a PodGroup, and the PodGroups."""
    if arrivals.job is None or not arrivals.jobs:
        raise ValueError("gang: the trace has no jobs of several pods")
    if spec.min_count is not None and spec.min_count < 1:
        raise ValueError(f"gang: minCount: expected at least 1, found {spec.min_count}")
    sizes = np.bincount(arrivals.job[arrivals.job >= 0], minlength=len(arrivals.jobs)).tolist()
    templates, index = list(arrivals.templates), dict[tuple[int, int], int]()
    groups: dict[int, KubeObject] = {}
    rows = arrivals.template.copy()
    for row, (job, shape) in enumerate(zip(arrivals.job.tolist(), rows.tolist(), strict=True)):
        if job < 0:
            continue
        name, least, level = (
            arrivals.jobs[job].name,
            arrivals.jobs[job].min_count,
            arrivals.jobs[job].topology,
        )
        if spec.min_count is not None:
            least = spec.min_count
        least = sizes[job] if least is None else min(least, sizes[job])
        template = templates[shape]
        if (job, shape) not in index:
            index[job, shape] = len(templates)
            templates.append(replace(template, pod=_member(template.pod, name), min_count=least))
        if job not in groups:
            groups[job] = _group(name, template.pod.namespace, least, spec.topology or level)
        rows[row] = index[job, shape]
    arrivals.templates, arrivals.template, arrivals.job, arrivals.jobs = templates, rows, None, ()
    return arrivals, list(groups.values())


def _group(name: str, namespace: str, least: int, topology: str) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=least))
    constraints = PodGroupSchedulingConstraints([TopologyConstraint(topology)]) if topology else None
    return PodGroup(
        api_version="scheduling.k8s.io/v1alpha2",
        kind="PodGroup",
        metadata=ObjectMeta(name=name, namespace=namespace, uid=f"PodGroup/{namespace}/{name}"),
        spec=PodGroupSpec(scheduling_policy=policy, scheduling_constraints=constraints),
    )


def _member(pod: Pod, group: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name=group)))
