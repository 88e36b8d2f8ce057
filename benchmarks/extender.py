"""python -m benchmarks.extender: how fast does Mooring schedule with an extender of its own?

`mooring extender` serves in a process of its own; a scheduler over a cluster in memory asks it, /filter and
/prioritize for every pod, as it would on a live one. With names only (nodeCacheCapable) the extender follows
an embedded API server that has the nodes; otherwise all nodes are in every request, as the API server sent
them. Prints what a pod's two questions took and how many pods a second went through the pair, beside the
goals. Both processes want a core of their own.
"""

from __future__ import annotations

import random
import time
from typing import Any

import msgspec

from benchmarks.extender_serving import Case, median, served, share
from mooring.api.decode import from_dict
from mooring.client.parallel import Threads
from mooring.config import from_object
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.extender.calling.http_extender import HttpExtender
from mooring.extender.calling.make import make_extenders
from mooring.extender.calling.originals import Originals
from mooring.framework.nodes import IntArray
from mooring.framework.pod import PodInfo
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.extender import Filtered

Tree = dict[str, Any]


class Timed:
    """An extender whose answers are timed; everything else is its own."""

    def __init__(self, extender: HttpExtender) -> None:
        self._extender = extender
        self.filtering: list[float] = []
        self.prioritizing: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._extender, name)

    def filter(self, pod: PodInfo, nodes: EngineNodes) -> Filtered:
        began = time.perf_counter()
        answer = self._extender.filter(pod, nodes)
        self.filtering.append(time.perf_counter() - began)
        return answer

    def prioritize(self, pod: PodInfo, nodes: EngineNodes) -> IntArray:
        began = time.perf_counter()
        answer = self._extender.prioritize(pod, nodes)
        self.prioritizing.append(time.perf_counter() - began)
        return answer


def setting(url: str, nodes: list[Tree], names: bool) -> tuple[MemoryCluster, Timed]:
    config = from_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [
                {
                    "urlPrefix": url,
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "weight": 1,
                    "nodeCacheCapable": names,
                    "httpTimeout": "60s",
                }
            ],
        }
    )
    originals = Originals(config.config.extenders)
    timed = Timed(make_extenders(config, originals)[0])
    scheduler = Scheduler(
        config,
        clock=time.time,
        pick=random.Random(0).randrange,
        extenders=[timed],
        parallelize=Threads(4),
    )
    cluster = MemoryCluster(scheduler)
    for number, tree in enumerate(nodes):
        whole = {
            "apiVersion": "v1",
            "kind": "Node",
            **tree,
            "metadata": {**tree["metadata"], "uid": f"node-{number}"},
        }
        made = from_dict(whole)
        originals.keep(made, msgspec.json.encode(whole))
        cluster.apply(made)
    return cluster, timed


def measure(case: Case, port: int, pods: list[Tree], nodes: list[Tree]) -> str:
    cluster, timed = setting(f"http://127.0.0.1:{port}", nodes, case.names)
    began, cpu, scheduled = 0.0, 0.0, 0
    warm = len(pods) // 5  # by then everything has been seen once
    for count, tree in enumerate(pods):
        if count == warm:
            timed.filtering.clear()
            timed.prioritizing.clear()
            began, cpu = time.perf_counter(), time.process_time()
        cluster.apply(from_dict({"apiVersion": "v1", "kind": "Pod", **tree}))
        cluster.run()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    timed.close()
    scheduled = sum(1 for pod in cluster.pods.values() if pod.spec.node_name)
    if scheduled != len(pods):
        raise RuntimeError(f"{scheduled} of {len(pods)} pods were scheduled")
    count = len(pods) - warm
    pairs = [a + b for a, b in zip(timed.filtering, timed.prioritizing, strict=True)]
    slowest = max(*timed.filtering, *timed.prioritizing)
    return (
        f"{case.name:32} filter + prioritize {median(pairs):6.1f} ms median, {share(pairs, 99):6.1f} ms p99, "
        f"slowest request {slowest * 1e3:.0f} ms; {count / seconds:5.0f} pods/s through the pair; "
        f"CPU of the scheduler {cpu / count * 1e3:.1f} ms a pod; goal {case.goal}"
    )


def main() -> None:
    for case, extender, pods, nodes in served(__doc__):
        print(measure(case, extender.connection.port or 0, pods, nodes), flush=True)


if __name__ == "__main__":
    main()
