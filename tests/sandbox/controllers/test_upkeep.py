"""What keeps a cluster in order, compared with what kube-controller-manager was seen to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.sandbox.apiserver.bootstrap import bootstrap_roles
from mooring.sandbox.controllers.deployment import DeploymentController
from mooring.sandbox.controllers.disruption import DisruptionController
from mooring.sandbox.controllers.garbage_collector import GarbageCollector
from mooring.sandbox.controllers.namespace import NamespaceController
from mooring.sandbox.controllers.node_lifecycle import NodeLifecycle
from mooring.sandbox.controllers.pod_gc import PodGC
from mooring.sandbox.controllers.replica_set import ReplicaSetController
from mooring.sandbox.controllers.role_aggregation import RoleAggregation
from mooring.sandbox.controllers.taint_eviction import TaintEviction
from mooring.sandbox.controllers.volume_binder import VolumeBinder
from mooring.sandbox.controllers.volume_protection import VolumeProtection
from tests.sandbox.controllers.kit import Embedded, Tree, play
from tests.sandbox.controllers.upkeep_scenes import SCENES, play_scene

DATA = Path(__file__).parent / "data"
CONTROLLERS = (
    DeploymentController,
    ReplicaSetController,
    GarbageCollector,
    NamespaceController,
    DisruptionController,
    NodeLifecycle,
    TaintEviction,
    PodGC,
    VolumeBinder,
    VolumeProtection,
    RoleAggregation,
)


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())

    async def scene(stage: Embedded) -> Tree:
        bootstrap_roles(stage.server.api)
        return await play_scene(name, stage)

    found = play(scene, *CONTROLLERS)
    for page, expected in zip(found["pages"], recorded["pages"], strict=True):
        assert page == expected, f"after: {expected['after']}"
    assert found["events"] == recorded["events"]
