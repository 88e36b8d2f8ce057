"""Two replicas, one lease: who leads binds, and when it cannot the other does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.accounts import NAMESPACE, Account
from tests.live.backlog import Backlog, paced
from tests.live.control_plane import ControlPlane
from tests.live.cut_proxy import ProxyThread
from tests.live.replica import LEADS, Replica
from tests.live.scene import Scene

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/mooring"
BOUND = "Successfully bound"
PODS = 60
SLOWLY, QUICKLY = 10, 200  # requests a second


def replica(scene: Scene, kubeconfig: Path, qps: int, duration: str = "5s", renew: str = "4s") -> Replica:
    """One that asks who leads, by the lease that the roles of deploy/ allow."""
    election = {
        "leaderElect": True,
        "leaseDuration": duration,
        "renewDeadline": renew,
        "retryPeriod": "500ms",
        "resourceNamespace": NAMESPACE,
        "resourceName": "mooring",
    }
    config = paced(kubeconfig, scene.scheduler_name, qps)
    return Replica(scene.cluster.folder, {**config, "leaderElection": election})


@pytest.fixture(autouse=True)
def no_lease(scene: Scene) -> Iterator[None]:
    scene.scheduler_name = "mooring-leaders"
    scene.api.delete(LEASE)
    yield
    scene.api.delete(LEASE)


@pytest.fixture
def backlog(scene: Scene, control_plane: ControlPlane) -> Backlog:
    return Backlog(scene, control_plane, PODS)


def test_a_killed_leader_is_replaced(scene: Scene, backlog: Backlog, kubeconfig: Path) -> None:
    with replica(scene, kubeconfig, SLOWLY) as one:
        one.says(LEADS)
        with replica(scene, kubeconfig, QUICKLY) as two:
            two.ready()
            backlog.fill()
            backlog.under_way(10)
            assert two.lines(BOUND) == []
            one.kill()
            two.says(LEADS)
            backlog.drained()
            assert two.end() == 0


def test_a_leader_that_ends_hands_over_at_once(scene: Scene, backlog: Backlog, kubeconfig: Path) -> None:
    """The lease would last for an hour, were it not released."""
    with replica(scene, kubeconfig, SLOWLY, "1h", "50m") as one:
        one.says(LEADS)
        with replica(scene, kubeconfig, QUICKLY, "1h", "50m") as two:
            two.ready()
            backlog.fill()
            backlog.under_way(10)
            assert one.end() == 0
            assert len(one.lines(BOUND)) == len(backlog.bindings())  # nothing was left on its way
            two.says(LEADS)
            scene.pod("afterwards")
            backlog.count += 1
            backlog.drained()
            assert two.end() == 0
    assert "holderIdentity" not in scene.api.get(LEASE)["spec"]


def test_a_leader_cut_off_gives_up_before_another_leads(
    scene: Scene, backlog: Backlog, control_plane: ControlPlane, kubeconfig: Path
) -> None:
    with ProxyThread(control_plane.port) as proxy:
        token = scene.cluster.token("mooring", NAMESPACE)
        cut_off = scene.cluster.kubeconfig(token=token, server=proxy.server)
        with replica(scene, cut_off, SLOWLY) as one:
            one.says(LEADS)
            with replica(scene, kubeconfig, QUICKLY) as two:
                two.ready()
                backlog.fill()
                backlog.under_way(10)
                proxy.cut()
                two.says(LEADS)
                assert one.process.wait(30) == 1
                backlog.drained()
                assert _time_of(one.says("leadership lost")) < _time_of(two.says(LEADS))
                assert two.end() == 0


def test_a_leader_that_may_not_renew_stops_binding(scene: Scene, backlog: Backlog, kubeconfig: Path) -> None:
    """It could still bind: everything but the lease is within its reach."""
    account = Account(scene, "unlucky")
    with replica(scene, account.kubeconfig, SLOWLY) as one:
        one.says(LEADS)
        with replica(scene, kubeconfig, QUICKLY) as two:
            two.ready()
            backlog.fill()
            account.take_the_lease_away()
            assert one.process.wait(30) == 1
            assert len(backlog.bindings()) < PODS
            one.says("cannot get or renew lease", 'cannot update resource "leases"')
            two.says(LEADS)
            backlog.drained()
            assert two.end() == 0
    users = [binding.user for binding in backlog.bindings()]
    successor = next(user for user in users if user != account.user)
    assert account.user not in users[users.index(successor) :]


def _time_of(line: str) -> str:
    """When something was logged: klog's times sort as text."""
    return " ".join(line[1:].split()[:2])
