"""Record the answers of a real API server, one file of data/ for each set of scenes, or some of them:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.record_writes [writes | devices | networking]
"""

from __future__ import annotations

import subprocess
import sys

from tests.live.control_plane import ControlPlane
from tests.sandbox.apiserver.recorder import real_server, record
from tests.sandbox.apiserver.write_replay import FILES, making_namespace, normal, recording, scenes


class TaintingControlPlane(ControlPlane):
    """New nodes are tainted, as they are by default."""

    def _spawn(self, name: str, *args: str) -> subprocess.Popen[bytes]:
        return super()._spawn(name, *(arg.replace(",TaintNodesByCondition", "") for arg in args))


if __name__ == "__main__":
    with real_server(TaintingControlPlane) as server:
        for file in sys.argv[1:] or FILES:
            record(server, scenes(file), making_namespace, normal, recording(file))
