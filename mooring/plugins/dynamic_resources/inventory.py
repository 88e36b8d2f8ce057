"""Resource slices as pools: the devices that each node can reach, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mooring.api import quantity
from mooring.api.devices import Device, ResourceSlice, ResourceSliceSpec
from mooring.api.objects import NodeSelector
from mooring.api.selectors import node_selector_matches
from mooring.framework.nodes import NodeInfo
from mooring.plugins.dynamic_resources.device_selectors import SelectorInput, Selectors
from mooring.plugins.dynamic_resources.features import DeviceFeatures
from mooring.runtime.engine_nodes import EngineNodes

DeviceId = tuple[str, str, str]
PoolId = tuple[str, str]  # driver and pool
Counters = dict[str, dict[str, int]]  # by counter set and counter, in nano

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


class DeviceInfo:
    """A device of a slice, compiled for the search."""

    __slots__ = (
        "blocked",
        "capacity",
        "consumes",
        "device",
        "id",
        "input",
        "plain",
        "pool_id",
        "shared",
        "slice",
        "taints",
    )

    def __init__(
        self, spec: ResourceSliceSpec, device: Device, seen: SelectorInput, features: DeviceFeatures
    ) -> None:
        self.slice = spec
        self.device = device
        self.id: DeviceId = (spec.driver, spec.pool.name, device.name)
        self.pool_id: PoolId = (spec.driver, spec.pool.name)
        self.input = seen
        self.capacity = device.capacity if features.consumable_capacity else {}
        self.shared = features.consumable_capacity and bool(device.allow_multiple_allocations)
        taints = device.taints if features.taints else ()
        self.taints = [taint for taint in taints if taint.effect in BLOCKING_EFFECTS]
        self.blocked = bool(device.consumes_counters) and not features.partitionable_devices
        self.consumes: list[tuple[str, dict[str, int]]] = [
            (each.counter_set, {name: quantity.parse(c.value) for name, c in each.counters.items()})
            for each in (device.consumes_counters if features.partitionable_devices else ())
        ]
        policies = any(capacity.request_policy is not None for capacity in self.capacity.values())
        # Of a plain device all that matters is whether it is selected and in use.
        self.plain = not (self.shared or self.taints or self.consumes or policies or self.blocked)

    def matches_node(self, node: NodeInfo) -> bool:
        """Whether the node can use it, where that is for each device to say."""
        device = self.device
        return _matches(node, device.node_name, device.all_nodes, device.node_selector)


class Pool:
    """A pool as one node sees it."""

    __slots__ = ("counters", "devices", "elsewhere", "id", "incomplete", "invalid")

    def __init__(self, pool_id: PoolId, *, incomplete: bool = False, invalid: bool = False) -> None:
        self.id = pool_id
        self.incomplete = incomplete
        self.invalid = invalid
        self.devices: list[DeviceInfo] = []
        self.elsewhere: list[DeviceInfo] = []  # devices that the node cannot use but that consume counters
        self.counters: Counters = {}

    @property
    def name(self) -> str:
        return "/".join(self.id)

    @property
    def usable(self) -> bool:
        return not (self.incomplete or self.invalid)


class NodeDevices:
    """The pools of a node in order, and their usable devices."""

    __slots__ = ("devices", "invalid", "plain", "pools")

    def __init__(self, pools: list[Pool], local: bool) -> None:
        self.pools = pools
        self.devices = [device for pool in pools if pool.usable for device in pool.devices]
        self.invalid = any(pool.invalid for pool in pools)
        self.plain = local and all(pool.usable for pool in pools) and all(d.plain for d in self.devices)


class _Slice(NamedTuple):
    name: str
    spec: ResourceSliceSpec
    devices: list[DeviceInfo]


class Inventory:
    """All slices, and what they amount to for each node. A log names the nodes whose devices changed, in
    order; None stands for all nodes."""

    KEEP = 16_384

    def __init__(self, selectors: Selectors, features: DeviceFeatures) -> None:
        self._selectors = selectors
        self._features = features
        self._by_pool: dict[PoolId, dict[str, _Slice]] = {}
        self._local: dict[str, dict[str, _Slice]] = {}  # node → slices that only it can use
        self._shared: dict[str, _Slice] = {}
        self._nodes: dict[str, tuple[object, NodeDevices]] = {}  # node → the Node object, and its devices
        self._rows: list[NodeDevices] = []
        self._rows_version = -1
        self._rows_position = 0
        self._log: list[str | None] = []
        self.position = 0

    # ---- changes

    def apply(self, changes: Iterable[tuple[ResourceSlice | None, ResourceSlice | None]]) -> None:
        for old, new in changes:
            for each, add in ((old, False), (new, True)):
                if each is not None:
                    self._put(each, add)

    def _put(self, obj: ResourceSlice, add: bool) -> None:
        spec = obj.spec
        partitioned = spec.shared_counters or spec.per_device_node_selection is not None
        if partitioned and not self._features.partitionable_devices:
            return
        pool_id = (spec.driver, spec.pool.name)
        local = bool(spec.node_name) and not spec.shared_counters
        group = self._local.setdefault(spec.node_name or "", {}) if local else self._shared
        pool = self._by_pool.setdefault(pool_id, {})
        if add:
            devices = [
                DeviceInfo(spec, device, self._selectors.input(spec.driver, device), self._features)
                for device in spec.devices
            ]
            group[obj.name] = pool[obj.name] = _Slice(obj.name, spec, devices)
        else:
            group.pop(obj.name, None)
            pool.pop(obj.name, None)
        # A pool may span nodes, and whether it is complete depends on all of its slices.
        self.changed(pool_id, None if local else "")
        if local:
            self._forget(spec.node_name or "")

    def changed(self, pool_id: PoolId, scope: str | None = None) -> None:
        """What can be allocated from a pool changed: for the nodes that it belongs to, or for all of them."""
        slices = self._by_pool.get(pool_id, {})
        everywhere = scope == "" or any(name in self._shared for name in slices)
        if everywhere:
            if scope is not None:
                self._nodes.clear()
            self._add(None)
            return
        for node in {each.spec.node_name or "" for each in slices.values()}:
            self._forget(node)

    def in_use_changed(self, pool_id: PoolId) -> None:
        """Devices of a pool were taken or given back."""
        slices = self._by_pool.get(pool_id)
        if not slices:
            return
        if any(name in self._shared for name in slices):
            self._add(None)
        else:
            for node in {each.spec.node_name or "" for each in slices.values()}:
                self._add(node)

    def _forget(self, node: str) -> None:
        self._nodes.pop(node, None)
        self._add(node)

    def _add(self, node: str | None) -> None:
        self._log.append(node)
        self.position += 1
        if len(self._log) > 2 * self.KEEP:
            del self._log[: self.KEEP]

    def since(self, position: int) -> list[str] | None:
        """The nodes whose devices changed since a position; None: perhaps all."""
        start = position - self.position + len(self._log)
        if start < 0:
            return None
        nodes: list[str] = []
        for node in self._log[start:]:
            if node is None:
                return None
            nodes.append(node)
        return nodes

    def device(self, device_id: DeviceId) -> DeviceInfo | None:
        """The device as the newest slice of its pool that has it describes it."""
        slices = self._by_pool.get(device_id[:2], {}).values()
        newest = sorted(slices, key=lambda each: -each.spec.pool.generation)
        return next((device for each in newest for device in each.devices if device.id == device_id), None)

    # ---- a node's view

    def rows(self, nodes: EngineNodes) -> Sequence[NodeDevices]:
        """The devices of all nodes, by row of the table."""
        stale = self.since(self._rows_position) if nodes.node_version == self._rows_version else None
        if stale is None or len(self._rows) != len(nodes):
            self._rows = [self.of(node) for node in nodes]
        else:
            for name in dict.fromkeys(stale):
                row = nodes.index(name)
                if row is not None:
                    self._rows[row] = self.of(nodes[row])
        self._rows_version, self._rows_position = nodes.node_version, self.position
        return self._rows

    def of(self, node: NodeInfo) -> NodeDevices:
        cached = self._nodes.get(node.name)
        if cached is not None and cached[0] is node.node:
            return cached[1]
        devices = self._view(node)
        self._nodes[node.name] = (node.node, devices)
        return devices

    def reachable(self, node: NodeInfo) -> Iterator[DeviceInfo]:
        """The devices of all slices that a node can use, whatever their generation and their pool."""
        for each in (*self._local.get(node.name, {}).values(), *self._shared.values()):
            if each.devices and _relevant(each, node):
                own = each.spec.per_device_node_selection
                yield from (device for device in each.devices if not own or device.matches_node(node))

    def _view(self, node: NodeInfo) -> NodeDevices:
        local = self._local.get(node.name, {})
        grouped: dict[PoolId, list[_Slice]] = {}
        for each in (*local.values(), *self._shared.values()):
            if not _relevant(each, node):
                continue
            pool_id = (each.spec.driver, each.spec.pool.name)
            group = grouped.get(pool_id)
            if group is None or each.spec.pool.generation > group[0].spec.pool.generation:
                grouped[pool_id] = [each]
            elif each.spec.pool.generation == group[0].spec.pool.generation:
                group.append(each)
        first: list[Pool] = []
        last: list[Pool] = []  # those with devices that are not ready at once
        for pool_id in sorted(grouped):
            pool = self._pool(pool_id, sorted(grouped[pool_id], key=lambda each: each.name))
            if pool is not None:
                waits = any(device.device.binding_conditions for device in pool.devices)
                (last if waits else first).append(pool)
        return NodeDevices(first + last, not self._shared)

    def _pool(self, pool_id: PoolId, slices: list[_Slice]) -> Pool | None:
        """The pool that relevant slices make; None where they are about to be replaced."""
        own = slices[0].spec.pool
        every = slices
        if len(slices) != own.resource_slice_count:
            others = self._by_pool[pool_id].values()
            if any(each.spec.pool.generation > own.generation for each in others):
                return None
            every = [each for each in others if each.spec.pool.generation == own.generation]
            if len(every) != own.resource_slice_count:
                return Pool(pool_id, incomplete=True)
        pool = _build(pool_id, slices, every)
        if not self._features.binding_conditions:
            pool.devices = [each for each in pool.devices if not each.device.binding_conditions]
        return pool


def _build(pool_id: PoolId, slices: list[_Slice], every: list[_Slice]) -> Pool:
    pool = Pool(pool_id)
    names: set[str] = set()
    for each in slices:
        for counter_set in each.spec.shared_counters:
            if counter_set.name in pool.counters:
                return Pool(pool_id, invalid=True)
            pool.counters[counter_set.name] = {
                name: quantity.parse(counter.value) for name, counter in counter_set.counters.items()
            }
        for device in each.devices if not each.spec.shared_counters else ():
            if device.device.name in names:
                return Pool(pool_id, invalid=True)
            names.add(device.device.name)
            pool.devices.append(device)
    mine = {each.name for each in slices}
    pool.elsewhere = [device for each in every if each.name not in mine for device in each.devices]
    for device in _all_devices(slices, pool.elsewhere):
        for counter_set_name, counters in device.consumes:
            offered: Mapping[str, int] | None = pool.counters.get(counter_set_name)
            if offered is None or not counters.keys() <= offered.keys():
                return Pool(pool_id, invalid=True)
    return pool


def _all_devices(slices: list[_Slice], elsewhere: list[DeviceInfo]) -> Iterator[DeviceInfo]:
    for each in slices:
        yield from each.devices
    yield from elsewhere


def _relevant(each: _Slice, node: NodeInfo) -> bool:
    spec = each.spec
    if spec.shared_counters:
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return _matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    return bool(spec.per_device_node_selection) and any(device.matches_node(node) for device in each.devices)


def _matches(
    node: NodeInfo, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None
) -> bool:
    if node_name:
        return node.name == node_name
    if all_nodes:
        return True
    return selector is not None and node_selector_matches(selector, node.labels, node.name)
