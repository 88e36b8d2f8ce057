"""Record the answers of a real API server about admission policies, data/policies.json:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.record_policies
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets
from tests.sandbox.apiserver.patch_replay import Step
from tests.sandbox.apiserver.policy_scenes import PAUSE, RECORDED, making_namespace, normal, scenes
from tests.sandbox.apiserver.record_patches import Real, write


def main() -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit(HOW_TO_GET)
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(binaries, Path(folder))
        try:
            plane.start()
            server = Real(plane.server, plane.token)
            answers = {scene: _record(server, scene, steps) for scene, steps in scenes().items()}
            write(answers, RECORDED)
            print(f"{RECORDED}: {sum(map(len, answers.values()))} answers")
        finally:
            plane.stop()


def _record(server: Real, scene: str, steps: list[Step]) -> list[list[object]]:
    server.ask(making_namespace(scene))
    answers = []
    for step in steps:
        if step is PAUSE:
            time.sleep(3)
        else:
            answers.append(normal(server.ask(step)))
    return answers


if __name__ == "__main__":
    main()
