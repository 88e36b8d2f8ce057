"""How many pods are evicted for a gang, compared with the optimum of an exhaustive search."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any, NamedTuple

import pytest

from tests.core.groups.group_kit import GATES, GPU, bound, cluster_with, evict_slowly, members, pod_group
from tests.core.groups.test_gang_preemption import PLANNED

WHOLE = (*GATES, "WorkloadAwarePreemption")


class Low(NamedTuple):
    name: str
    node: int
    gpus: int
    cpus: int
    gang: str


class Scene(NamedTuple):
    nodes: list[tuple[int, int]]  # GPUs and CPUs
    pods: list[Low]
    minimum: dict[str, int]  # of running gangs
    size: int
    gpus: int
    cpus: int


def scene(seed: int) -> Scene:
    rng = random.Random(seed)
    nodes = [(rng.choice((4, 8)), rng.choice((8, 16))) for _ in range(rng.randint(2, 4))]
    free = [list(node) for node in nodes]
    pods: list[Low] = []
    for i in range(rng.randint(3, 9)):
        node = rng.randrange(len(nodes))
        gpus, cpus = rng.choice((1, 1, 2, 4)), rng.choice((1, 2, 6))
        if free[node][0] >= gpus and free[node][1] >= cpus:
            free[node][0] -= gpus
            free[node][1] -= cpus
            pods.append(Low(f"low-{i}", node, gpus, cpus, rng.choice(("", "", "x", "y"))))
    sizes = Counter(pod.gang for pod in pods if pod.gang)
    minimum = {gang: rng.randint(1, size) for gang, size in sizes.items()}
    return Scene(nodes, pods, minimum, rng.randint(1, 4), rng.choice((1, 2, 4)), rng.choice((1, 4)))


def places(scene: Scene, gone: frozenset[str]) -> int:
    free = [list(node) for node in scene.nodes]
    for pod in scene.pods:
        if pod.name not in gone:
            free[pod.node][0] -= pod.gpus
            free[pod.node][1] -= pod.cpus
    return sum(min(gpus // scene.gpus, cpus // scene.cpus) for gpus, cpus in free)


def runs_on(scene: Scene, gone: frozenset[str]) -> bool:
    """Whether every gang keeps its minimum, or leaves as a whole."""
    left = Counter(pod.gang for pod in scene.pods if pod.gang and pod.name not in gone)
    return all(not left[gang] or left[gang] >= minimum for gang, minimum in scene.minimum.items())


def optimum(scene: Scene) -> int | None:
    names = [pod.name for pod in scene.pods]
    for size in range(len(names) + 1):
        for chosen in itertools.combinations(names, size):
            gone = frozenset(chosen)
            if places(scene, gone) >= scene.size and runs_on(scene, gone):
                return size
    return None


def requests(gpus: int, cpus: int) -> dict[str, Any]:
    amounts = {"cpu": str(cpus), GPU: str(gpus)}
    return {"containers": [{"name": "main", "image": "main", "resources": {"requests": amounts}}]}


def victims(scene: Scene, spec: dict[str, Any], args: dict[str, Any]) -> list[str] | None:
    """Who is evicted; None where the gang does not start."""
    cluster = cluster_with(gates=WHOLE, gang_args=args)
    cluster.scheduler.record = False
    for i, (gpus, cpus) in enumerate(scene.nodes):
        amounts = {"cpu": str(cpus), "memory": "64Gi", "pods": "110", GPU: str(gpus)}
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n{i}", "labels": {"rack": "r"}},
                "status": {"allocatable": amounts},
            }
        )
    cluster.apply(*(pod_group(gang, minimum) for gang, minimum in scene.minimum.items()))
    for pod in scene.pods:
        (low,) = members(pod.gang, 1) if pod.gang else members("", 1)
        low["metadata"] |= {"name": pod.name, "uid": pod.name}
        low["spec"] |= {**requests(pod.gpus, pod.cpus), "nodeName": f"n{pod.node}"}
        cluster.apply(low)
    cluster.schedule()
    evicted = evict_slowly(cluster)
    high = members("high", scene.size, priority=10)
    for member in high:
        member["spec"] |= {**requests(scene.gpus, scene.cpus), **spec}
    cluster.apply(pod_group("high", scene.size, priority=10), *high)
    cluster.schedule()
    for name in list(evicted):
        cluster.delete(f"pod/{name}")
        cluster.schedule()
    return evicted if len(bound(cluster, "high")) == scene.size else None


def compare(seeds: range) -> None:
    ours = best = 0
    for seed in seeds:
        each, spec = scene(seed), PLANNED if seed % 4 == 0 else {}
        fewest, found = optimum(each), victims(each, spec, {})
        assert (found is None) == (fewest is None), f"seed {seed}: {fewest} suffice"
        if found is None or fewest is None:
            continue
        assert runs_on(each, frozenset(found)), f"seed {seed}: a gang is left without its minimum"
        ours += len(found)
        best += fewest
        if not each.minimum:
            kube = victims(each, spec, {"groupPreemption": "KubeScheduler"})
            assert kube is not None
            assert len(found) <= len(kube), f"seed {seed}: kube-scheduler evicts fewer"
    assert best <= ours <= 1.1 * best, f"{ours} victims, {best} suffice"


def test_victims_are_hardly_more_than_the_optimum() -> None:
    compare(range(24))


@pytest.mark.slow
def test_victims_are_hardly_more_than_the_optimum_in_500_clusters() -> None:
    compare(range(500))
