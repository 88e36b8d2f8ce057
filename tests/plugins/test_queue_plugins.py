"""PrioritySort, SchedulingGates and DefaultBinder."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from mooring.api.objects import Pod
from mooring.framework.events import Action, ClusterEvent, Resource
from mooring.framework.handle import Handle
from mooring.framework.plugin import QueuedPod
from mooring.framework.pod import PodInfo
from mooring.framework.status import Code, error, unresolvable
from mooring.plugins.default_binder import DefaultBinder
from mooring.plugins.priority_sort import PrioritySort
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.runtime.engine_state import EngineState
from tests.plugins.plugin_kit import Cluster, hint, make, make_pod

GATES_GONE = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)


def info(pod: Pod) -> PodInfo:
    return Cluster([]).info(pod)


def queued(priority: int | None, timestamp: float) -> QueuedPod:
    pod = make_pod() if priority is None else make_pod(priority=priority)
    return cast(QueuedPod, SimpleNamespace(pod=info(pod), timestamp=timestamp, attempts=0))


def test_higher_priority_first_then_first_come() -> None:
    pods = [queued(0, 3.0), queued(5, 2.0), queued(None, 1.0), queued(5, 1.0), queued(-1, 0.0)]
    in_order = [pods[3], pods[1], pods[2], pods[0], pods[4]]
    assert sorted(pods, key=PrioritySort.sort_key) == in_order
    plugin = make(PrioritySort)
    assert all(plugin.sorts_before(a, b) and not plugin.sorts_before(b, a) for a, b in pairwise(in_order))
    assert not plugin.sorts_before(pods[0], pods[0])


def test_gates_keep_a_pod_out_of_the_queue() -> None:
    plugin = make(SchedulingGates)
    gated = make_pod(schedulingGates=[{"name": "example.com/a"}, {"name": "b"}])
    assert plugin.pre_enqueue(info(gated)) == unresolvable("waiting for scheduling gates: [example.com/a b]")
    assert plugin.pre_enqueue(info(make_pod())) is None


def test_a_pod_hears_when_its_own_last_gate_is_gone() -> None:
    plugin = make(SchedulingGates)
    assert hint(plugin, GATES_GONE, make_pod("pod"), make_pod("pod"), make_pod("pod"))
    assert not hint(plugin, GATES_GONE, make_pod("pod"), make_pod("other"), make_pod("other"))


class Bindings:
    """A client that keeps what it is asked to bind, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.bound: list[tuple[str, str]] = []
        self.failure = failure

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.bound.append((pod.key, node_name))


def bind(client: Any) -> Any:
    plugin = DefaultBinder(None, cast(Handle, SimpleNamespace(client=client)))
    return asyncio.run(plugin.bind(EngineState(), info(make_pod()), "node-1"))


def test_binding_goes_through_the_client() -> None:
    client = Bindings()
    assert bind(client) is None
    assert client.bound == [("default/pod", "node-1")]


def test_a_failed_binding_is_not_hidden() -> None:
    status = bind(Bindings(ConnectionError("refused")))
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, "refused")  # in the words of who refused it
    assert bind(None) == error("no client to bind with")
