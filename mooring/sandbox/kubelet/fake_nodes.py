"""FakeNodes: every Node of a cluster behaves as if there were a machine with a kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from mooring.api.kinds import NODES
from mooring.api.meta import Tree
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context
from mooring.sandbox.kubelet.dra_driver import FakeDriver
from mooring.sandbox.kubelet.fleet import Fleet, Listener
from mooring.sandbox.kubelet.heartbeats import Heartbeats
from mooring.sandbox.kubelet.kubelets import Kubelets
from mooring.sandbox.kubelet.machines import registered
from mooring.sandbox.kubelet.pod_tokens import IssueToken
from mooring.sandbox.network.network import Network
from mooring.sandbox.programs.executing import Containers
from mooring.sandbox.programs.loads import Loads
from mooring.sandbox.programs.runs import Runs
from mooring.sandbox.programs.servers import PodServers

TURN = 64  # nodes registered before others on the event loop have their turn


class FakeNodes:
    """All nodes of the cluster, including those created by other clients. Nodes that have the annotation
    `mooring/failed: "true"` are silent, and nothing happens to their pods, until it is removed.

    With `heartbeats`, leases are renewed as time passes. On virtual time that would cost more than all the
    rest; without them, `pulse` reports when a node was last healthy. Images that match one of the shell
    patterns in `missing_images` cannot be pulled. Containers take `stop_time` seconds to stop, unless an
    annotation of their pod says otherwise. `runs` takes what they print, `loads` what
    their clients have them use. With `servers`, containers that run
    a known server listen on ports of this machine, which are added there. `issue_token` makes the tokens
    that containers find in their volumes; without, no container can read one.
    """

    def __init__(
        self,
        context: Context,
        *,
        heartbeats: bool = True,
        missing_images: Collection[str] = (),
        stop_time: float = 0.0,
        runs: Runs | None = None,
        loads: Loads | None = None,
        servers: PodServers | None = None,
        issue_token: IssueToken | None = None,
    ) -> None:
        self._context = context
        self._nodes = context.cache.follow(NODES)
        self._fleet = Fleet(self._nodes, context.clock)
        self._kubelets = Kubelets(
            context,
            self._fleet,
            runs or Runs(),
            loads or Loads(),
            missing_images,
            stop_time,
            servers,
            issue_token,
        )
        self._driver = FakeDriver(context)
        self._heartbeats = Heartbeats(context, self._fleet, leases=heartbeats)

    async def run(self) -> None:
        """Be nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._heartbeats.run(), name="heartbeats of the fake nodes")
            group.create_task(self._kubelets.run(), name="kubelets of the fake nodes")
            group.create_task(self._driver.run(), name="driver of the fake nodes' devices")

    async def register(self, nodes: Iterable[Tree]) -> None:
        """Make these Nodes, Ready at once; those that are there already stay as they are."""
        addresses, now = self._fleet.addresses, self._context.now()
        for count, node in enumerate(nodes, 1):
            address = addresses.take()
            try:
                made = await self._context.cluster.create(NODES, registered(node, address, now))
            except ApiError as refusal:
                addresses.give_back(address)
                if not refusal.conflict:
                    raise
            else:
                self._nodes.wrote(made)
            if count % TURN == 0:
                await asyncio.sleep(0)

    @property
    def network(self) -> Network:
        """What the containers reach and serve."""
        return self._kubelets.network

    @property
    def containers(self) -> Containers:
        """The containers of all nodes."""
        return self._kubelets.containers

    def speed_changed(self, factor: float) -> None:
        """Set all timers again, after the clock became so many times as fast."""
        for controller in (self._heartbeats, self._kubelets, self._driver):
            controller.speed_changed(factor)

    def renewals_per_second(self) -> float:
        """Return how many leases are renewed in a second of the clock."""
        return self._heartbeats.renewals_per_second()

    def pulse(self, name: str) -> float | None:
        """When a node was last known to be well, in seconds since the epoch: now, unless it failed. None
        where there is no such node."""
        machine = self._fleet.find(name)
        if machine is None:
            return None
        return self._context.clock() if machine.failed_at is None else machine.failed_at

    def on_change(self, listener: Listener) -> None:
        """Have it called with the name of a node that came, went, failed or recovered."""
        self._fleet.listen(listener)
