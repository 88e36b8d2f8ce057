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
from mooring.simulate.scenario import GangSpec

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
        groups: list[KubeObject] = [self._group(key, namespace, size) for key, size in pairs]
        gang = np.repeat(np.arange(len(keys), dtype=np.int32), sizes)
        return Arrivals(
            [replace(template, pod=_member(template.pod, key)) for key in keys],
            times[gang],
            gang,
            lives[gang],
            [f"{key}-{index}" for key, size in pairs for index in range(size)],
        ), groups

    def _group(self, name: str, namespace: str, size: int) -> PodGroup:
        least = size if self._spec.min_count is None else min(size, self._spec.min_count)
        policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=least))
        constraints = None
        if self._spec.topology:
            constraints = PodGroupSchedulingConstraints([TopologyConstraint(self._spec.topology)])
        return PodGroup(
            api_version="scheduling.k8s.io/v1alpha2",
            kind="PodGroup",
            metadata=ObjectMeta(name=name, namespace=namespace, uid=f"PodGroup/{namespace}/{name}"),
            spec=PodGroupSpec(scheduling_policy=policy, scheduling_constraints=constraints),
        )


def _member(pod: Pod, group: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name=group)))
