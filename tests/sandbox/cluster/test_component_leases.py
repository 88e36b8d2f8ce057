"""The Leases by which clients find the leaders of the components."""

from __future__ import annotations

from typing import Any

from mooring.client.controller import Context
from mooring.sandbox.cluster.component_leases import CONTROLLERS, ComponentLeases
from mooring.testing.sandbox_cluster import SandboxCluster


def make(context: Context) -> ComponentLeases:
    leases = ComponentLeases(context)
    leases.enqueue(CONTROLLERS)
    return leases


def test_a_component_renews_its_lease_and_a_new_one_takes_it_over() -> None:
    with SandboxCluster(nodes=0) as cluster:

        def lease() -> Any:
            return cluster.get(f"lease/{CONTROLLERS}", namespace="kube-system")["spec"]

        cluster.begin(make)
        cluster.advance(1)
        first = lease()
        assert first["leaseDurationSeconds"] == 15
        assert first["acquireTime"] == first["renewTime"]
        cluster.advance(10)
        assert lease() == {**first, "renewTime": lease()["renewTime"]}
        assert lease()["renewTime"] > first["renewTime"]
        notes = [event.note for event in cluster.events(namespace="kube-system")]
        assert notes == [f"{first['holderIdentity']} became leader"]

        cluster.begin(make)  # as after a restart
        cluster.advance(0.1)
        assert lease()["leaseTransitions"] == 1
        assert lease()["holderIdentity"] != first["holderIdentity"]
