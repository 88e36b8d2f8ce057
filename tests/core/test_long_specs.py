"""A pod with thousands of terms costs in proportion to them, and the pods after it next to nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.testing import make_node
from tests.calls import count_calls, growth
from tests.long_lists import LONG_SPECS, Spec

SIZE = 300


def cluster() -> MemoryCluster:
    made = MemoryCluster(Scheduler(clock=lambda: 0.0, pick=lambda n: 0))
    for i in range(3):
        made.apply(make_node(f"n{i}", labels={"kubernetes.io/hostname": f"n{i}"}))
    return made


def pod(name: str, app: str = "none", spec: Spec | None = None) -> Pod:
    made = from_dict(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
            "spec": {"containers": [{"name": "main"}], **(spec or {})},
        }
    )
    assert isinstance(made, Pod)
    return made


def scheduling(spec: Spec) -> Callable[[], object]:
    """Schedule a pod with the spec among others that its terms select, and one after it."""
    here = cluster()
    others = [pod(f"other-{i}", str(i)) for i in range(3)]
    for other in others:
        here.apply(other)
    here.run()
    pods = [pod("long", spec=spec), pod("next", "0")]

    def run() -> None:
        for each in pods:
            here.apply(each)
            here.run()

    return run


@pytest.mark.parametrize("kind", LONG_SPECS)
def test_the_work_is_linear_in_the_terms(kind: str) -> None:
    assert growth(lambda n: scheduling(LONG_SPECS[kind](n)), SIZE) < 2.3


@pytest.mark.parametrize("kind", LONG_SPECS)
def test_the_work_is_linear_beside_another_long_pod(kind: str) -> None:
    def prepared(n: int) -> Callable[[], object]:
        here = cluster()
        here.apply(pod("first", "first", LONG_SPECS[kind](n)))
        here.run()

        def run() -> None:
            here.apply(pod("second", "second", LONG_SPECS[kind](n)))
            here.run()

        return run

    assert growth(prepared, SIZE // 2) < 2.3


def _disks(n: int, whose: str) -> Spec:
    return {"volumes": [{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"{whose}-{i}"}} for i in range(n)]}


def _images(n: int, whose: str) -> Spec:
    rbd = [{"monitors": [f"{whose}-{i}"], "image": "a", "pool": "b"} for i in range(n)]
    return {"volumes": [{"name": f"v{i}", "rbd": each} for i, each in enumerate(rbd)]}


@pytest.mark.parametrize("make", [_disks, _images])
def test_disks_are_not_compared_one_by_one(make: Callable[[int, str], Spec]) -> None:
    def prepared(n: int) -> Callable[[], object]:
        here = cluster()
        for i in range(3):
            here.apply(pod(f"first-{i}", f"first-{i}", make(n, f"first-{i}")))
        here.run()
        second = pod("second", "second", make(n, "second"))

        def run() -> None:
            here.apply(second)
            here.run()

        return run

    assert growth(prepared, SIZE // 2) < 2.3


@pytest.mark.parametrize("kind", LONG_SPECS)
def test_what_is_kept_does_not_grow_with_the_terms(kind: str) -> None:
    here = cluster()
    here.apply(pod("long", spec=LONG_SPECS[kind](SIZE)))
    here.run()
    table = here.scheduler.cluster.table
    assert len(table.counters.columns()) <= 4
    assert len(table._labels) <= 2


def test_more_soft_constraints_than_an_array_has_dimensions() -> None:
    here = MemoryCluster(Scheduler(clock=lambda: 0.0, pick=lambda n: 0))
    keys = [f"example.com/k{i}" for i in range(100)]
    for i in range(3):
        here.apply(make_node(f"n{i}", labels={key: str(i) for key in keys}))
    constraints = LONG_SPECS["soft spread"](100)["topologySpreadConstraints"]
    for each in constraints:
        each["labelSelector"] = {"matchLabels": {"app": "spread"}}
    pods = [pod(f"p{i}", "spread", {"topologySpreadConstraints": constraints}) for i in range(3)]
    for each in pods:
        here.apply(each)
        here.run()
    assert {here.pods[each.uid].spec.node_name for each in pods} == {"n0", "n1", "n2"}


def test_the_pods_after_it_cost_what_they_always_cost() -> None:
    here = cluster()
    here.apply(pod("long", spec=LONG_SPECS["anti-affinity"](SIZE)))
    here.run()

    def schedule(name: str) -> Callable[[], None]:
        def run() -> None:
            here.apply(pod(name))
            here.run()

        return run

    first = count_calls(schedule("first"))
    assert count_calls(schedule("second")) < first


def test_budgets_are_not_looked_at_for_each_node() -> None:
    def prepared(n: int) -> Callable[[], object]:
        here = MemoryCluster(Scheduler(clock=lambda: 0.0, pick=lambda n: 0))
        for i in range(n):
            here.apply(make_node(f"n{i}", cpu="1"))
            here.apply(pod(f"low-{i}", "low", {"nodeName": f"n{i}", "containers": [_cpu("1")]}))
            budget = {"selector": {"matchLabels": {"app": "low" if i == 0 else f"app-{i}"}}}
            here.apply(_budget(f"b{i}", budget))
        preemptor = pod("high", spec={"priority": 10, "containers": [_cpu("1")]})

        def run() -> None:
            here.apply(preemptor)
            here.run()
            assert len(here.evictions) == 1

        return run

    assert growth(prepared, 40) < 2.3


def _cpu(amount: str) -> Spec:
    return {"name": "main", "resources": {"requests": {"cpu": amount}}}


def _budget(name: str, spec: Spec) -> KubeObject:
    metadata = {"name": name, "namespace": "default"}
    budget = {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    return from_dict({"apiVersion": "policy/v1", **budget})


def test_node_events_are_not_compared_with_every_name_that_a_pod_gives() -> None:
    here = cluster()
    here.apply(pod("long", spec=LONG_SPECS["named nodes"](SIZE)))
    here.run()
    here.apply(make_node("n1", labels={"a": "b"}))
    assert count_calls(lambda: here.apply(make_node("n1", labels={"a": "c"}))) < SIZE
