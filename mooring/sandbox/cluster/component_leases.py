"""Leases of the components of a cluster, for clients that look for leaders. Nothing competes for them."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.coordination import Lease, LeaseSpec
from mooring.api.events import EventSource
from mooring.api.kinds import LEASES
from mooring.api.meta import ObjectMeta
from mooring.api.times import format_time
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.client.leader_election import new_identity

CONTROLLERS: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
_NAMESPACE: Final = "kube-system"
_DURATION: Final = 15
_RENEW_EVERY: Final = 2.0


class ComponentLeases(Controller):
    """Holds a Lease for each component that was enqueued."""

    name = "leader-election"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._identity = new_identity()
        self._held: set[str] = set()

    async def sync(self, key: str) -> None:
        lease = await self._write(key)
        if key not in self._held:
            self._held.add(key)
            regarding = lease.reference("Lease", LEASES.api_version)
            note = f"{self._identity} became leader"
            self.context.recorder.emit(regarding, "Normal", "LeaderElection", note, EventSource(key))
        self.enqueue(key, _RENEW_EVERY)

    async def _write(self, name: str) -> Lease:
        try:
            lease = await self.cluster.get(LEASES, name, _NAMESPACE)
        except ApiError as error:
            if not error.not_found:
                raise
            metadata = ObjectMeta(name=name, namespace=_NAMESPACE)
            spec = msgspec.structs.replace(self._spec(LeaseSpec()), lease_transitions=0)
            lease = Lease(api_version=LEASES.api_version, kind="Lease", metadata=metadata, spec=spec)
            return await self.cluster.create(LEASES, lease, _NAMESPACE)
        lease = msgspec.structs.replace(lease, spec=self._spec(lease.spec))
        return await self.cluster.update(LEASES, name, lease, _NAMESPACE)

    def _spec(self, old: LeaseSpec) -> LeaseSpec:
        now = format_time(self.context.clock(), micro=True)
        is_ours = old.holder_identity == self._identity
        return msgspec.structs.replace(
            old,
            holder_identity=self._identity,
            lease_duration_seconds=_DURATION,
            acquire_time=old.acquire_time if is_ours else now,
            renew_time=now,
            lease_transitions=old.lease_transitions + (not is_ours),
        )
