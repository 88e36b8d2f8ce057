"""Record the answers of a real API server that calls webhooks, data/webhooks.json:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.record_webhooks
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets
from tests.sandbox.apiserver.record_patches import Real, write
from tests.sandbox.apiserver.webhook_kit import RECORDED, namespace_of, normal, scenes, step, webhook_server


def main() -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit(HOW_TO_GET)
    with tempfile.TemporaryDirectory() as folder, webhook_server() as webhooks:
        plane = ControlPlane(binaries, Path(folder))
        try:
            plane.start()
            server = Real(plane.server, plane.token)
            asked = scenes(webhooks)
            for scene in asked:
                server.ask(step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace_of(scene)}}))
            created = {scene: normal(server.ask(steps[0])) for scene, steps in asked.items()}
            time.sleep(3)  # until it knows the webhooks
            answers = {
                scene: [created[scene], *(normal(server.ask(one)) for one in steps[1:])]
                for scene, steps in asked.items()
            }
            write(answers, RECORDED)
            print(f"{RECORDED}: {sum(map(len, answers.values()))} answers")
        finally:
            plane.stop()


if __name__ == "__main__":
    main()
