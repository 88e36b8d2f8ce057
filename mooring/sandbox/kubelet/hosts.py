"""The pods and nodes as hosts in the network of the cluster: what listens there, and how it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mooring.sandbox.kubelet.container_life import RUNNING, ContainerLife
from mooring.sandbox.kubelet.containers import PodLife
from mooring.sandbox.kubelet.executing import execute
from mooring.sandbox.kubelet.fleet import Fleet, Machine
from mooring.sandbox.network.messages import (
    Budget,
    Query,
    RefusedError,
    Reply,
    Speech,
    UnreachableError,
)
from mooring.sandbox.network.network import Destination
from mooring.sandbox.programs.errors import ForeverError, UnknownProgramError
from mooring.sandbox.programs.executing import NotRunningError
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.listeners import Listener, Process, answer_query, find_listener, text
from mooring.sandbox.programs.loads import Loads
from mooring.sandbox.programs.program import Outcome
from mooring.sandbox.programs.specs import ContainerSpec, PortSpec
from mooring.sandbox.programs.work import Work

_LINES = 4  # of a log that are written again for a unit of work
_ANY_ADDRESS = ("", "0.0.0.0")
_HostPorts = dict[tuple[str, int], list[tuple[str, PortSpec]]]
"""By protocol and port of the node: containers, with their ports."""


class _Site(NamedTuple):
    """A pod at an address."""

    life: PodLife
    machine: Machine
    ports: _HostPorts


class _Server(NamedTuple):
    """A container that listens."""

    site: _Site
    container: ContainerLife
    listener: Listener


class PodHosts:
    """See `network.network.Hosts`. `written` is called when a server has written files, `changed` when one
    ends. `loads` takes what servers use."""

    def __init__(
        self,
        fleet: Fleet,
        clock: Callable[[], float],
        written: Callable[[PodLife, Files], None],
        changed: Callable[[str], None],
        loads: Loads,
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._written = written
        self._changed = changed
        self._loads = loads
        self._pods: dict[str, _Site] = {}  # by address
        self._on_nodes: dict[str, dict[str, _Site]] = {}  # by node and uid: those with ports of their node

    def place(self, life: PodLife, machine: Machine, address: str) -> None:
        """Add a pod at its address, or without one in the network of its node."""
        pod, site = life.pod, _Site(life, machine, _host_ports(life))
        if address:
            self._pods[address] = site
        if not address or site.ports:
            self._on_nodes.setdefault(pod.spec.node_name, {})[pod.uid] = site

    def remove(self, life: PodLife, address: str) -> None:
        self._pods.pop(address, None)
        node = life.pod.spec.node_name
        sites = self._on_nodes.get(node, {})
        sites.pop(life.pod.uid, None)
        if not sites:
            self._on_nodes.pop(node, None)

    # ---- what the network asks

    def node_at(self, address: str) -> str:
        return self._fleet.name_at(address)

    def listens(self, destination: Destination, budget: Budget | None = None) -> bool:
        return self._find(destination, budget) is not None

    def speech(self, destination: Destination) -> Speech:
        server = self._find(destination, None)
        if server is None:
            raise RefusedError
        return server.listener.speech

    def sockets(self, address: str, budget: Budget | None = None) -> list[tuple[str, str, int]]:
        node = self.node_at(address)
        sites = self._on_nodes.get(node, {}).values() if node else filter(None, [self._pods.get(address)])
        sockets = set()
        for site in sites:
            if node and not _uses_node(site):
                continue
            for one in _running(site):
                if budget is not None:
                    budget.spend(1 + len(one.outcome.listeners))
                sockets |= {(each.protocol, "*", each.port) for each in one.outcome.listeners}
        return list(sockets)

    def named_port(self, address: str, name: str, protocol: str) -> int:
        site = self._pods.get(address)
        ports = () if site is None else (port for spec in _specs(site.life) for port in spec.ports)
        matching = (one for one in ports if (one.name, one.protocol) == (name, protocol))
        return next((one.container_port for one in matching), 0)

    def answer(self, destination: Destination, query: Query, budget: Budget | None = None) -> Reply:
        server = self._find(destination, budget)
        if server is None:
            raise RefusedError
        site, one, listener = server
        process = self._process(site.life, one, budget if isinstance(budget, Work) else Work())
        try:
            reply = answer_query(listener, query, process)
        except UnknownProgramError:
            reply = text("what the program does is not known in a sandbox cluster\n", 500)
        except ForeverError:
            raise UnreachableError from None
        self._apply(site.life, one, process)
        return reply

    def _find(self, destination: Destination, budget: Budget | None) -> _Server | None:
        """Return what listens. Raises UnreachableError."""
        node = self.node_at(destination.address)
        sites = self._on_nodes.get(node, {}).values() if node else ()
        site = self._pods.get(destination.address)
        if site is None and not node:
            raise UnreachableError
        machines = [one.machine for one in (*sites, *([site] if site else ()))]
        if machines and not machines[0].takes_pods:
            raise UnreachableError
        everything = ((one, *_port_on_node(one, destination)) for one in sites)
        for one, container, port in ((site, "", destination.port), *everything):
            if one is None or not port:
                continue
            for each in _running(one):
                if budget is not None:
                    budget.spend(1)
                listener = find_listener(each.outcome.listeners, destination.protocol, port)
                if listener is not None and container in ("", each.name):
                    return _Server(one, each, listener)
        return None

    def _process(self, life: PodLife, one: ContainerLife, work: Work) -> Process:
        now = self._clock()
        files = one.files.fork()
        files.work = work
        sources = one.sources or life.surroundings.sources
        assert life.client is not None

        def run(script: str) -> Outcome | None:
            try:
                outcome, written = execute(life, one.name, ["/bin/sh", "-c", script], now, None, work)
            except NotRunningError:
                return None
            self._written(life, written)
            return outcome

        return Process(
            sources.hostname or life.pod.name,
            life.client.source.address,
            files,
            one.started,
            now,
            life.client._replace(work=work),
            one.connection.server_state,
            run,
            is_stopping=life.pod.metadata.deletion_timestamp is not None,
        )

    def _apply(self, life: PodLife, one: ContainerLife, process: Process) -> None:
        """Apply the effects of an answer: lines in the log, loads, the end of the container."""
        for load in process.loads:
            self._loads.add(life.pod.uid, one.name, load)
        if process.lines:
            process.files.work.left -= len(one.outcome.output) // _LINES
            life.log(one, ((0.0, line) for line in process.lines), process.now)
        if process.exit is not None:
            seconds, code = process.exit
            life.end_soon(one, process.now + seconds, code)
            self._changed(life.pod.key)


def _specs(life: PodLife) -> Iterator[ContainerSpec]:
    return (one.spec for one in life.all if one.spec is not None)


def _host_ports(life: PodLife) -> _HostPorts:
    ports: _HostPorts = {}
    for spec in _specs(life):
        for port in spec.ports:
            if port.host_port:
                ports.setdefault((port.protocol, port.host_port), []).append((spec.name, port))
    return ports


def _running(site: _Site) -> Iterator[ContainerLife]:
    return (one for one in site.life.all if one.state == RUNNING)


def _uses_node(site: _Site) -> bool:
    """Whether a pod is in the network of its node."""
    run = site.life.run
    return run is None or run.spec.host_network


def _port_on_node(site: _Site, destination: Destination) -> tuple[str, int]:
    """Return the container, or "" for any, and the port that a port of the node leads to; 0 for none."""
    if _uses_node(site):
        return "", destination.port
    for container, port in site.ports.get((destination.protocol, destination.port), ()):
        if port.host_ip in (*_ANY_ADDRESS, destination.dialed):
            return container, port.container_port
    return "", 0
