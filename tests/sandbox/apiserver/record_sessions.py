"""Make data/sessions.json anew, with a real API server and kubectl:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.record_sessions
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.live.control_plane import HOW_TO_GET, assets
from tests.sandbox.apiserver.kubectl import Kubectl
from tests.sandbox.apiserver.record_writes import TaintingControlPlane
from tests.sandbox.apiserver.sessions import RECORDED, play, sessions


def main() -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit(HOW_TO_GET)
    with tempfile.TemporaryDirectory() as folder:
        plane = TaintingControlPlane(binaries, Path(folder))
        try:
            plane.start()
            kubectl = Kubectl(plane.kubeconfig(), Path(folder))
            found = {name: play(kubectl, name, steps) for name, steps in sessions().items()}
        finally:
            plane.stop()
    told = {"version": kubectl.version, "shown": found}
    RECORDED.write_text(json.dumps(told, indent=1) + "\n")
    print(f"{RECORDED}: {sum(map(len, found.values()))} commands")


if __name__ == "__main__":
    main()
