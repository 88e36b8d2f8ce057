"""Devices in the form that plugins of users see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.api.devices import DeviceResult, ResourceClaim
from mooring.framework.cycle_state import CycleState
from mooring.framework.devices import NodeDevice
from mooring.framework.nodes import NodeInfo
from mooring.framework.pod import PodInfo
from mooring.plugins.dynamic_resources.inventory import DeviceId, DeviceInfo
from mooring.plugins.dynamic_resources.manager import DeviceManager
from mooring.plugins.dynamic_resources.pod_claims import CLAIMS
from mooring.runtime.engine_handle import EngineHandle


class DeviceView:
    """The devices of a scheduler's cluster."""

    def __init__(self, handle: EngineHandle) -> None:
        self._handle = handle
        self._manager = DeviceManager.of(handle)

    def on_node(self, node: NodeInfo) -> Sequence[NodeDevice]:
        self._manager.refresh()
        return [self._shown(each) for each in self._manager.inventory.of(node).devices]

    def allocated(self, pod: PodInfo) -> Mapping[str, Sequence[NodeDevice]]:
        self._manager.refresh()
        names = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        devices: dict[str, Sequence[NodeDevice]] = {}
        for entry in pod.spec.resource_claims:
            name = entry.resource_claim_name or names.get(entry.name)
            claim = None if name is None else self._manager.tracker.get(name, pod.namespace)
            if claim is not None and claim.allocation is not None:
                devices[entry.name] = self._results(claim)
        return devices

    def chosen(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Sequence[NodeDevice]:
        claims = state.get(CLAIMS)
        row = self._handle.snapshot.nodes.index(node.name)
        if claims is None or row is None:
            return []
        devices = [
            device
            for claim in claims.claims
            if claim.allocation is not None
            for device in self._results(claim)
        ]
        offer = claims.offer(row) if claims.offers else None
        if offer is not None and offer.planned is not None and offer.verdicts is not None:
            solution = offer.verdicts.solution(row, node, offer.planned)
            chosen_devices = () if solution is None else solution.devices
            devices += [self._shown(each.device) for group in chosen_devices for each in group]
        return devices

    def _results(self, claim: ResourceClaim) -> list[NodeDevice]:
        results: Sequence[DeviceResult] = [] if claim.allocation is None else claim.allocation.devices.results
        return [self._result(result, claim.key) for result in results]

    def _result(self, result: DeviceResult, claim: str) -> NodeDevice:
        device_id = (result.driver, result.pool, result.device)
        info = self._manager.inventory.device(device_id)
        return NodeDevice(*device_id, {}, {}, claim) if info is None else self._shown(info, claim)

    def _shown(self, info: DeviceInfo, claim: str = "") -> NodeDevice:
        attributes = {
            name: each.value[1] for name, each in info.device.attributes.items() if each.value is not None
        }
        capacity = {name: str(each.value) for name, each in info.device.capacity.items()}
        return NodeDevice(*info.id, attributes, capacity, claim or self._holder(info.id))

    def _holder(self, device: DeviceId) -> str:
        return self._manager.tracker.holder(device)
