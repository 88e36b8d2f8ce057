"""Defaults, validation and admission as a real API server has them: the same requests, the same answers."""

from __future__ import annotations

import json

import pytest

from tests.sandbox.apiserver.kit import USER
from tests.sandbox.apiserver.patch_replay import Embedded, merge_difference, recorded
from tests.sandbox.apiserver.write_replay import FILES, PAUSE, all_scenes, making_namespace, normal, recording

SCENES = all_scenes()
ANSWERS = {name: answers for file in FILES for name, answers in recorded(recording(file)).items()}


@pytest.mark.parametrize("scene", SCENES)
def test_the_answers_are_those_of_a_real_server(scene: str) -> None:
    server = Embedded(USER)
    server.ask(making_namespace(scene))
    asked = [step for step in SCENES[scene] if step.method != PAUSE]
    different = []
    for step, expected in zip(asked, ANSWERS[scene], strict=True):
        given = normal(server.ask(step))
        if given != expected:
            told = json.dumps(merge_difference(expected[1], given[1]))
            different.append(f"{step.method} {step.path} {step.body!r}: {expected[0]} → {given[0]} {told}")
    assert not different, "\n".join(different)
