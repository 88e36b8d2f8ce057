"""The same requests, the same answers: recorded from a real API server, given by the embedded one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox.apiserver.custom.replay import Answer, normal
from tests.sandbox.apiserver.custom.scenes import RECORDED, SCENES, Step
from tests.sandbox.apiserver.kit import Running, running

ANSWERS: dict[str, list[Any]] = json.loads(RECORDED.read_text())


def ask(server: Running, step: Step) -> Answer:
    connection = server.connect()
    headers = server.headers(**{"Content-Type": step.content_type})
    try:
        connection.request(step.method, step.path, step.data, headers)
        reply = connection.getresponse()
        text = reply.read().decode()
    finally:
        connection.close()
    warnings = [json.loads(line.partition(" - ")[2]) for line in reply.headers.get_all("Warning") or ()]
    return Answer(reply.status, text, warnings)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as found:
        yield found


@pytest.mark.parametrize("scene", SCENES)
def test_it_answers_as_a_real_api_server(server: Running, scene: str) -> None:
    steps = [step for step in SCENES[scene]() if step.method != "WAIT"]
    different = []
    for step, recorded in zip(steps, ANSWERS[scene], strict=True):
        given = normal(ask(server, step))
        if given != recorded:
            different.append(f"{step.method} {step.path} {step.data!r}\n  real: {recorded}\n  this: {given}")
    assert not different, "\n".join(different)
