"""Records what the real kube-controller-manager does in our scenes.

    python -m tests.sandbox.controllers.record [SCENE…]

Needs KUBEBUILDER_ASSETS with etcd, kube-apiserver and kube-controller-manager. Tests compare our controllers
with what is under data/. A module with scenes has `SCENES`, their functions by name, and `play_scene`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from mooring.client.api_server import ApiServer
from mooring.client.credentials import load_credentials
from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets
from tests.sandbox.controllers import (
    claim_scenes,
    cron_scenes,
    daemon_scenes,
    deployment_scenes,
    job_scenes,
    quota_scenes,
    stateful_scenes,
    upkeep_scenes,
)
from tests.sandbox.controllers.kit import CORE_EVENTS, Stage, Tree, resource, workload

DATA = Path(__file__).parent / "data"
WATCHED = (
    "deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "pods", "configmaps",
    "poddisruptionbudgets", "persistentvolumes", "persistentvolumeclaims", "resourcequotas",
    "clusterroles", "resourceclaims",
)  # fmt: skip
QUIET = 1.0  # seconds without a change, after which nothing is expected to happen by itself
PATIENCE = 60.0

MODULES: dict[ModuleType, tuple[str, ...]] = {
    deployment_scenes: ("deployment-controller",),
    stateful_scenes: ("statefulset-controller",),
    daemon_scenes: ("daemonset-controller",),
    job_scenes: ("job-controller", "ttl-after-finished-controller"),
    cron_scenes: ("cronjob-controller", "job-controller"),
    quota_scenes: ("resourcequota-controller",),
    claim_scenes: (
        "resourceclaim-controller",
        "garbage-collector-controller",
        "device-taint-eviction-controller",
    ),
    upkeep_scenes: (
        "deployment-controller",
        "garbage-collector-controller",
        "namespace-controller",
        "disruption-controller",
        "node-lifecycle-controller",
        "taint-eviction-controller",
        "pod-garbage-collector-controller",
        "persistentvolume-binder-controller",
        "persistentvolume-protection-controller",
        "persistentvolumeclaim-protection-controller",
        "clusterrole-aggregation-controller",
    ),
}
"""Which controllers are to run for the scenes of a module, besides that of ReplicaSets."""


class Real(Stage):
    """A stage in real time: an API server over HTTP and whatever controllers run on it."""

    async def rest(self) -> None:
        deadline = time.monotonic() + PATIENCE
        seen, since = await self._look(), time.monotonic()
        while time.monotonic() < since + QUIET:
            await asyncio.sleep(QUIET / 10)
            found = await self._look()
            if found != seen:
                seen, since = found, time.monotonic()
            if since > deadline:
                raise TimeoutError(f"something still changes in namespace {self.namespace}")

    async def _look(self) -> list[str]:
        kinds: list[Any] = [*map(resource, WATCHED), CORE_EVENTS]
        pages = [await self.cluster.list(kind, namespace=self.namespace) for kind in kinds]
        return [item.metadata.resource_version for page in pages for item in page.items]


async def record(plane: ControlPlane, module: ModuleType, name: str) -> Tree:
    cluster = ApiServer(load_credentials(str(plane.kubeconfig())), qps=-1)
    try:
        recorded: Tree = await module.play_scene(name, Real(cluster, time.time))
        return recorded
    finally:
        await cluster.close()


async def wait_for_controllers(plane: ControlPlane) -> None:
    """They take a while to start."""
    cluster = ApiServer(load_credentials(str(plane.kubeconfig())), qps=-1)
    stage = Real(cluster, time.time)
    try:
        await stage.create(workload("ReplicaSet", "first", replicas=1))
        deadline = time.monotonic() + PATIENCE
        while not await stage.all("pods"):
            if time.monotonic() > deadline:
                raise TimeoutError("kube-controller-manager creates no pod for a ReplicaSet; see its log")
            await asyncio.sleep(0.1)
        await stage.advance(2 * QUIET)
    finally:
        await cluster.close()


def main(wanted: list[str]) -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit(HOW_TO_GET)
    for module, controllers in MODULES.items():
        names = [name for name in module.SCENES if not wanted or name in wanted]
        if not names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            plane = ControlPlane(binaries, Path(folder))
            plane.start()
            try:
                plane.start_controller_manager("replicaset-controller", *controllers)
                asyncio.run(wait_for_controllers(plane))
                for name in names:
                    found = asyncio.run(record(plane, module, name))
                    path = DATA / f"{name}.json"
                    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
                    print(f"{path.name}: {len(found['pages'])} pages", flush=True)
            finally:
                plane.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
