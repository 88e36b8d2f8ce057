"""The machines that fake nodes stand for: which there are, which of them failed, what runs on them."""

from __future__ import annotations

import math
from collections.abc import Callable

from mooring.api.objects import Node
from mooring.client.cache import Collection
from mooring.sandbox.kubelet.addresses import NODE_NETWORK, Addresses
from mooring.sandbox.kubelet.admission import Room
from mooring.sandbox.kubelet.machines import has_failed, internal_ip
from mooring.sandbox.programs import cgroups
from mooring.sandbox.programs.file import File
from mooring.sandbox.programs.files import TEMPORARY
from mooring.sandbox.programs.space import MOST_OF_CLUSTER, Space
from mooring.sandbox.programs.volume import Volume

Listener = Callable[[str], None]
"""Called with the name of a node."""


HOSTS = "127.0.0.1\tlocalhost\n"
"""The file /etc/hosts of all nodes."""


class Machine:
    """One node. `node` is None while there is no such Node, though pods are bound to it; `files` is what
    containers have written to its disk."""

    __slots__ = ("address", "failed_at", "files", "node", "room")

    def __init__(self, space: Space) -> None:
        self.node: Node | None = None
        self.address = ""
        self.failed_at: float | None = None
        self.room = Room()
        self.files = Volume(complete=False, known=(TEMPORARY, cgroups.ROOT), space=space)
        self.files.write("etc/hosts", File(HOSTS), -math.inf)

    @property
    def works(self) -> bool:
        return self.node is not None and self.failed_at is None

    @property
    def takes_pods(self) -> bool:
        """It works, and has said what there is on it."""
        return self.works and self.node is not None and bool(self.node.status.allocatable)


class Fleet:
    """All machines: one for every Node there is. Listeners are called for those that are added, fail and
    recover."""

    def __init__(self, nodes: Collection[Node], clock: Callable[[], float]) -> None:
        self.addresses = Addresses(NODE_NETWORK)
        self._space = Space(MOST_OF_CLUSTER)
        self._clock = clock
        self._machines: dict[str, Machine] = {}
        self._names: dict[str, str] = {}  # by address
        self._listeners: list[Listener] = []
        nodes.subscribe(self._changed)

    def listen(self, listener: Listener) -> None:
        """Call the listener for machines that are added, fail, recover, change capacity or are not Ready."""
        self._listeners.append(listener)
        for name in self._machines:
            listener(name)

    def machine(self, name: str) -> Machine:
        """The machine by this name, whether there is a Node yet or not."""
        machine = self._machines.get(name)
        if machine is None:
            machine = self._machines[name] = Machine(self._space)
        return machine

    def find(self, name: str) -> Machine | None:
        """The machine by this name, if there is such a Node."""
        machine = self._machines.get(name)
        return None if machine is None or machine.node is None else machine

    def name_at(self, address: str) -> str:
        """Return the name of the node that has an address, or ""."""
        return self._names.get(address, "")

    def _changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            self._gone(old)
            return
        machine = self.machine(new.name)
        came, worked, took_pods = machine.node is None, machine.failed_at is None, machine.takes_pods
        resized = old is not None and old.status.capacity != new.status.capacity
        machine.node = new
        address = internal_ip(new)
        if address != machine.address or not address:
            self._names.pop(machine.address, None)
            self._settle_address(machine, address)
            self._names[machine.address] = new.name
        works = not has_failed(new)
        if works != worked:
            machine.failed_at = None if works else self._clock()
        if came or resized or works != worked or took_pods != machine.takes_pods or (works and not new.ready):
            self._notify(new.name)

    def _settle_address(self, machine: Machine, address: str) -> None:
        if address:
            self.addresses.keep(address)
            machine.address = address
        elif not machine.address:
            machine.address = self.addresses.take()

    def _gone(self, old: Node | None) -> None:
        assert old is not None
        machine = self.machine(old.name)
        machine.node = machine.failed_at = None
        self.addresses.give_back(machine.address)
        self._names.pop(machine.address, None)
        machine.address = ""
        if not machine.room.pods:
            machine.files.close()
            del self._machines[old.name]
        self._notify(old.name)

    def _notify(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)
