"""Resource claims, compared with what kube-controller-manager was seen to do."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from mooring.sandbox.controllers.device_taint_eviction import DeviceTaintEviction
from mooring.sandbox.controllers.garbage_collector import GarbageCollector
from mooring.sandbox.controllers.resource_claim import ResourceClaimController
from tests.sandbox.controllers.claim_scenes import SCENES, play_scene
from tests.sandbox.controllers.kit import play

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    found = play(partial(play_scene, name), ResourceClaimController, GarbageCollector, DeviceTaintEviction)
    for page, expected in zip(found["pages"], recorded["pages"], strict=True):
        assert page == expected, f"after: {expected['after']}"
    assert found["events"] == recorded["events"]
