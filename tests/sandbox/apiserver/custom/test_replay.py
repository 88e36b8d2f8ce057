"""The same requests, the same answers: recorded from a real API server, given by the embedded one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.sandbox.apiserver.custom.conversion_scenes import conversion_scenes
from tests.sandbox.apiserver.custom.replay import Answer, normal
from tests.sandbox.apiserver.custom.rule_scenes import RULE_SCENES
from tests.sandbox.apiserver.custom.scenes import DATA, SCENES, Step
from tests.sandbox.apiserver.kit import Running, running
from tests.sandbox.apiserver.webhook_kit import WebhookServer, webhook_server

ANSWERS: dict[str, list[Any]] = {
    scene: answers
    for file in ("answers", "conversions", "rules")
    for scene, answers in json.loads((DATA / f"{file}.json").read_text()).items()
}
ALL_SCENES = {**SCENES, **RULE_SCENES}
CONVERSION_SCENES = ("behaviours", "verbs of versions")


def ask(server: Running, step: Step) -> Answer:
    connection = server.connect(timeout=120)  # some rules cost what a write may cost at most
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


@pytest.fixture(scope="module")
def webhooks() -> Iterator[WebhookServer]:
    with webhook_server() as found:
        yield found


@pytest.mark.parametrize("scene", ALL_SCENES)
def test_it_answers_as_a_real_api_server(server: Running, scene: str) -> None:
    _compare(server, scene, ALL_SCENES[scene]())


@pytest.mark.parametrize("scene", CONVERSION_SCENES)
def test_it_converts_as_a_real_api_server(server: Running, webhooks: WebhookServer, scene: str) -> None:
    _compare(server, scene, conversion_scenes(webhooks)[scene]())


def _compare(server: Running, scene: str, all_steps: Iterable[Step]) -> None:
    steps = [step for step in all_steps if step.method != "WAIT"]
    different = []
    for step, recorded in zip(steps, ANSWERS[scene], strict=True):
        given = normal(ask(server, step))
        if given != recorded:
            different.append(f"{step.method} {step.path} {step.data!r}\n  real: {recorded}\n  this: {given}")
    assert not different, "\n".join(different)
