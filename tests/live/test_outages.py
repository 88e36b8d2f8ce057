"""An API server that goes away in the middle of the work, and another scheduler at the same work."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.live.backlog import Backlog, paced
from tests.live.cluster import TestCluster
from tests.live.control_plane import ControlPlane
from tests.live.cut_proxy import ProxyThread
from tests.live.replica import Replica, configuration
from tests.live.scene import Scene

SCHEDULER = "mooring-outages"


@pytest.fixture(autouse=True)
def scheduler_name(scene: Scene) -> None:
    scene.scheduler_name = SCHEDULER


def test_an_api_server_killed_and_restarted(
    scene: Scene, control_plane: ControlPlane, kubeconfig: Path
) -> None:
    backlog = Backlog(scene, control_plane, 300)
    with Replica(scene.cluster.folder, paced(kubeconfig, SCHEDULER, 50)) as replica:
        with replica.ready().asleep():
            backlog.fill()
        backlog.under_way(40)
        control_plane.kill_api_server()
        control_plane.start_api_server()
        backlog.drained()
        scene.pod("afterwards")
        scene.bound("afterwards")
        assert replica.end() == 0


def test_connections_cut(
    scene: Scene, control_plane: ControlPlane, cluster: TestCluster, kubeconfig: Path
) -> None:
    """All of them, those of watches and of bindings on their way; what happens meanwhile is not missed."""
    backlog = Backlog(scene, control_plane, 150)
    with ProxyThread(control_plane.port) as proxy:
        broken = cluster.kubeconfig(token=cluster.token("mooring", "mooring"), server=proxy.server)
        with Replica(scene.cluster.folder, paced(broken, SCHEDULER, 50)) as replica:
            with replica.ready().asleep():
                backlog.fill()
            backlog.under_way(20)
            proxy.cut()
            replica.says("retrying")
            proxy.mend()
            backlog.drained()
            proxy.cut()
            node = scene.node("meanwhile", cpu="64")
            scene.pod("meanwhile", cpu="32")
            proxy.mend()
            assert scene.bound("meanwhile") == [node]
            assert replica.end() == 0


def test_two_schedulers_for_the_same_pods(
    scene: Scene, control_plane: ControlPlane, kubeconfig: Path
) -> None:
    """kube-scheduler takes itself for the only one, and so do we: every pod is bound by one of the two."""
    if not control_plane.has("kube-scheduler"):
        pytest.skip("needs kube-scheduler: put it beside kube-apiserver in KUBEBUILDER_ASSETS")
    backlog = Backlog(scene, control_plane, 200)
    file = scene.cluster.folder / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(configuration(control_plane.kubeconfig(), SCHEDULER)))
    with (
        control_plane.kube_scheduler(file) as other,
        Replica(scene.cluster.folder, configuration(kubeconfig, SCHEDULER)) as replica,
    ):
        with replica.ready().asleep():
            scene.pod("for-the-other")
            scene.bound("for-the-other")
            backlog.fill()
        scene.delete("for-the-other")
        backlog.drained(told=False)  # kube-scheduler tells of its failure after the other's success
        assert replica.running
        assert other.poll() is None
        users = {binding.user for binding in control_plane.bindings(scene.namespace)}
        assert len(users) == 2, "one of them did nothing"
        assert replica.end() == 0
