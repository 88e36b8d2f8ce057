"""python -m benchmarks.extender_serving: how fast does `mooring extender` answer a scheduler?

One client asks as kube-scheduler does, /filter and then /prioritize about the nodes that passed, pod after
pod on one kept connection; the pods are replicas of a number of Deployments. With names only
(nodeCacheCapable) the extender follows an embedded API server that has the nodes; otherwise whole nodes are
in every request. Prints for handlers and for plugins the time of a pair, what the goals are, and the CPU time
that the extender took.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mooring.api.kinds import NODES
from mooring.sandbox.apiserver.server import EmbeddedServer

LABEL = "priority.lixueduan.com"
EXAMPLE = Path(__file__).parent.parent / "examples" / "extender" / "priority.py"
PLUGINS = (
    "--plugin=mooring.plugins.node_resources_fit:NodeResourcesFit",
    "--plugin=mooring.plugins.taint_toleration:TaintToleration",
)
JSON = {"Content-Type": "application/json"}
Tree = dict[str, Any]


def node(number: int) -> Tree:
    """A node as a kubelet reports it, of about five kilobytes."""
    name = f"node-{number:05d}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "m6.2xlarge",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "topology.kubernetes.io/region": "region-1",
    }
    if number % 2:
        labels[LABEL] = str(number % 100)
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "reason": f"Kubelet{kind}",
            "message": f"kubelet has found {kind} to be as it should",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [
        {
            "names": [f"example.com/team/app-{i}@sha256:{i:064x}", f"example.com/team/app-{i}:v1"],
            "sizeBytes": 1 << 28,
        }
        for i in range(number % 7, number % 7 + 18)
    ]
    info = {
        "kubeletVersion": "v1.36.0",
        "osImage": "Linux",
        "kernelVersion": "6.1",
        "machineID": f"{number:032x}",
    }
    status = {"allocatable": amounts, "capacity": amounts, "conditions": conditions, "images": images}
    metadata = {"name": name, "labels": labels, "annotations": {"example.com/managed": "true"}}
    return {"metadata": metadata, "spec": {"podCIDR": "10.0.0.0/24"}, "status": {**status, "nodeInfo": info}}


def pod(number: int, deployments: int) -> Tree:
    owner = number % deployments
    resources = {"requests": {"cpu": f"{100 + owner}m", "memory": "128Mi"}}
    containers = [{"name": "main", "image": "app:v1", "resources": resources}]
    labels = {"app": f"app-{owner}"}
    metadata = {"name": f"pod-{number}", "namespace": "default", "uid": f"uid-{number}", "labels": labels}
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": "Pending"}}


# ---- what is measured


class Extender:
    """`mooring extender` in a process of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._log = folder / "log"
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "mooring.cli", "extender", "--port=0", *flags]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        match = None
        while match is None and self.process.poll() is None:
            time.sleep(0.05)
            match = re.search(r"127\.0\.0\.1:(\d+)/filter", self._log.read_text())
        if match is None:
            raise RuntimeError(self._log.read_text())
        self.connection = http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=120)
        while self.ask("GET", "/readyz")[0] != 200:
            time.sleep(0.05)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        self.connection.request(method, path, body, JSON)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def cpu(self) -> float:
        """Seconds."""
        match = re.search(rb"^process_cpu_seconds_total (\S+)", self.ask("GET", "/metrics")[1], re.MULTILINE)
        assert match is not None
        return float(match[1])

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.wait(30)


class Result(msgspec.Struct):
    filter: list[float] = []
    prioritize: list[float] = []
    cpu: float = 0.0

    def lines(self, name: str, goal: str) -> Iterator[str]:
        pairs = [a + b for a, b in zip(self.filter, self.prioritize, strict=True)]
        both = sum(pairs) / len(pairs)
        yield (
            f"{name:32} pair {median(pairs):6.1f} ms median, {share(pairs, 99):6.1f} ms p99 "
            f"(filter {median(self.filter):.1f}, prioritize {median(self.prioritize):.1f}); "
            f"{1 / both:5.0f} pods/s; CPU {self.cpu / len(pairs) * 1e3:.1f} ms a pod; goal {goal}"
        )


def share(values: list[float], percent: int) -> float:
    """A percentile, in milliseconds."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)] * 1e3


def median(values: list[float]) -> float:
    return share(values, 50)


class _FilterResult(msgspec.Struct, rename="pascal"):
    nodes: msgspec.Raw = msgspec.Raw(b"null")
    node_names: list[str] | None = None
    error: str = ""


def measure(extender: Extender, pods: list[Tree], nodes: list[Tree], names: bool) -> Result:
    raw = msgspec.Raw(msgspec.json.encode({"metadata": {}, "items": nodes}))
    everyone: Tree = {"Nodes": None if names else raw, "NodeNames": None}
    if names:
        everyone["NodeNames"] = [each["metadata"]["name"] for each in nodes]
    result = Result()
    for count, each in enumerate(pods):
        if count == len(pods) // 5:  # by now everything has been seen once
            result, before = Result(), extender.cpu()
        seconds, answer = timed(extender, "/filter", {"Pod": each, **everyone})
        result.filter.append(seconds)
        passed = msgspec.json.decode(answer, type=_FilterResult)
        if passed.error:
            raise RuntimeError(passed.error)
        body = {"Pod": each, "Nodes": passed.nodes, "NodeNames": passed.node_names}
        result.prioritize.append(timed(extender, "/prioritize", body)[0])
    result.cpu = extender.cpu() - before
    return result


def timed(extender: Extender, path: str, message: Tree) -> tuple[float, bytes]:
    body = msgspec.json.encode(message)
    began = time.perf_counter()
    status, answer = extender.ask("POST", path, body)
    seconds = time.perf_counter() - began
    if status != 200:
        raise RuntimeError(f"{path}: {status}: {answer[:500]!r}")
    return seconds, answer


# ---- the cluster


@contextmanager
def embedded(nodes: list[Tree]) -> Iterator[Path]:
    """The kubeconfig of a server, in a thread of its own, that has the nodes."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def fill(server: EmbeddedServer) -> None:
        await server.start()
        for each in nodes:
            await server.cluster.create(NODES, each)

    server = EmbeddedServer()
    asyncio.run_coroutine_threadsafe(fill(server), loop).result()
    try:
        yield Path(server.kubeconfig)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


class Case(NamedTuple):
    name: str
    flags: tuple[str, ...]
    names: bool
    goal: str


def cases(kubeconfig: Path) -> Iterator[Case]:
    cached = (f"--kubeconfig={kubeconfig}", "--node-cache-capable")
    for who, what in (("handlers", (str(EXAMPLE),)), ("plugins", PLUGINS)):
        yield Case(f"{who}, names only", (*what, *cached), True, "p99 25 ms, 100 pods/s")
        yield Case(f"{who}, whole nodes", what, False, "250 ms a request")


def served(about: str | None) -> Iterator[tuple[Case, Extender, list[Tree], list[Tree]]]:
    """Every case with its extender at work, and pods and nodes to ask it about, as the command line says."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--deployments", type=int, default=20)
    options = parser.parse_args()
    nodes = [node(number) for number in range(options.nodes)]
    pods = [pod(number, options.deployments) for number in range(options.pods)]
    size = len(msgspec.json.encode(nodes))
    print(f"{len(nodes)} nodes of {size // len(nodes)} bytes, pods of {options.deployments} Deployments")
    with tempfile.TemporaryDirectory() as folder, embedded(nodes) as kubeconfig:
        for case in cases(kubeconfig):
            extender = Extender(Path(folder), *case.flags)
            try:
                yield case, extender, pods if case.names else pods[: max(20, len(pods) // 20)], nodes
            finally:
                extender.end()


def main() -> None:
    for case, extender, pods, nodes in served(__doc__):
        result = measure(extender, pods, nodes, case.names)
        for line in result.lines(case.name, case.goal):
            print(line, flush=True)


if __name__ == "__main__":
    main()
