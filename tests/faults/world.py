"""The world of a run: an API server, controllers, kubelets and schedulers on one loop in virtual time."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mooring.api.kinds import CSI_NODES, NODES, PODS, STORAGE_CLASSES
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.event_recorder import EventRecorder
from mooring.client.virtual_time import START
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.apiserver.store.record import Event, Record
from mooring.sandbox.apiserver.store.sqlite import SqliteJournal
from mooring.sandbox.cluster.local_cluster import STANDARD
from mooring.sandbox.controllers import controllers
from mooring.sandbox.kubelet import FakeNodes, make_nodes
from mooring.sandbox.kubelet.devices import DEVICES
from mooring.sandbox.kubelet.machines import FAILED
from tests.faults.checker import Checker
from tests.faults.extender import configuration
from tests.faults.faults import OF_LEADERS, OF_THE_DISK, THEMES, Fault, Kind, draw_faults
from tests.faults.gangs import FEATURES
from tests.faults.history import CLIENT, History
from tests.faults.memory import differences
from tests.faults.network import Link, Port
from tests.faults.processes import Process
from tests.faults.replica import Replica
from tests.faults.schedulable import schedulable_pods, startable_gangs
from tests.faults.workloads import GPU, Users

MANAGER = "manager"
CPU, MEMORY = "4", "8Gi"
SETTLE = 1200.0  # seconds within which everything schedulable is bound once faults stop
LOOK_EVERY = 5.0
GPUS = f'[{{"driver": "{GPU}", "name": "gpu", "count": 2}}]'
MOST_VOLUMES = 2  # on a node
HANDOVER_TAKES = 60.0
BURST_TAKES = 3.0  # until all replicas have seen the pods


class Shape:
    """The size and the conditions of a run."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(f"{seed} shape")
        self.theme = chance.choice(THEMES)
        self.nodes = chance.randint(3, 6)
        self.replicas = chance.choice((2, 2, 3) if OF_LEADERS.intersection(self.theme) else (1, 2, 2, 3))
        self.slowest = chance.choice((0.002, 0.02, 0.2))  # seconds of latency
        self.window = chance.choice((20, 200, 10_000))  # changes that the server keeps for watches
        self.durable = bool(OF_THE_DISK.intersection(self.theme)) or chance.random() < 0.25
        self.extenders = chance.choice(((), (), (False,), (True, False)))  # whether each can be ignored
        self.skews = [chance.choice((0.0, 0.0, -3600.0, 45.0)) for _ in range(self.replicas)]
        self.rates = [chance.choice((1.0, 1.0, 0.98, 1.02)) for _ in range(self.replicas)]


class _Incarnation:
    """The journal of one life of the API server. Once it has crashed, nothing is committed any more."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.crashed = False

    def load(self) -> tuple[int, dict[str, list[Record]]]:
        return self.history.load()

    def append(self, table: str, event: Event) -> None:
        if not self.crashed:
            self.history.append(table, event)

    def commit(self, version: int) -> None:
        if self.crashed:
            raise OSError("crashed")
        self.history.commit(version)

    def close(self) -> None:
        self.history.close()


class Disk(SqliteJournal):
    """A journal in a file that cannot grow while the disk is full."""

    def fill(self) -> None:
        (pages,) = self._database.execute("PRAGMA page_count").fetchone()
        self._database.execute(f"PRAGMA max_page_count = {pages}")

    def free(self) -> None:
        self._database.execute("PRAGMA max_page_count = 1073741823")

    def tear(self, chance: random.Random) -> None:
        """Leave the files as they are when the process dies in the middle of a write."""
        log = self._path.with_name(self._path.name + "-wal")
        written, database = log.read_bytes(), self._path.read_bytes()
        self.close()
        self._path.write_bytes(database)
        again = written[32 : 32 + chance.randint(0, 5000)]  # the beginning of a transaction as there was one
        log.write_bytes(written + chance.choice((again, chance.randbytes(chance.randint(1, 5000)))))


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
        self._loop = asyncio.get_running_loop()
        names = [f"scheduler-{i}" for i in range(self.shape.replicas)]
        self.checker = Checker(self._loop.time, names)
        self.history = self.checker.history = History(self._loop.time, self.checker.saw)
        kinds: list[Kind] = [kind for kind in Kind if self.shape.durable or kind not in OF_THE_DISK]
        every_fault = draw_faults(seed, [MANAGER, *names, *names], self.shape.theme, kinds, until=3600.0)
        self.faults = [fault for fault in every_fault if faults is None or fault.number in faults]
        self.begun: list[Fault] = []
        self.processes: dict[str, Process] = {}
        self.links: dict[str, Link] = {}
        self._every_link: list[Link] = []
        self.replicas: dict[str, Replica] = {}
        self._incarnations: dict[str, int] = {}
        self._restarts: set[asyncio.Task[None]] = set()
        self._troubled = asyncio.Lock()
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._journal: _Incarnation
        self._server: EmbeddedServer
        self._direct: EmbeddedCluster
        self._users: Users
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
        self._open_server()
        CLIENT.set("users")
        await self._direct.create(STORAGE_CLASSES, STANDARD)
        self._users = Users(self._direct, self.seed, self._evicting, gangs=bool(self._features))
        await self._users.prepare()
        await self._start_manager()
        nodes = make_nodes(self.shape.nodes)
        for node in nodes:
            node["status"]["capacity"] |= {"cpu": CPU, "memory": MEMORY, "pods": "20"}
            node["metadata"]["annotations"] = {**node["metadata"].get("annotations", {}), DEVICES: GPUS}
            await self._direct.create(CSI_NODES, _csi_node(node["metadata"]["name"]))
        await self.nodes.register(nodes)
        for name in self.shape_names():
            self._start_replica(name)

    def shape_names(self) -> list[str]:
        return [f"scheduler-{i}" for i in range(self.shape.replicas)]

    def _evicting(self, key: str) -> None:
        self.checker.evicting = key

    async def _suffer(self) -> None:
        """Let users act and faults happen, until there were enough steps."""
        began = self._loop.time()
        acting = self._loop.create_task(self._act())
        failing = self._loop.create_task(self._fail(began))
        while self.history.requests < self.steps and not self.checker.violations:
            await asyncio.sleep(1.0)
        acting.cancel()
        failing.cancel()
        await asyncio.gather(acting, failing, return_exceptions=True)
        for done in (acting, failing):
            if not done.cancelled() and (bug := done.exception()) is not None:
                raise bug

    async def _act(self) -> None:
        while True:
            await asyncio.sleep(self._users.pause())
            if self._server_is_up:
                self.history.note(f"users: {await self._users.act()}")

    async def _fail(self, began: float) -> None:
        for fault in self.faults:
            await asyncio.sleep(max(began + fault.at - self._loop.time(), 0.0))
            self.history.note(f"fault {fault}")
            fault.ends = self._loop.time() + fault.lasts
            self.begun.append(fault)
            self._later(self._strike(fault))

    def _later(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._restarts.add(task)
        task.add_done_callback(self._restarted)

    def _restarted(self, task: asyncio.Task[None]) -> None:
        self._restarts.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._bug("faults", bug)

    def _bug(self, where: str, bug: BaseException) -> None:
        self.checker.violate("no bugs", f"{where}: {type(bug).__name__}: {bug}")

    # ---- faults

    async def _strike(self, fault: Fault) -> None:
        special: dict[Kind, Callable[[Fault], Awaitable[None]]] = {
            Kind.CUT: self._cut,
            Kind.GONE: self._cut,
            Kind.SILENT: self._silence,
            Kind.CLOCK: self._set_clock,
            Kind.CRASH: self._crash,
            Kind.PAUSE: self._pause,
            Kind.NODE_FAIL: self._fail_node,
            Kind.NODE_DELETE: self._delete_node,
            Kind.POD_DELETE: self._delete_pods,
            Kind.LOSE_LEASE: self._trouble_leader,
            Kind.ZOMBIE: self._trouble_leader,
            Kind.HANDOVER: self._trouble_leader,
            Kind.PLUGIN: self._confuse,
            Kind.EXTENDER: self._confuse,
            Kind.SERVER_CRASH: self._crash_server,
            Kind.TORN: self._crash_server,
            Kind.DISK_FULL: self._fill_disk,
        }
        CLIENT.set("faults")
        if fault.kind in special:
            await special[fault.kind](fault)
            return
        self.links[fault.target].faults.append(fault)
        await asyncio.sleep(fault.lasts)
        link = self.links[fault.target]
        if fault in link.faults:
            link.faults.remove(fault)

    async def _cut(self, fault: Fault) -> None:
        for stream in list(self.links[fault.target].streams):
            if fault.random.random() < 0.5:
                gone = ApiError(410, "Expired", "too old resource version")
                stream.end(gone if fault.kind is Kind.GONE else Unreachable("api-server", "connection reset"))

    async def _silence(self, fault: Fault) -> None:
        for stream in list(self.links[fault.target].streams):
            if fault.random.random() < 0.5:
                stream.fall_silent()

    async def _pause(self, fault: Fault) -> None:
        process = self.processes[fault.target]
        if process.paused or process.killed:
            return
        process.pause()
        await asyncio.sleep(fault.lasts)
        if not process.killed:
            process.resume()

    async def _confuse(self, fault: Fault) -> None:
        process = self.processes[fault.target]
        process.faults.append(fault)
        await asyncio.sleep(fault.lasts)
        process.faults.remove(fault)

    async def _set_clock(self, fault: Fault) -> None:
        target = self._leader() or fault.target
        if target != MANAGER:
            jump = fault.random.choice((-86400.0, -3600.0, -3600.0, -5.0, 45.0, 3600.0))
            self.shape.skews[int(target.rpartition("-")[2])] += jump

    async def _crash(self, fault: Fault) -> None:
        name = fault.target
        if not self.processes[name].killed:
            await self._kill(name)
            await asyncio.sleep(fault.lasts)
            await self._start_again(name)

    async def _kill(self, name: str) -> None:
        self.links[name].closed = True
        await self.processes[name].kill()
        replica = self.replicas.pop(name, None)
        if replica is not None:
            replica.live.close()

    async def _start_again(self, name: str) -> None:
        if name == MANAGER:
            await self._start_manager()
        else:
            self._start_replica(name)

    def _leader(self) -> str:
        return next((n for n, r in self.replicas.items() if r.elector.identity == self.checker.leader), "")

    async def _trouble_leader(self, fault: Fault) -> None:
        """Strike the leader, unless another fault does so already: together they would have no effect."""
        leader = self._leader()
        if not leader or self._troubled.locked() or self.processes[leader].paused:
            return
        special = {
            Kind.LOSE_LEASE: self._lose_lease,
            Kind.ZOMBIE: self._make_zombie,
            Kind.HANDOVER: self._hand_over,
        }
        async with self._troubled:
            await special[fault.kind](fault, leader)

    async def _lose_lease(self, fault: Fault, leader: str) -> None:
        """Let the leader fail to renew its lease, with many bindings on their way when it notices."""
        link, elector = self.links[leader], self.replicas[leader].elector
        link.faults.append(fault)
        left, before = elector._leads_until - elector._clock(), fault.random.uniform(0.5, 3.0)
        await asyncio.sleep(max(left - before, 0.0))
        if self._server_is_up:
            self.history.note(f"users: {await self._users.burst()}")
        await asyncio.sleep(before)
        if fault in link.faults:
            link.faults.remove(fault)

    async def _some_bindings(self, fault: Fault) -> None:
        enough, give_up = self.checker.bound + fault.random.randint(1, 4), self._loop.time() + 20.0
        while self.checker.bound < enough and self._loop.time() < give_up:
            await asyncio.sleep(0.01)

    async def _make_zombie(self, fault: Fault, leader: str) -> None:
        """Pause the leader between two bindings, for so long that another leads by then."""
        link, process = self.links[leader], self.processes[leader]
        link.faults.append(fault)
        if self._server_is_up:
            self.history.note(f"users: {await self._users.burst()}")
        await self._some_bindings(fault)
        if fault in link.faults:
            link.faults.remove(fault)
        if not (process.killed or process.paused):
            process.pause()
            await asyncio.sleep(fault.random.uniform(16.0, 40.0))
            if not process.killed:
                process.resume()

    async def _hand_over(self, fault: Fault, leader: str) -> None:
        """Kill the leader between two bindings, none of which the others see before one of them leads."""
        if len(self.replicas) < 2:
            return
        process = self.processes[leader]
        process.pause()
        if self._server_is_up:
            self.history.note(f"users: {await self._users.burst()}")
        await asyncio.sleep(BURST_TAKES)
        fault.ends = self._loop.time() + HANDOVER_TAKES
        for name in self.replicas:  # of the leader the requests are slow, so that not all are bound at once
            self.links[name].faults.append(fault)
        process.resume()
        await self._some_bindings(fault)
        ours = not process.killed
        if ours:
            await self._kill(leader)
        await asyncio.sleep(max(fault.ends - self._loop.time(), 0.0))
        for link in self.links.values():
            if fault in link.faults:
                link.faults.remove(fault)
        if ours:
            await self._start_again(leader)

    async def _fail_node(self, fault: Fault) -> None:
        nodes = sorted(self.checker.nodes)
        if nodes:
            name = fault.random.choice(nodes)
            await self._patch_node(name, {"metadata": {"annotations": {FAILED: "true"}}})
            await asyncio.sleep(2 * fault.lasts)
            await self._patch_node(name, {"metadata": {"annotations": {FAILED: None}}})

    async def _patch_node(self, name: str, patch: dict[str, Any]) -> None:
        await self._until_done(lambda: self._direct.patch(NODES, name, patch))

    async def _delete_node(self, fault: Fault) -> None:
        nodes = sorted(self.checker.nodes)
        if len(nodes) < 2 or not self._server_is_up:
            return
        name = fault.random.choice(nodes)
        tree = self.checker.nodes[name]
        try:
            await self._direct.delete(NODES, name)
        except ApiError:
            return
        if len(nodes) > 3 and fault.random.random() < 0.3:
            return  # for good
        await asyncio.sleep(fault.lasts)
        metadata = {"name": name, "labels": tree["metadata"]["labels"], "annotations": {DEVICES: GPUS}}
        status = {part: tree["status"][part] for part in ("capacity", "allocatable")}
        await self._until_done(
            lambda: self._direct.create(
                NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
            )
        )

    async def _until_done(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Repeat a write that is right whatever happened, while the server cannot write."""
        while True:
            try:
                await work()
                return
            except ApiError as refusal:
                if not refusal.transient:
                    return
                await asyncio.sleep(1.0)

    async def _delete_pods(self, fault: Fault) -> None:
        for pod in list(self.checker.pods.values()):
            if fault.random.random() < fault.rate and self._server_is_up:
                namespace, name = pod.key.split("/")
                grace = fault.random.choice((0, None))
                try:
                    await self._direct.delete(PODS, name, namespace, uid=pod.uid, grace_period_seconds=grace)
                except ApiError:
                    continue

    async def _crash_server(self, fault: Fault) -> None:
        if not self._server_is_up:
            return
        self._journal.crashed = True
        self.history.drop_pending()
        if fault.kind is Kind.TORN and isinstance(self.history.inner, Disk):
            self.history.inner.tear(fault.random)
        else:
            self.history.close()
        for link in self.links.values():
            link.server = None
            for stream in list(link.streams):
                stream.end(Unreachable("api-server", "connection reset by peer"))
        await asyncio.sleep(min(fault.lasts, 10.0))
        self._open_server()
        for link in self.links.values():
            link.server = EmbeddedCluster(self._server.api, user_agent=link.client)
        self._compare_tables()

    async def _fill_disk(self, fault: Fault) -> None:
        disk = self.history.inner
        if not self._server_is_up or not isinstance(disk, Disk):
            return
        disk.fill()
        await asyncio.sleep(min(fault.lasts, 10.0))
        if disk is self.history.inner and self._server_is_up:
            disk.free()

    def _compare_tables(self) -> None:
        """What was committed is there after a restart."""
        for table in ("pods", "nodes", "leases.coordination.k8s.io"):
            stored = {key: r.version for key, r in self._server.api.store.table(table).records.items()}
            if stored != (committed := self.checker.state(table)):
                wrong = sorted(set(stored.items()) ^ set(committed.items()))[:5]
                self.checker.violate("nothing acknowledged is lost", f"{table} after a restart: {wrong}")

    # ---- parts

    @property
    def _server_is_up(self) -> bool:
        return not self._journal.crashed

    def _open_server(self) -> None:
        CLIENT.set("server")
        self._server = EmbeddedServer(
            clock=self._loop.time,
            seed=self.seed + len(self.history.entries),
            window=self.shape.window,
            features=self._features,
        )
        if self._directory is not None:
            self.history.inner = Disk(Path(self._directory.name))
        self._journal = _Incarnation(self.history)
        self._server.open(self._journal)
        self._direct = EmbeddedCluster(self._server.api, user_agent="users")
        if hasattr(self, "_users"):
            self._users.cluster = self._direct

    def _connect(self, name: str, client: str) -> Port:
        link = Link(client, f"{self.seed} {client}", self.history, self.checker, self.shape.slowest)
        if name in self.links:  # faults of the network outlive the process
            link.faults = self.links[name].faults
        if self._server_is_up:
            link.server = EmbeddedCluster(self._server.api, user_agent=client)
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
        recorder = EventRecorder(port, "mooring", now=lambda: round(self._loop.time() * 1_000_000_000))
        context = Context(port, cache, recorder, self._loop.time)
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
            return start + (self._loop.time() - start) * rate

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
        await self._kill(name)
        await asyncio.sleep(2.0)
        self._start_replica(name)

    async def _stop(self) -> None:
        for task in list(self._restarts):
            task.cancel()
        await asyncio.gather(*self._restarts, return_exceptions=True)
        for name in list(self.processes):
            if not self.processes[name].killed:
                await self._kill(name)
        for link in self._every_link:
            link.stop()
        if self._server_is_up:
            await self._server.stop()
        if self._directory is not None:
            self._directory.cleanup()

    # ---- the end

    async def _settle(self) -> None:
        """Stop all faults, and wait until everything schedulable is bound."""
        self.history.note("faults stop")
        for link in self.links.values():
            for fault in link.faults:
                fault.ends = self._loop.time()
            link.faults.clear()
        for process in self.processes.values():
            for fault in process.faults:
                fault.rate = 0.0
            if process.paused and not process.killed:
                process.resume()
        deadline = self._loop.time() + SETTLE
        while not self.checker.violations:
            await asyncio.sleep(LOOK_EVERY)
            if self._restarts_pending():
                problems = ["processes and nodes are coming back"]
            else:
                problems = self._problems()
            if not problems:
                return
            if self._loop.time() > deadline:
                for problem in problems[:5]:
                    self.checker.violate("everything is well in the end", problem)

    def _restarts_pending(self) -> bool:
        return len(self._restarts) > self.shape.replicas  # one watches over each replica

    def _problems(self) -> list[str]:
        problems = [f"pod {pod.key} is schedulable, but pending" for pod in schedulable_pods(self.checker)]
        problems += self.checker.quotas.miscounted(list(self.checker.pods.values()))
        problems += self.checker.gangs.broken(self.checker)
        problems += [f"gang {key} fits, but is pending" for key in startable_gangs(self.checker)]
        leader = next((r for r in self.replicas.values() if r.elector.identity == self.checker.leader), None)
        if leader is None:
            return [*problems, "no replica leads"]
        for name, replica in self.replicas.items():
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
