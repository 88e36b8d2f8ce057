"""Clients that enter as much as they can into a container."""

from __future__ import annotations

import asyncio

from wsproto.events import BytesMessage

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.evaluations import Evaluations, Evaluator
from mooring.sandbox.apiserver.http.attaching import serve_attachment
from mooring.sandbox.apiserver.verbs.request import AttachAnswer, CommandAnswer, Streams
from mooring.sandbox.programs.executing import ContainerRun
from mooring.sandbox.programs.program import Outcome
from mooring.serving.exchange import Exchange
from mooring.serving.messages import Answer
from tests.serving.websocket_kit import Client, served

MANY = 4000


class Container:
    """Notes what is entered, and how often. With `restarts`, it ends with its input, and starts again."""

    def __init__(self, *, restarts: bool = False) -> None:
        self.entered: list[str | None] = []
        self._restarts = restarts

    def _follow(self) -> ContainerRun:
        ends = self._restarts and None in self.entered
        return ContainerRun(self.entered.index(None) + 1.0 if ends else 0.0, Outcome(None))

    async def answer(self, exchange: Exchange) -> None:
        streams = Streams(stdin=True, stdout=True, stderr=False, tty=False)
        unknown = ApiError(400, "BadRequest", "unknown")
        shell = CommandAnswer(
            lambda *_: None, lambda: lambda _: None, lambda: True, unknown, ["cat"], streams
        )
        answer = AttachAnswer(
            shell, self._follow, self.entered.append, lambda _: None,
            is_shell=False, is_closed_by_client=True,
        )  # fmt: skip
        evaluator = Evaluator(Evaluations(), "alice")
        await serve_attachment(exchange, answer, asyncio.get_running_loop().time, evaluator)

    def error(self, code: int, message: str) -> Answer:
        return Answer(code, message.encode(), "text/plain")


def test_messages_that_come_together_are_entered_together() -> None:
    container = Container()

    async def scene(client: Client) -> None:
        await client.ask(Sec_WebSocket_Protocol="v5.channel.k8s.io")
        client.send(*[BytesMessage(b"\0a\n")] * MANY, BytesMessage(b"\xff\0"))
        while None not in container.entered:
            await asyncio.sleep(0.01)

    served(container, scene)
    *texts, end = container.entered
    assert end is None
    assert "".join(text for text in texts if text) == "a\n" * MANY
    assert len(texts) < MANY / 10


def test_a_client_is_attached_to_one_run_of_a_container() -> None:
    async def scene(client: Client) -> None:
        await client.ask(Sec_WebSocket_Protocol="v5.channel.k8s.io")
        client.send(BytesMessage(b"\0a\n"), BytesMessage(b"\xff\0"))
        assert await client.text() == b"\1"
        assert b'"Success"' in await client.text()

    served(Container(restarts=True), scene)
