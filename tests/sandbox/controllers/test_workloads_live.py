"""Scenes of StatefulSets, DaemonSets and Jobs with our controllers on a real API server."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from mooring.sandbox.controllers.daemon_set import DaemonSetController
from mooring.sandbox.controllers.job import JobController, OrphanedJobPods
from mooring.sandbox.controllers.stateful_set import StatefulSetController
from tests.live.control_plane import ControlPlane
from tests.sandbox.controllers import daemon_scenes, job_scenes, stateful_scenes
from tests.sandbox.controllers.live import plane, play_live

__all__ = ["plane"]

DATA = Path(__file__).parent / "data"
CONTROLLERS = (StatefulSetController, DaemonSetController, JobController, OrphanedJobPods)
SCENES = {
    "stateful_retention": stateful_scenes.play_scene,
    "daemon_surge": daemon_scenes.play_scene,
    "job_completions": job_scenes.play_scene,
}


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(plane: ControlPlane, name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    found = asyncio.run(play_live(plane, partial(SCENES[name], name), CONTROLLERS))
    for page, expected in zip(found["pages"], recorded["pages"], strict=True):
        assert page == expected, f"after: {expected['after']}"
    assert found["events"] == recorded["events"]
