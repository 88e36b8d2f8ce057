"""Faults on a real control plane: etcd, kube-apiserver, and `mooring scheduler` as processes that are killed.

The API server's audit log is the history: it shows which replica held the lease and which bound which pod.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from mooring.api.kinds import NODES, PODS
from mooring.client.api_errors import ApiError, ClusterError
from mooring.client.api_server import ApiServer
from mooring.client.credentials import load_credentials
from tests.faults.pods import amount
from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets
from tests.live.cut_proxy import ProxyThread
from tests.live.replica import Replica, configuration

NODE_COUNT = 40
PER_NODE = 30
PATIENCE = 240.0  # seconds until all pods of a round are bound
SCHEDULER = "default-scheduler"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/binding"]}],
        },
        {
            "level": "Request",
            "verbs": ["create", "update"],
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "None"},
    ],
}


class Plane:
    """A control plane, two replicas of the scheduler, each with its own token and proxy, and what is done to
    them."""

    def __init__(self, folder: Path, seed: int) -> None:
        found = assets()
        if found is None:
            raise SystemExit(HOW_TO_GET)
        self.random = random.Random(seed)
        self.control = ControlPlane(found, folder)
        (folder / "audit-policy.yaml").write_text(yaml.safe_dump(AUDIT))
        with (folder / "tokens.csv").open("a") as tokens:
            for name in ("replica-0", "replica-1"):
                tokens.write(f'{name}-token,{name},{name},"system:masters"\n')
        self.control.start()
        self.proxies = [ProxyThread(self.control.port) for _ in range(2)]
        self.replicas: dict[int, Replica] = {}
        for at, proxy in enumerate(self.proxies):
            proxy.__enter__()
            self.start_replica(at)
        self.client = ApiServer(
            load_credentials(str(self.control.kubeconfig())), qps=2000, burst=2000, user_agent="faults"
        )

    def start_replica(self, at: int) -> None:
        name = f"replica-{at}"
        server = self.proxies[at].server
        kubeconfig = self.control.kubeconfig(token=f"{name}-token", name=name, server=server)
        election = {
            "leaderElect": True,
            "leaseDuration": "5s",
            "renewDeadline": "4s",
            "retryPeriod": "500ms",
            "resourceNamespace": "kube-system",
            "resourceName": "kube-scheduler",
        }
        config = configuration(kubeconfig, SCHEDULER, leaderElection=election)
        config["clientConnection"] |= {"qps": 1000, "burst": 1000}
        self.replicas[at] = Replica(self.control.folder, config)

    def stop(self) -> None:
        for replica in self.replicas.values():
            replica.process.send_signal(signal.SIGCONT)
            replica.kill()
        for proxy in self.proxies:
            proxy.__exit__()
        self.control.stop()

    # ---- faults, each with its own end

    def leader(self) -> int:
        """The replica that bound or renewed last, by the audit log."""
        for record in reversed(self.records()):
            user = record["user"]["username"]
            if user.startswith("replica-"):
                return int(user[-1])
        return 0

    def records(self) -> list[dict[str, Any]]:
        lines = (self.control.folder / "audit.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    async def kill_replica(self) -> str:
        at = self.random.choice((self.leader(), self.random.randrange(2)))
        self.replicas[at].kill()
        await asyncio.sleep(self.random.uniform(0, 6))
        self.start_replica(at)
        return f"kill -9 of replica-{at}"

    async def pause_leader(self) -> str:
        at, seconds = self.leader(), self.random.uniform(6, 12)
        process = self.replicas[at].process
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGCONT)
        return f"SIGSTOP of the leader, replica-{at}, for {seconds:.0f} s"

    async def cut_connections(self) -> str:
        at, seconds = self.random.randrange(2), self.random.uniform(0.1, 8)
        await asyncio.to_thread(self.proxies[at].cut)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.proxies[at].mend)
        return f"connections of replica-{at} cut for {seconds:.1f} s"

    async def kill_api_server(self) -> str:
        await asyncio.to_thread(self.control.kill_api_server)
        await asyncio.to_thread(self.control.start_api_server)
        return "kill -9 of kube-apiserver"

    async def kill_etcd(self) -> str:
        await asyncio.to_thread(self.control.kill_etcd)
        await asyncio.to_thread(self.control.start_etcd)
        await asyncio.to_thread(self.control.wait_ready)
        return "kill -9 of etcd"

    def revive(self) -> None:
        """Start replicas again that ended because they lost their lease, as a kubelet does."""
        for at, replica in self.replicas.items():
            if not replica.running:
                self.start_replica(at)


async def insist(work: Callable[[], Any], ignored: tuple[int, ...] = ()) -> None:
    """Repeat a request until it is answered."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            await work()
            return
        except ClusterError as failure:
            if isinstance(failure, ApiError) and not failure.transient:
                if failure.code in ignored:
                    return
                if failure.code not in (401, 403):  # a server that has just started rejects everything
                    raise
            await asyncio.sleep(0.2)
    raise TimeoutError("the API server does not answer")


async def prepare(plane: Plane) -> None:
    for at in range(NODE_COUNT):
        amounts = {"cpu": "4", "memory": "16Gi", "pods": str(PER_NODE)}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{at}"},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        await insist(partial(plane.client.create, NODES, body), ignored=(409,))


async def create_pods(plane: Plane, round: int, count: int) -> None:
    async def create(at: int) -> None:
        cpu = plane.random.choice(("10m", "50m", "100m"))
        container = {
            "name": "main",
            "image": "app",
            "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
        }
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{round}-{at}"}, "spec": spec}
        await insist(lambda: plane.client.create(PODS, body, "default"), ignored=(409,))

    for start in range(0, count, 50):
        await asyncio.gather(*(create(at) for at in range(start, min(start + 50, count))))


async def all_bound(plane: Plane, count: int) -> list[Any]:
    deadline = time.monotonic() + PATIENCE
    pods: list[Any] = []
    while time.monotonic() < deadline:
        plane.revive()
        try:
            pods = (await plane.client.list(PODS, namespace="default")).items
        except ClusterError:
            await asyncio.sleep(0.5)
            continue
        if len(pods) == count and all(pod.spec.node_name for pod in pods):
            break
        await asyncio.sleep(0.5)
    return pods


def check(plane: Plane, pods: list[Any], count: int) -> list[str]:
    """Return the violations of a round, by its pods and the audit log."""
    problems = []
    pending = [pod.name for pod in pods if not pod.spec.node_name]
    if len(pods) != count or pending:
        problems.append(f"{len(pods)} of {count} pods exist, {len(pending)} are pending: {pending[:5]}")
    for pod in pods:
        scheduled = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if pod.spec.node_name and (scheduled is None or scheduled.status != "True"):
            problems.append(f"pod {pod.name} is on {pod.spec.node_name}, but not PodScheduled")
    pods = [pod for pod in pods if pod.spec.node_name]
    on_nodes = Counter(pod.spec.node_name for pod in pods)
    problems += [f"{name} has {number} pods" for name, number in on_nodes.items() if number > PER_NODE]
    cpu: Counter[str] = Counter()
    for pod in pods:
        requests = pod.spec.containers[0].resources.requests
        cpu[pod.spec.node_name] += round(amount(requests["cpu"]) * 1000)
    problems += [f"{name} has pods of {milli}m CPU" for name, milli in cpu.items() if milli > 4000]
    return problems + check_audit(plane.records())


def check_audit(records: list[dict[str, Any]]) -> list[str]:
    """Return what the audit log shows: pods bound twice, or by a replica that did not hold the lease."""
    problems, leader, bound = [], "", set[tuple[str, str]]()
    for record in sorted(records, key=lambda record: record["stageTimestamp"]):
        if record["responseStatus"]["code"] >= 300:
            continue
        reference, user = record["objectRef"], record["user"]["username"]
        if reference["resource"] == "leases" and reference.get("name", "kube-scheduler") == "kube-scheduler":
            if user.startswith("replica"):
                holder = record["requestObject"]["spec"].get("holderIdentity")
                leader = user if holder else ""
        elif reference.get("subresource") == "binding":
            key = reference["name"], record["requestObject"]["metadata"].get("uid", "")
            if key in bound:
                problems.append(f"pod {key[0]} was bound twice")
            bound.add(key)
            if user != leader:
                problems.append(f"{user} bound pod {key[0]}, but {leader or 'none'} led")
    return problems


async def delete_pods(plane: Plane, pods: list[Any]) -> None:
    async def delete(pod: Any) -> None:
        await insist(
            lambda: plane.client.delete(PODS, pod.name, pod.namespace, grace_period_seconds=0), ignored=(404,)
        )

    for start in range(0, len(pods), 50):
        await asyncio.gather(*(delete(pod) for pod in pods[start : start + 50]))


async def run_rounds(plane: Plane, rounds: int, count: int) -> int:
    await prepare(plane)
    faults = (
        plane.kill_replica,
        plane.pause_leader,
        plane.cut_connections,
        plane.kill_api_server,
        plane.kill_etcd,
    )
    violations: set[str] = set()  # the audit log shows those of earlier rounds again
    for round in range(1, rounds + 1):
        began = time.monotonic()
        creating = asyncio.create_task(create_pods(plane, round, count))
        happened = []
        for fault in plane.random.sample(faults, k=2):
            await asyncio.sleep(plane.random.uniform(0.2, 3))
            happened.append(await fault())
        await creating
        pods = await all_bound(plane, count)
        problems = [problem for problem in check(plane, pods, count) if problem not in violations]
        violations.update(problems)
        seconds = time.monotonic() - began
        bound = sum(bool(pod.spec.node_name) for pod in pods)
        print(f"round {round}: {bound} pods bound in {seconds:.0f} s; {'; '.join(happened)}", flush=True)
        for problem in problems[:10]:
            print(f"  violation: {problem}", flush=True)
        await delete_pods(plane, pods)
    await plane.client.close()
    return len(violations)


def main(rounds: int, pods: int, seed: int) -> int:
    """Run rounds of pods with faults; return the exit code."""
    folder = tempfile.mkdtemp(prefix="mooring-faults-")
    print(f"logs of all processes: {folder}", flush=True)
    plane = Plane(Path(folder), seed)
    try:
        violations = asyncio.run(run_rounds(plane, rounds, pods))
    finally:
        plane.stop()
    print(f"{rounds} rounds of {pods} pods: {violations} violations")
    if not violations:
        shutil.rmtree(folder)
    return 1 if violations else 0
