"""Quotas, compared with what kube-apiserver and kube-controller-manager were seen to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.replica_set import ReplicaSetController
from mooring.controllers.resource_quota import ResourceQuotaController
from tests.controllers.kit import play
from tests.controllers.quota_scenes import SCENES, play_scene

DATA = Path(__file__).parent / "data"
CONTROLLERS = (ResourceQuotaController, ReplicaSetController, GarbageCollector)


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    found = play(lambda stage: play_scene(name, stage), *CONTROLLERS)
    for page, expected in zip(found["pages"], recorded["pages"], strict=True):
        assert page == expected, f"after: {expected['after']}"
