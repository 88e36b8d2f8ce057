"""What the recorders of answers share: a real API server, asked scene by scene."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets
from tests.sandbox.apiserver.patch_replay import Answer, Step
from tests.sandbox.apiserver.record_patches import Real, write

Scenes = Mapping[str, list[Step]]


@contextmanager
def real_server(plane_type: type[ControlPlane] = ControlPlane) -> Iterator[Real]:
    """A real API server, for as long as the block."""
    binaries = assets()
    if binaries is None:
        raise SystemExit(HOW_TO_GET)
    with tempfile.TemporaryDirectory() as folder:
        plane = plane_type(binaries, Path(folder))
        try:
            plane.start()
            yield Real(plane.server, plane.token)
        finally:
            plane.stop()


def record(
    server: Real,
    scenes: Scenes,
    making_namespace: Callable[[str], Step],
    normal: Callable[[Answer], list[object]],
    path: Path,
) -> None:
    """Ask everything, each scene in its own namespace, and keep the answers in a file."""
    answers = {
        scene: _record(server, making_namespace(scene), steps, normal) for scene, steps in scenes.items()
    }
    write(answers, path)
    print(f"{path}: {sum(map(len, answers.values()))} answers")


def _record(
    server: Real, namespace: Step, steps: list[Step], normal: Callable[[Answer], list[object]]
) -> list[list[object]]:
    server.ask(namespace)
    answers = []
    for step in steps:
        if step.method == "PAUSE":  # until what the server remembers of other objects is up to date
            time.sleep(3)
        else:
            answers.append(normal(server.ask(step)))
    return answers
