"""Scenes of garbage collection, budgets and volumes with our controllers on a real API server."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest

from tests.live.control_plane import ControlPlane
from tests.sandbox.controllers.live import plane, play_live
from tests.sandbox.controllers.test_upkeep import CONTROLLERS, DATA
from tests.sandbox.controllers.upkeep_scenes import play_scene

__all__ = ["plane"]

SCENES = ("gc_owners", "gc_deployment", "budgets", "volumes_static", "role_aggregation")


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(plane: ControlPlane, name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    found = asyncio.run(play_live(plane, partial(play_scene, name), CONTROLLERS))
    for page, expected in zip(found["pages"], recorded["pages"], strict=True):
        assert page == expected, f"after: {expected['after']}"
    assert found["events"] == recorded["events"]
