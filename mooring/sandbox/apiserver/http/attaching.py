"""Clients that attach to containers: they see what is printed, and enter what is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mooring.sandbox.apiserver.context.evaluations import Evaluator
from mooring.sandbox.apiserver.http.channels import STDERR, STDOUT, Channels, open_channels
from mooring.sandbox.apiserver.http.remote_command import Session
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.verbs.request import AttachAnswer
from mooring.sandbox.programs.executing import ContainerRun, NotRunningError
from mooring.serving.exchange import Exchange

_POLL: Final = 0.5  # seconds between two looks at a container
_MOST_AT_ONCE: Final = 64 * 1024  # bytes that are entered together
_REST: Final = 20
"""How many times as long as the evaluation of its input a client waits: it takes at most 5 % of the time."""
_SUCCESS: Final[Tree] = {"metadata": {}, "status": "Success"}


async def serve_attachment(
    exchange: Exchange, answer: AttachAnswer, clock: Callable[[], float], evaluator: Evaluator
) -> None:
    """Attach a client to a container. Raises ApiError if that is rejected before the connection is
    upgraded."""
    channels = await open_channels(exchange, answer.shell.streams)
    await _Attachment(channels, answer, clock, evaluator).run()


class _Attachment(Session):
    """One client that is attached to a container."""

    def __init__(
        self, channels: Channels, answer: AttachAnswer, clock: Callable[[], float], evaluator: Evaluator
    ) -> None:
        super().__init__(channels, answer.shell, clock, evaluator)
        self._container = answer
        self._loop = asyncio.get_running_loop()
        self._run: ContainerRun | None = None  # the one that the client is attached to

    async def run(self) -> None:
        """Connect the client to the container until one of them ends."""
        await self._open()
        if self._container.is_shell:
            exit_code = await self._talk()
            if exit_code is not None:
                self._container.end(exit_code)
        else:
            await self._stream()
        await self._finish(_SUCCESS)

    async def _stream(self) -> None:
        sent = self._clock()
        while not self._channels.is_closed and self._follow():
            sent = await self._send_output(sent)
            if not await self._enter_all():
                break
        await self._send_output(sent)

    def _follow(self) -> bool:
        """Look how the run goes that the client is attached to; return False once it has ended, whether or
        not the container was started again."""
        try:
            run = self._container.follow()
        except NotRunningError:
            return False
        if self._run is not None and run.started != self._run.started:
            return False
        self._run = run
        return True

    async def _send_output(self, after: float) -> float:
        """Send what the container has printed since a time; return the time until which it is sent."""
        until, streams, run = self._clock(), self._answer.streams, self._run
        if run is None:
            return until
        for number, (at, text) in enumerate(run.outcome.output):
            if after < run.started + at <= until:
                channel = STDERR if number in run.outcome.errors and not streams.tty else STDOUT
                if streams.stderr if channel == STDERR else streams.stdout:
                    await self._send(channel, text.replace("\n", "\r\n") if streams.tty else text)
        return until

    async def _enter_all(self) -> bool:
        """Wait for input and pass on what there is; return whether the client stays attached.

        How the container goes on is evaluated from its start for each input, so a client that enters much
        waits."""
        parts, is_end, size, seconds = list[bytes](), False, 0, _POLL
        while not is_end and size < _MOST_AT_ONCE:
            message = await self._channels.receive(seconds)
            if message is None:
                break
            is_end = message.is_end
            parts.append(message.data)
            size += len(message.data) + 1
            seconds = 0
        text = b"".join(parts).decode(errors="surrogateescape")
        try:
            took = await self._evaluator.run(lambda: self._enter(text, is_end=is_end))
        except NotRunningError:
            return False
        await asyncio.sleep(_REST * took)
        return not is_end or self._container.is_closed_by_client

    def _enter(self, text: str, *, is_end: bool) -> float:
        """Pass on input, and return how many seconds its evaluation took. Raises NotRunningError."""
        began = self._loop.time()
        if text:
            self._container.enter(text)
        if is_end and self._container.is_closed_by_client:
            self._container.enter(None)
        self._follow()
        return self._loop.time() - began
