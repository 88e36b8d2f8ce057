"""Record the answers of a real API server about admission policies, data/policies.json:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.record_policies
"""

from __future__ import annotations

from tests.sandbox.apiserver.policy_scenes.recorded import RECORDED, normal, scenes
from tests.sandbox.apiserver.policy_scenes.scene import making_namespace
from tests.sandbox.apiserver.recorder import real_server, record

if __name__ == "__main__":
    with real_server() as server:
        record(server, scenes(), making_namespace, normal, RECORDED)
