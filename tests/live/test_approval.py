"""A plugin that holds pods in permit observes an approval by annotation on a real API server."""

from __future__ import annotations

from pathlib import Path

from tests.live.accounts import Account
from tests.live.replica import Replica, configuration
from tests.live.scene import Scene

SCHEDULER = "mooring-approval"
PLUGIN = Path(__file__).parents[2] / "examples" / "cookbook" / "wait_for_approval.py"


def test_a_pod_is_bound_once_it_is_approved(scene: Scene) -> None:
    scene.scheduler_name = SCHEDULER
    node = scene.node("a")
    config = configuration(Account(scene, "approver").kubeconfig, SCHEDULER)
    config["profiles"][0]["plugins"] = {"multiPoint": {"enabled": [{"name": "WaitForApproval"}]}}
    with Replica(scene.cluster.folder, config, f"--plugin={PLUGIN}:WaitForApproval") as replica:
        replica.ready()
        scene.pod("held", labels={"approval": "required"})
        scene.pod("web")
        assert scene.bound("web") == [node]
        assert scene.node_of("held") == ""
        patch = {"metadata": {"annotations": {"example.com/approved": "true"}}}
        scene.api.patch(f"{scene.pods_path}/held", patch)
        assert scene.bound("held") == [node]
        assert replica.end() == 0
