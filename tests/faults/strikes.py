"""How faults strike the world of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mooring.api.kinds import NODES, PODS
from mooring.client.api_errors import ApiError, Unreachable
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.kubelet.devices import DEVICES
from mooring.sandbox.kubelet.machines import FAILED
from tests.faults.disk import Disk
from tests.faults.faults import Fault, Kind
from tests.faults.history import CLIENT
from tests.faults.workloads import GPU

if TYPE_CHECKING:
    from tests.faults.world import World

MANAGER = "manager"
GPUS = f'[{{"driver": "{GPU}", "name": "gpu", "count": 2}}]'
HANDOVER_TAKES = 60.0
BURST_TAKES = 3.0  # until all replicas have seen the pods


class Strikes:
    """Carries out the faults of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._troubled = asyncio.Lock()

    async def strike(self, fault: Fault) -> None:
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
            Kind.BLOCK: self._confuse,
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
        self._world.links[fault.target].faults.append(fault)
        await asyncio.sleep(fault.lasts)
        link = self._world.links[fault.target]
        if fault in link.faults:
            link.faults.remove(fault)

    async def _cut(self, fault: Fault) -> None:
        for stream in list(self._world.links[fault.target].streams):
            if fault.random.random() < 0.5:
                gone = ApiError(410, "Expired", "too old resource version")
                stream.end(gone if fault.kind is Kind.GONE else Unreachable("api-server", "connection reset"))

    async def _silence(self, fault: Fault) -> None:
        for stream in list(self._world.links[fault.target].streams):
            if fault.random.random() < 0.5:
                stream.fall_silent()

    async def _pause(self, fault: Fault) -> None:
        process = self._world.processes[fault.target]
        if process.paused or process.killed:
            return
        process.pause()
        await asyncio.sleep(fault.lasts)
        if not process.killed:
            process.resume()

    async def _confuse(self, fault: Fault) -> None:
        process = self._world.processes[fault.target]
        process.faults.append(fault)
        await asyncio.sleep(fault.lasts)
        process.faults.remove(fault)

    async def _set_clock(self, fault: Fault) -> None:
        target = self._world.leading() or fault.target
        if target != MANAGER:
            jump = fault.random.choice((-86400.0, -3600.0, -3600.0, -5.0, 45.0, 3600.0))
            self._world.shape.skews[int(target.rpartition("-")[2])] += jump

    async def _crash(self, fault: Fault) -> None:
        name = fault.target
        if not self._world.processes[name].killed:
            await self._world.kill(name)
            await asyncio.sleep(fault.lasts)
            await self._world.start_again(name)

    async def _trouble_leader(self, fault: Fault) -> None:
        """Strike the leader, unless another fault does so already: together they would have no effect."""
        leader = self._world.leading()
        if not leader or self._troubled.locked() or self._world.processes[leader].paused:
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
        link, elector = self._world.links[leader], self._world.replicas[leader].elector
        link.faults.append(fault)
        left, before = elector._leads_until - elector._clock(), fault.random.uniform(0.5, 3.0)
        await asyncio.sleep(max(left - before, 0.0))
        if self._world.server_is_up:
            self._world.history.note(f"users: {await self._world.users.burst()}")
        await asyncio.sleep(before)
        if fault in link.faults:
            link.faults.remove(fault)

    async def _some_bindings(self, fault: Fault) -> None:
        enough, give_up = (
            self._world.checker.bound + fault.random.randint(1, 4),
            self._world.loop.time() + 20.0,
        )
        while self._world.checker.bound < enough and self._world.loop.time() < give_up:
            await asyncio.sleep(0.01)

    async def _make_zombie(self, fault: Fault, leader: str) -> None:
        """Pause the leader between two bindings, for so long that another leads by then."""
        link, process = self._world.links[leader], self._world.processes[leader]
        link.faults.append(fault)
        if self._world.server_is_up:
            self._world.history.note(f"users: {await self._world.users.burst()}")
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
        if len(self._world.replicas) < 2:
            return
        process = self._world.processes[leader]
        process.pause()
        if self._world.server_is_up:
            self._world.history.note(f"users: {await self._world.users.burst()}")
        await asyncio.sleep(BURST_TAKES)
        fault.ends = self._world.loop.time() + HANDOVER_TAKES
        for (
            name
        ) in self._world.replicas:  # of the leader the requests are slow, so that not all are bound at once
            self._world.links[name].faults.append(fault)
        process.resume()
        await self._some_bindings(fault)
        ours = not process.killed
        if ours:
            await self._world.kill(leader)
        await asyncio.sleep(max(fault.ends - self._world.loop.time(), 0.0))
        for link in self._world.links.values():
            if fault in link.faults:
                link.faults.remove(fault)
        if ours:
            await self._world.start_again(leader)

    async def _fail_node(self, fault: Fault) -> None:
        nodes = sorted(self._world.checker.nodes)
        if nodes:
            name = fault.random.choice(nodes)
            await self._patch_node(name, {"metadata": {"annotations": {FAILED: "true"}}})
            await asyncio.sleep(2 * fault.lasts)
            await self._patch_node(name, {"metadata": {"annotations": {FAILED: None}}})

    async def _patch_node(self, name: str, patch: dict[str, Any]) -> None:
        await self._until_done(lambda: self._world.direct.patch(NODES, name, patch))

    async def _delete_node(self, fault: Fault) -> None:
        nodes = sorted(self._world.checker.nodes)
        if len(nodes) < 2 or not self._world.server_is_up:
            return
        name = fault.random.choice(nodes)
        tree = self._world.checker.nodes[name]
        try:
            await self._world.direct.delete(NODES, name)
        except ApiError:
            return
        if len(nodes) > 3 and fault.random.random() < 0.3:
            return  # for good
        await asyncio.sleep(fault.lasts)
        metadata = {"name": name, "labels": tree["metadata"]["labels"], "annotations": {DEVICES: GPUS}}
        status = {part: tree["status"][part] for part in ("capacity", "allocatable")}
        await self._until_done(
            lambda: self._world.direct.create(
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
        for pod in list(self._world.checker.pods.values()):
            if fault.random.random() < fault.rate and self._world.server_is_up:
                namespace, name = pod.key.split("/")
                grace = fault.random.choice((0, None))
                try:
                    await self._world.direct.delete(
                        PODS, name, namespace, uid=pod.uid, grace_period_seconds=grace
                    )
                except ApiError:
                    continue

    async def _crash_server(self, fault: Fault) -> None:
        if not self._world.server_is_up:
            return
        self._world.journal.crashed = True
        self._world.history.drop_pending()
        if fault.kind is Kind.TORN and isinstance(self._world.history.inner, Disk):
            self._world.history.inner.tear(fault.random)
        else:
            self._world.history.close()
        for link in self._world.links.values():
            link.server = None
            for stream in list(link.streams):
                stream.end(Unreachable("api-server", "connection reset by peer"))
        await asyncio.sleep(min(fault.lasts, 10.0))
        self._world.open_server()
        for link in self._world.links.values():
            link.server = EmbeddedCluster(self._world.server.api, user_agent=link.client)
        self._compare_tables()

    async def _fill_disk(self, fault: Fault) -> None:
        disk = self._world.history.inner
        if not self._world.server_is_up or not isinstance(disk, Disk):
            return
        disk.fill()
        await asyncio.sleep(min(fault.lasts, 10.0))
        if disk is self._world.history.inner and self._world.server_is_up:
            disk.free()

    def _compare_tables(self) -> None:
        """What was committed is there after a restart."""
        for table in ("pods", "nodes", "leases.coordination.k8s.io"):
            stored = {key: r.version for key, r in self._world.server.api.store.table(table).records.items()}
            if stored != (committed := self._world.checker.state(table)):
                wrong = sorted(set(stored.items()) ^ set(committed.items()))[:5]
                self._world.checker.violate(
                    "nothing acknowledged is lost", f"{table} after a restart: {wrong}"
                )
