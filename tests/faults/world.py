"""The world of a run: an API server, controllers, kubelets and schedulers on one loop in virtual time."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

from mooring.api.kinds import CSI_NODES, STORAGE_CLASSES
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.virtual_time import START, VirtualTimeLoop
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.cluster.local_cluster import STANDARD
from mooring.sandbox.controllers.all_controllers import controllers
from mooring.sandbox.kubelet import FakeNodes, make_nodes
from mooring.sandbox.kubelet.devices import DEVICES
from tests.faults.checker import Checker
from tests.faults.disk import Disk, Incarnation
from tests.faults.extender import configuration
from tests.faults.faults import OF_THE_DISK, OF_THREADS, Fault, Kind, draw_faults
from tests.faults.gangs import FEATURES
from tests.faults.history import CLIENT, History
from tests.faults.memory import differences
from tests.faults.network import Link, Port
from tests.faults.processes import Process
from tests.faults.replica import Replica
from tests.faults.schedulable import schedulable_pods, startable_gangs
from tests.faults.shape import Shape
from tests.faults.strikes import GPUS, MANAGER, Strikes
from tests.faults.workloads import Users

CPU, MEMORY = "4", "8Gi"
SETTLE = 1200.0  # seconds within which everything schedulable is bound once faults stop
LOOK_EVERY = 5.0
MOST_VOLUMES = 2  # on a node


class World:
    """One run of a seed. `faults` replaces the faults that the seed gives; with `gangs`, users also create
    gangs."""

    def __init__(
        self, seed: int, steps: int, faults: list[int] | None = None, *, gangs: bool = False
    ) -> None:
        self.seed = seed
        self.steps = steps
        self.shape = Shape(seed)
        self._features = FEATURES if gangs else ()
        self.loop = asyncio.get_running_loop()
        self._virtual = isinstance(self.loop, VirtualTimeLoop)
        names = [f"scheduler-{i}" for i in range(self.shape.replicas)]
        self.checker = Checker(self.loop.time, names)
        self.history = self.checker.history = History(self.loop.time, self.checker.saw)
        theme, other = self.shape.theme, set(OF_THREADS)
        if not self.shape.durable:
            other |= OF_THE_DISK
        if not self._virtual:
            theme = (*theme, *OF_THREADS)
        kinds: list[Kind] = [kind for kind in Kind if kind not in other]
        every_fault = draw_faults(seed, [MANAGER, *names, *names], theme, kinds, until=3600.0)
        self.faults = [fault for fault in every_fault if faults is None or fault.number in faults]
        self.begun: list[Fault] = []
        self.quiet_points = 0  # at which gangs were checked
        self.processes: dict[str, Process] = {}
        self.links: dict[str, Link] = {}
        self._every_link: list[Link] = []
        self.replicas: dict[str, Replica] = {}
        self._incarnations: dict[str, int] = {}
        self._restarts: set[asyncio.Task[None]] = set()
        self._strikes = Strikes(self)
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self.journal: Incarnation
        self.server: EmbeddedServer
        self.direct: EmbeddedCluster
        self.users: Users
        self.nodes: FakeNodes

    # ---- the run

    async def run(self) -> None:
        """Run until enough steps were made or an invariant is violated."""
        random.seed(f"{self.seed} everything else")
        try:
            await self._start()
            await self._suffer()
            if not self.checker.violations:
                await self._settle()
        finally:
            await self._stop()

    async def _start(self) -> None:
        if self.shape.durable:
            self._directory = tempfile.TemporaryDirectory(prefix="mooring-faults-")
        self.open_server()
        CLIENT.set("users")
        await self.direct.create(STORAGE_CLASSES, STANDARD)
        self.users = Users(
            self.direct,
            self.seed,
            self._evicting,
            gangs=bool(self._features),
            changes_pods=self.shape.changes_pods,
        )
        await self.users.prepare()
        await self._start_manager()
        nodes = make_nodes(self.shape.nodes)
        for node in nodes:
            node["status"]["capacity"] |= {"cpu": CPU, "memory": MEMORY, "pods": "20"}
            node["metadata"]["annotations"] = {**node["metadata"].get("annotations", {}), DEVICES: GPUS}
            await self.direct.create(CSI_NODES, _csi_node(node["metadata"]["name"]))
        await self.nodes.register(nodes)
        for name in self.shape_names():
            self._start_replica(name)

    def shape_names(self) -> list[str]:
        return [f"scheduler-{i}" for i in range(self.shape.replicas)]

    def _evicting(self, key: str) -> None:
        self.checker.evicting = key

    async def _suffer(self) -> None:
        """Let users act and faults happen, until there were enough steps."""
        began = self.loop.time()
        acting = self.loop.create_task(self._act())
        failing = self.loop.create_task(self._fail(began))
        while self.history.requests < self.steps and not self.checker.violations:
            await asyncio.sleep(1.0)
            if self._features and self._is_quiet():
                self.quiet_points += 1
                for problem in self.checker.gangs.broken(self.checker, self._repaired(), lack_pods=False):
                    self.checker.violate("gangs are whole while nothing happens", problem)
        acting.cancel()
        failing.cancel()
        await asyncio.gather(acting, failing, return_exceptions=True)
        for done in (acting, failing):
            if not done.cancelled() and (bug := done.exception()) is not None:
                raise bug

    def _leader(self) -> Replica | None:
        return next((r for r in self.replicas.values() if r.elector.identity == self.checker.leader), None)

    def _repaired(self) -> set[str]:
        """The gangs that the leader completes before it schedules anything else."""
        leader = self._leader()
        return set() if leader is None else {str(key) for key in leader.live.core.members.broken}

    def _is_quiet(self) -> bool:
        """Whether the leader knows everything, no fault lasts, and nothing is being scheduled or bound."""
        now = self.loop.time()
        lasting = any(fault.ends > now for fault in self.begun)
        leader = self._leader()
        if lasting or leader is None or self._restarts_pending() or not self.server_is_up:
            return False
        if leader.live.driver._core.busy:
            return False
        core = leader.live.core
        counts = core.queue.counts()
        busy = counts["active"] or counts["backoff"] or core.cluster.assumed_count() or core.effects
        return not busy and not differences(core, self.checker)

    async def _act(self) -> None:
        while True:
            await asyncio.sleep(self.users.pause())
            if self.server_is_up:
                self.history.note(f"users: {await self.users.act()}")

    async def _fail(self, began: float) -> None:
        for fault in self.faults:
            await asyncio.sleep(max(began + fault.at - self.loop.time(), 0.0))
            self.history.note(f"fault {fault}")
            fault.ends = self.loop.time() + fault.lasts
            self.begun.append(fault)
            self._later(self._strikes.strike(fault))

    def _later(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self._restarts.add(task)
        task.add_done_callback(self._restarted)

    def _restarted(self, task: asyncio.Task[None]) -> None:
        self._restarts.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._bug("faults", bug)

    def _bug(self, where: str, bug: BaseException) -> None:
        self.checker.violate("no bugs", f"{where}: {type(bug).__name__}: {bug}")

    # ---- parts

    @property
    def server_is_up(self) -> bool:
        return not self.journal.crashed

    def open_server(self) -> None:
        CLIENT.set("server")
        self.server = EmbeddedServer(
            clock=self.loop.time,
            seed=self.seed + len(self.history.entries),
            window=self.shape.window,
            features=self._features,
        )
        if self._directory is not None:
            self.history.inner = Disk(Path(self._directory.name))
        self.journal = Incarnation(self.history)
        self.server.open(self.journal)
        self.direct = EmbeddedCluster(self.server.api, user_agent="users")
        if hasattr(self, "users"):
            self.users.cluster = self.direct

    def _connect(self, name: str, client: str) -> Port:
        link = Link(client, f"{self.seed} {client}", self.history, self.checker, self.shape.slowest)
        if name in self.links:  # faults of the network outlive the process
            link.faults = self.links[name].faults
        if self.server_is_up:
            link.server = EmbeddedCluster(self.server.api, user_agent=client)
        self.links[name] = link
        self._every_link.append(link)
        return Port(link, self.checker)

    def _client_name(self, name: str) -> str:
        count = self._incarnations[name] = self._incarnations.get(name, 0) + 1
        return f"{name}.{count}"

    async def _start_manager(self) -> None:
        port = self._connect(MANAGER, self._client_name(MANAGER))
        process = self.processes[MANAGER] = Process(MANAGER, self._bug)
        cache = Cache(port)
        recorder = CountingRecorder(port, now=lambda: round(self.loop.time() * 1_000_000_000))
        context = Context(port, cache, recorder, self.loop.time)
        self.nodes = FakeNodes(context, heartbeats=False)
        for controller in controllers(context, self.nodes, features=self._features):
            process.start(controller.name, controller.run())
        process.start("kubelets", self.nodes.run())
        process.start("informers", cache.run())
        process.start("events", recorder.run())

    def _start_replica(self, name: str) -> None:
        at = int(name.rpartition("-")[2])
        rate, start = self.shape.rates[at], START

        def clock() -> float:
            return start + (self.loop.time() - start) * rate

        def wall_clock() -> float:
            return clock() + self.shape.skews[at]

        identity = self._client_name(name)
        process = self.processes[name] = Process(name, self._bug)
        port = self._connect(name, identity)
        extenders = [configuration(ignorable) for ignorable in self.shape.extenders]
        replica = self.replicas[name] = Replica(
            port, identity, process, clock, wall_clock, 10 * self.seed + at, extenders, self._features
        )
        scheduling = replica.start()
        self._later(self._watch_over(name, process, scheduling))

    async def _watch_over(self, name: str, process: Process, scheduling: asyncio.Task[None]) -> None:
        """Start a replica again that has ended by itself."""
        await asyncio.wait({scheduling})
        if process.killed:
            return
        self.history.note(f"{name} ended")
        await self.kill(name)
        await asyncio.sleep(2.0)
        self._start_replica(name)

    async def kill(self, name: str) -> None:
        self.links[name].closed = True
        await self.processes[name].kill()
        replica = self.replicas.pop(name, None)
        if replica is not None:
            replica.live.close()

    async def start_again(self, name: str) -> None:
        if name == MANAGER:
            await self._start_manager()
        else:
            self._start_replica(name)

    def leading(self) -> str:
        return next((n for n, r in self.replicas.items() if r.elector.identity == self.checker.leader), "")

    async def _stop(self) -> None:
        for task in list(self._restarts):
            task.cancel()
        await asyncio.gather(*self._restarts, return_exceptions=True)
        for name in list(self.processes):
            if not self.processes[name].killed:
                await self.kill(name)
        for link in self._every_link:
            link.stop()
        if self.server_is_up:
            await self.server.stop()
        if self._directory is not None:
            self._directory.cleanup()

    # ---- the end

    async def _settle(self) -> None:
        """Stop all faults, and wait until everything schedulable is bound."""
        self.history.note("faults stop")
        for link in self.links.values():
            for fault in link.faults:
                fault.ends = self.loop.time()
            link.faults.clear()
        for process in self.processes.values():
            for fault in process.faults:
                fault.rate = 0.0
            if process.paused and not process.killed:
                process.resume()
        deadline = self.loop.time() + SETTLE
        while not self.checker.violations:
            await asyncio.sleep(LOOK_EVERY)
            if self._restarts_pending():
                problems = ["processes and nodes are coming back"]
            else:
                problems = self._problems()
            if not problems:
                return
            if self.loop.time() > deadline:
                for problem in problems[:5]:
                    self.checker.violate("everything is well in the end", problem)

    def _restarts_pending(self) -> bool:
        return len(self._restarts) > self.shape.replicas  # one watches over each replica

    def _problems(self) -> list[str]:
        problems = [f"pod {pod.key} is schedulable, but pending" for pod in schedulable_pods(self.checker)]
        problems += self.checker.quotas.miscounted(list(self.checker.pods.values()))
        problems += self.checker.gangs.broken(self.checker, self._repaired(), lack_pods=True)
        problems += [f"gang {key} fits, but is pending" for key in startable_gangs(self.checker)]
        leader = self._leader()
        if leader is None:
            return [*problems, "no replica leads"]
        for name, replica in self.replicas.items():
            if replica.live.driver._core.busy:
                return [*problems, f"{name} is busy"]
            problems += [f"{name}'s memory: {line}" for line in differences(replica.live.core, self.checker)]
        return problems


def _csi_node(name: str) -> dict[str, Any]:
    driver = {"name": STANDARD["provisioner"], "nodeID": name, "allocatable": {"count": MOST_VOLUMES}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [driver]},
    }
