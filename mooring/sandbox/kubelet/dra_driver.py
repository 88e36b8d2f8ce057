"""The fake DRA driver: publishes the devices of nodes in ResourceSlices, one pool per node and driver."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.devices import Device, ResourceSlice
from mooring.api.kinds import NODES, RESOURCE_SLICES
from mooring.api.meta import Tree
from mooring.api.objects import Node
from mooring.client.api_errors import ApiError
from mooring.client.cache import Collection
from mooring.client.controller import Context, Controller
from mooring.sandbox.kubelet.devices import (
    DEVICE_TAINTS,
    DEVICES,
    FAILED_DEVICES,
    DeviceError,
    published_devices,
)
from mooring.sandbox.kubelet.machines import has_failed

MOST_IN_SLICE: Final = 64  # an API server allows 128 without taints; a taint may come later
_ANNOTATIONS: Final = (DEVICES, FAILED_DEVICES, DEVICE_TAINTS)


class FakeDriver(Controller):
    """All fake drivers at once. In the queue are nodes; slices of nodes that are deleted are left to garbage
    collection, and those of failed nodes stay, as they do when a kubelet is unreachable."""

    name = "fake-dra-driver"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = self.cache.follow(NODES)
        self._slices = self.cache.follow(RESOURCE_SLICES)
        self._nodes.subscribe(self._node_changed)
        self._slices.subscribe(self._slice_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            return
        before = {} if old is None or old.uid != new.uid else old.metadata.annotations
        after = new.metadata.annotations
        recovered = old is not None and has_failed(old) and not has_failed(new)
        if recovered or any(before.get(name) != after.get(name) for name in _ANNOTATIONS):
            self.enqueue(new.name)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """A slice that another client deleted or changed is published again."""
        changed = old if new is None else new
        if old is not None and changed is not None and changed.spec.node_name:
            node = self._nodes.get(changed.spec.node_name)
            if node is not None and DEVICES in node.metadata.annotations:
                self.enqueue(node.name)

    async def sync(self, key: str) -> None:
        node = self._nodes.get(key)
        if node is None or has_failed(node):
            return
        try:
            drivers = published_devices(node.metadata.annotations)
            every = self._slices.controlled_by(node.uid)
            own = [each for each in every if each.metadata.deletion_timestamp is None]
            for driver in {*drivers, *(each.spec.driver for each in own)}:
                slices = sorted((each for each in own if each.spec.driver == driver), key=_name)
                await self._publish(node, driver, drivers.get(driver), slices)
        except DeviceError as error:
            self.event(self._nodes, node, "Warning", "InvalidAnnotation", str(error))
        except ApiError as refusal:
            if refusal.code != 422:
                raise
            self.event(self._nodes, node, "Warning", "InvalidDevices", refusal.message)

    async def _publish(
        self, node: Node, driver: str, devices: list[Tree] | None, slices: list[ResourceSlice]
    ) -> None:
        """Have a pool of exactly these devices. A change of any slice makes a new generation of all."""
        chunks = [] if devices is None else _chunks(devices)
        current = [each.spec.devices for each in slices]
        if current == [_devices(chunk, published) for chunk, published in _paired(chunks, current)]:
            return
        generation = max((each.spec.pool.generation for each in slices), default=0) + 1
        pool = {"name": node.name, "generation": generation, "resourceSliceCount": len(chunks)}
        for surplus in slices[len(chunks) :]:
            await self.delete(self._slices, surplus)
        for at, chunk in enumerate(chunks):
            if at < len(slices):
                await self._update(self._slices, slices[at], {"pool": pool, "devices": chunk})
            else:
                await self.create(self._slices, _slice(node, driver, pool, chunk))

    async def _update(self, collection: Collection[ResourceSlice], old: ResourceSlice, spec: Tree) -> None:
        try:
            collection.wrote(await self.cluster.patch(RESOURCE_SLICES, old.name, {"spec": spec}))
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            collection.delete(old)
            self.enqueue(str(old.spec.node_name))


def _name(slice: ResourceSlice) -> str:
    return slice.name


def _chunks(devices: list[Tree]) -> list[list[Tree]]:
    """The devices of each slice; a driver without devices publishes an empty one."""
    return [devices[at : at + MOST_IN_SLICE] for at in range(0, len(devices), MOST_IN_SLICE)] or [[]]


def _paired(chunks: list[list[Tree]], current: list[list[Device]]) -> list[tuple[list[Tree], list[Device]]]:
    return [(chunk, current[at] if at < len(current) else []) for at, chunk in enumerate(chunks)]


def _devices(chunk: list[Tree], published: list[Device]) -> list[Device]:
    """The devices as the API server shows them: taints without a time have that of the published ones."""
    devices = msgspec.convert(chunk, list[Device])
    times = {
        (device.name, taint.key, taint.value, taint.effect): taint.time_added
        for device in published
        for taint in device.taints
    }
    return [
        msgspec.structs.replace(
            device,
            taints=[
                msgspec.structs.replace(
                    taint,
                    time_added=taint.time_added
                    or times.get((device.name, taint.key, taint.value, taint.effect)),
                )
                for taint in device.taints
            ],
        )
        if device.taints
        else device
        for device in devices
    ]


def _slice(node: Node, driver: str, pool: Tree, devices: list[Tree]) -> Tree:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}
    return {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": "ResourceSlice",
        "metadata": {"generateName": f"{node.name}-{driver}-", "ownerReferences": [owner]},
        "spec": {"driver": driver, "nodeName": node.name, "pool": pool, "devices": devices},
    }
