"""Many pods at once, and the API server's own record of how they were bound."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.live.control_plane import Binding, ControlPlane
from tests.live.replica import configuration, wait_for
from tests.live.scene import Scene, names


class Backlog:
    """So many pods of a scene, and two nodes for them."""

    def __init__(self, scene: Scene, plane: ControlPlane, count: int) -> None:
        self.scene = scene
        self.count = count
        self._plane = plane
        for name in "ab":
            scene.node(name)

    def fill(self) -> None:
        for name in names("pod", self.count):
            self.scene.pod(name, cpu="1m")

    def bindings(self) -> list[Binding]:
        """Those that succeeded, in their order."""
        return [b for b in self._plane.bindings(self.scene.namespace) if b.code == 201]

    def under_way(self, least: int) -> None:
        """Wait until some are bound, while others are not."""
        wait_for(lambda: len(self.bindings()) >= least, f"{least} pods are bound")
        assert len(self.bindings()) < self.count, "too quick for this test"

    def drained(self, *, told: bool = True) -> None:
        """Wait until all are bound; and none of them was bound twice, or `told` to be unscheduled after."""
        pods = self.scene.all_bound()
        assert len(pods) == self.count
        where = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}
        bindings = self.bindings()
        twice = [name for name, times in Counter(b.pod for b in bindings).items() if times > 1]
        assert twice == []
        assert [b for b in bindings if where.get(b.pod, b.node) != b.node] == []
        unsure = [pod["metadata"]["name"] for pod in pods if told and not _told_bound(pod)]
        assert unsure == [], "bound, and said not to be scheduled"


def _told_bound(pod: dict[str, Any]) -> bool:
    return any(c["type"] == "PodScheduled" and c["status"] == "True" for c in pod["status"]["conditions"])


def paced(kubeconfig: Path, name: str, qps: int) -> dict[str, Any]:
    """A configuration that makes so many requests a second, so that something can happen in the middle."""
    config = configuration(kubeconfig, name)
    config["clientConnection"] |= {"qps": qps, "burst": 10}
    return config
