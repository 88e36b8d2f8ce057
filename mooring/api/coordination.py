"""Leases: who holds what, of the API group coordination.k8s.io."""

from __future__ import annotations

import msgspec

from mooring.api.meta import KubeObject, Value


class LeaseSpec(Value, frozen=True):
    """All fields there are, since a lease is written back whole."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(KubeObject):
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)
