"""Patches, applies and managedFields as a real API server has them: the same requests, the same answers."""

from __future__ import annotations

import json

import pytest

from tests.sandbox.apiserver.patch_replay import Embedded, Normal, merge_difference, recorded, scenes

SCENES = scenes()


@pytest.mark.parametrize("name", SCENES)
def test_the_answers_are_those_of_a_real_server(name: str) -> None:
    server, normal = Embedded(), Normal()
    for index, (step, expected) in enumerate(zip(SCENES[name], recorded()[name], strict=True)):
        answer = json.loads(json.dumps(normal(server.ask(step))))
        assert answer == expected, (
            f"step {index}: {step.method} {step.path} {step.body!r}: "
            f"differs in {merge_difference(expected[1], answer[1])}"
        )
