"""What a person does with the real kubectl, and what it prints, are the same as on a real API server."""

from __future__ import annotations

import pytest

from tests.sandbox.apiserver.kit import Running
from tests.sandbox.apiserver.kubectl import Kubectl, needs_kubectl
from tests.sandbox.apiserver.sessions import play, recording, sessions

pytestmark = needs_kubectl

SESSIONS, RECORDING = sessions(), recording()
LONG = ("permissions", "nodes", "rollouts", "waiting")


@pytest.fixture(scope="module")
def kubectl(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(server.server.kubeconfig, tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize(
    "session", [pytest.param(each, marks=pytest.mark.slow) if each in LONG else each for each in SESSIONS]
)
def test_a_session_goes_as_with_a_real_server(kubectl: Kubectl, session: str) -> None:
    """Another kubectl than the one that was recorded may use other words; it succeeds where that one did."""
    steps, worded = SESSIONS[session], kubectl.version == RECORDING.version
    different = []
    given = play(kubectl, session, steps)
    for step, expected, found in zip(steps, RECORDING.shown[session], given, strict=True):
        if found != expected and (worded or found.code != expected.code):
            told = (f"--- {expected.code}", expected.page, f"+++ {found.code}", found.page)
            different.append("\n".join([f"$ kubectl {step.command}", *told]))
    assert not different, "\n".join(different)
