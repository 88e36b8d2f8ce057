"""Scenes of resource claims with our controllers on a real API server."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest

from mooring.sandbox.controllers.device_taint_eviction import DeviceTaintEviction
from mooring.sandbox.controllers.garbage_collector import GarbageCollector
from mooring.sandbox.controllers.resource_claim import ResourceClaimController
from tests.live.control_plane import ControlPlane
from tests.sandbox.controllers.claim_scenes import SCENES, play_scene
from tests.sandbox.controllers.live import plane, play_live
from tests.sandbox.controllers.test_resource_claim import DATA

__all__ = ["plane"]


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(plane: ControlPlane, name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    controllers = (ResourceClaimController, GarbageCollector, DeviceTaintEviction)
    found = asyncio.run(play_live(plane, partial(play_scene, name), controllers))
    for page, expected in zip(found["pages"], recorded["pages"], strict=True):
        assert page == expected, f"after: {expected['after']}"
    assert found["events"] == recorded["events"]
