"""Clients that send as much as they can to commands in containers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from wsproto.events import BytesMessage

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.evaluations import Evaluations, Evaluator
from mooring.sandbox.apiserver.http.remote_command import serve_command
from mooring.sandbox.apiserver.verbs.request import CommandAnswer, Streams
from mooring.sandbox.programs.program import Outcome
from mooring.serving.exchange import Exchange
from mooring.serving.messages import Answer
from tests.serving.websocket_kit import Client, served

STDIN, CLOSE_STDIN = b"\0", b"\xff\0"


class Shells:
    """Executes `sh`; notes what is run and how often the loop turned meanwhile. A script is known once it
    contains "known"."""

    def __init__(self, *, tty: bool) -> None:
        self._tty = tty
        self.scripts: list[str] = []
        self.looks = 0
        self.lines: list[str] = []
        self.turns = 0
        self.most_in_turn = 0  # lines that were run in one turn of the loop
        self._in_turn = 0
        self._evaluations = Evaluations()

    async def answer(self, exchange: Exchange) -> None:
        streams = Streams(stdin=True, stdout=True, stderr=not self._tty, tty=self._tty)
        unknown = ApiError(400, "BadRequest", "unknown")
        answer = CommandAnswer(self._run, lambda: self._run_line, lambda: True, unknown, ["sh"], streams)
        beat = asyncio.create_task(self._beat())
        evaluator = Evaluator(self._evaluations, "alice")
        await serve_command(exchange, answer, asyncio.get_running_loop().time, evaluator)
        beat.cancel()

    async def _beat(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    def _run(self, stdin: str | None, is_dry: bool) -> Outcome | None:
        if stdin is None:
            return None
        if is_dry:
            self.looks += 1
        else:
            self.scripts.append(stdin)
        return Outcome(0.0) if "known" in stdin else None

    def _run_line(self, line: str) -> Outcome | None:
        self.lines.append(line)
        self._in_turn += 1
        self.most_in_turn = max(self.most_in_turn, self._in_turn)
        asyncio.get_running_loop().call_soon(self._begin_turn)
        return Outcome(0.0)

    def _begin_turn(self) -> None:
        self._in_turn = 0

    def error(self, code: int, message: str) -> Answer:
        return Answer(code, message.encode(), "text/plain")


async def converse(client: Client, *messages: bytes) -> None:
    await client.ask(Sec_WebSocket_Protocol="v5.channel.k8s.io")
    client.send(*map(BytesMessage, messages))
    while not (await client.text()).startswith(b"\x03"):
        pass


def test_the_end_of_a_script_is_not_looked_for_without_end() -> None:
    shells = Shells(tty=False)

    async def scene(client: Client) -> None:
        await converse(client, STDIN + b"if true; then\nexit\n", *[STDIN + b":\n"] * 2000, CLOSE_STDIN)

    served(shells, scene)
    assert shells.scripts == ["if true; then\nexit\n" + ":\n" * 2000]
    assert shells.looks == 100


@pytest.mark.parametrize("send", [lambda script: [script], lambda script: [bytes([b]) for b in script]])
def test_a_script_ends_where_it_leaves_its_shell(send: Callable[[bytes], Any]) -> None:
    shells = Shells(tty=False)
    script = b"echo a\nif false; then\nexit 1\nfi\n: known\n"

    async def scene(client: Client) -> None:
        await converse(client, *(STDIN + part for part in send(script)))

    served(shells, scene)
    assert shells.scripts == [script.decode()]


def test_others_have_their_turn_between_the_lines_of_a_terminal() -> None:
    shells = Shells(tty=True)

    async def scene(client: Client) -> None:
        await converse(client, STDIN + b"ls\n" * 3000 + b"\x04")

    served(shells, scene)
    assert shells.lines == ["ls"] * 3000
    assert shells.turns >= 3000


def test_lines_of_many_terminals_are_run_in_turns_of_their_own() -> None:
    shells = Shells(tty=True)

    async def scene(client: Client) -> None:
        host, port = client.writer.get_extra_info("peername")
        others = [Client(*await asyncio.open_connection(host, port)) for _ in range(9)]
        keys = STDIN + b"ls\n" * 20 + b"\x04"
        await asyncio.gather(*(converse(one, keys) for one in (client, *others)))
        for one in others:
            one.writer.close()

    served(shells, scene)
    assert len(shells.lines) == 200
    assert shells.most_in_turn == 1
