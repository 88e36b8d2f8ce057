"""Record the answers of a real API server, data/writes.json and data/devices.json or one of them:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.record_writes [writes | devices]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets
from tests.sandbox.apiserver.patch_replay import Step
from tests.sandbox.apiserver.record_patches import Real, write
from tests.sandbox.apiserver.write_replay import FILES, PAUSE, making_namespace, normal, recording, scenes


class TaintingControlPlane(ControlPlane):
    """New nodes are tainted, as they are by default."""

    def _spawn(self, name: str, *args: str) -> subprocess.Popen[bytes]:
        return super()._spawn(name, *(arg.replace(",TaintNodesByCondition", "") for arg in args))


def main() -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit(HOW_TO_GET)
    with tempfile.TemporaryDirectory() as folder:
        plane = TaintingControlPlane(binaries, Path(folder))
        try:
            plane.start()
            server = Real(plane.server, plane.token)
            for file in sys.argv[1:] or FILES:
                answers = {scene: _record(server, scene, steps) for scene, steps in scenes(file).items()}
                write(answers, recording(file))
                print(f"{recording(file)}: {sum(map(len, answers.values()))} answers")
        finally:
            plane.stop()


def _record(server: Real, scene: str, steps: list[Step]) -> list[list[object]]:
    server.ask(making_namespace(scene))
    answers = []
    for step in steps:
        if step.method == PAUSE:  # until what the server remembers of other objects is up to date
            time.sleep(2)
        else:
            answers.append(normal(server.ask(step)))
    return answers


if __name__ == "__main__":
    main()
