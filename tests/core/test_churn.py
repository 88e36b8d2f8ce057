"""Pods that come and go leave nothing behind: what is kept follows from the cluster, not from its history."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.decode import from_dict
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.runtime.profile import Profile
from mooring.state.counters import Counters
from mooring.testing import make_node

LIVE = 10  # pods at a time
CACHES = 20  # instead of the thousand that are kept at most

Spec = dict[str, Any]


def plain(i: int) -> Spec:
    return {}


def anti_affinity(i: int) -> Spec:
    term = {"labelSelector": {"matchLabels": {"app": f"a{i}"}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def preference(i: int) -> Spec:
    term = {"labelSelector": {"matchLabels": {"app": f"a{i}"}}, "topologyKey": f"example.com/k{i}"}
    weighted = {"weight": 1, "podAffinityTerm": term}
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


def spread(i: int) -> Spec:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": f"a{i}"}},
    }
    return {"topologySpreadConstraints": [constraint]}


class Churn:
    """A small cluster in which pods with labels of their own are created, scheduled and deleted."""

    def __init__(self, spec: Callable[[int], Spec]) -> None:
        self.cluster = MemoryCluster(Scheduler(clock=lambda: 0.0, pick=lambda n: 0))
        self._spec = spec
        self._born = 0
        for i in range(3):
            self.cluster.apply(make_node(f"n{i}"))

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            pods = [self._pod() for _ in range(LIVE)]
            for pod in pods:
                self.cluster.apply(pod)
            self.cluster.run()
            for pod in pods:
                self.cluster.delete(self.cluster.pods[pod.uid])
            self.cluster.events.clear()

    def _pod(self) -> Any:
        i = self._born
        self._born += 1
        name = f"p{i}"
        metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": f"a{i}"}}
        spec = {"containers": [{"name": "main", "image": f"app:{i}"}], **self._spec(i)}
        return from_dict({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def kept() -> Counter[str]:
    gc.collect()
    return Counter(type(each).__qualname__ for each in gc.get_objects())


@pytest.mark.slow
@pytest.mark.parametrize("spec", [plain, anti_affinity, preference, spread])
def test_nothing_is_kept_of_pods_that_are_gone(
    spec: Callable[[int], Spec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Profile, "MOST_CACHES", CACHES)
    monkeypatch.setattr(Counters, "SPARE", CACHES)
    churn = Churn(spec)
    table = churn.cluster.scheduler.cluster.table
    monkeypatch.setattr(table, "_compact_terms_at", CACHES)
    churn.run(20)
    before, columns = kept(), len(table._columns())
    churn.run(100)
    grown = {name: count for name, count in (kept() - before).items() if count > 20 * LIVE}
    assert grown == {}
    assert len(table._columns()) < columns + 2 * CACHES
    assert len(churn.cluster.scheduler.cluster.shapes) <= CACHES + LIVE


def test_label_values_of_nodes_that_are_gone_are_dropped() -> None:
    cluster = MemoryCluster(Scheduler(clock=lambda: 0.0, pick=lambda n: 0))
    table = cluster.scheduler.cluster.table
    for i in range(500):
        node = make_node(f"n{i}", labels={f"example.com/k{i}": "x"}, taints=f"t{i}=x:NoSchedule")
        cluster.apply(node)
        assert table.label("kubernetes.io/hostname").values[-1] == f"n{i}"
        assert table.label(f"example.com/k{i}").values == ["x"]
        cluster.delete(node)
    assert len(table._columns()) < 10
    assert table.taints.values == [] or len(table.taints.values) <= 65
