"""Admission policies as a real API server runs them: the same policies, the same answers, byte for byte."""

from __future__ import annotations

import json

import pytest

from mooring.sandbox.apiserver.authorization.users import MASTERS, User
from tests.sandbox.apiserver.patch_replay import Embedded, recorded
from tests.sandbox.apiserver.policy_scenes.recorded import RECORDED, normal, scenes
from tests.sandbox.apiserver.policy_scenes.scene import PAUSE, making_namespace

SCENES = scenes()
ANSWERS = recorded(RECORDED)
_ADMIN = User("admin", (MASTERS, "system:authenticated"))


@pytest.mark.parametrize("scene", SCENES)
def test_the_answers_are_those_of_a_real_server(scene: str) -> None:
    server = Embedded(_ADMIN)
    server.ask(making_namespace(scene))
    asked = [step for step in SCENES[scene] if step is not PAUSE]
    different = []
    for step, expected in zip(asked, ANSWERS[scene], strict=True):
        answer = normal(server.ask(step))
        if answer != expected:
            sent = (step.body or b"").decode()
            different.append(
                f"{step.method} {step.path} {sent}:\n  {json.dumps(expected)}\n  {json.dumps(answer)}"
            )
    assert not different, "\n".join(different)
