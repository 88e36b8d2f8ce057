"""Make data/writes.json anew, with a real API server:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.record_writes
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets
from tests.sandbox.apiserver.patch_replay import Step
from tests.sandbox.apiserver.record_patches import Real, write
from tests.sandbox.apiserver.write_replay import PAUSE, RECORDED, making_namespace, normal, scenes


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
            answers = {scene: _record(server, scene, steps) for scene, steps in scenes().items()}
        finally:
            plane.stop()
    write(answers, RECORDED)
    print(f"{RECORDED}: {sum(map(len, answers.values()))} answers")


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
