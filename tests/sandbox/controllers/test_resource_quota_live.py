"""Scenes of quotas with our controllers on a real API server, which admits by what we count."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest

from tests.live.control_plane import ControlPlane
from tests.sandbox.controllers.live import plane, play_live
from tests.sandbox.controllers.quota_scenes import SCENES, play_scene
from tests.sandbox.controllers.test_resource_quota import CONTROLLERS, DATA

__all__ = ["plane"]


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(plane: ControlPlane, name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    found = asyncio.run(play_live(plane, partial(play_scene, name), CONTROLLERS))
    for page, expected in zip(found["pages"], recorded["pages"], strict=True):
        assert page == expected, f"after: {expected['after']}"
