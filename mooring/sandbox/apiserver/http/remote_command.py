"""Commands in containers, as kubelets execute them for clients: a channel for each stream."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.evaluations import Evaluator
from mooring.sandbox.apiserver.errors import bad_request, internal, status_tree
from mooring.sandbox.apiserver.http.channels import ERROR, STDERR, STDOUT, Channels, Message, open_channels
from mooring.sandbox.apiserver.http.terminal import INTERRUPT, PROMPT, Terminal
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.verbs.request import CommandAnswer
from mooring.sandbox.programs.command_lines import is_shell
from mooring.sandbox.programs.errors import ExitError
from mooring.sandbox.programs.executing import NotRunningError
from mooring.sandbox.programs.program import Outcome
from mooring.serving.exchange import Exchange

_POLL: Final = 0.5  # seconds between two looks at a container
_KILLED, _INTERRUPTED = 137, 130
_EXIT: Final = re.compile(rb"^exit( \d+)?\n", re.MULTILINE)
_MOST_INPUT: Final = 512 * 1024  # bytes, one more for each message
_MOST_LOOKS: Final = 100  # at whether a script has come to its end
_PIECE: Final = 4096  # keys that a terminal handles in one turn
_UNKNOWN: Final = "cannot execute {!r}: containers do not run, and this command cannot be emulated\r\n"


async def serve_command(
    exchange: Exchange, answer: CommandAnswer, clock: Callable[[], float], evaluator: Evaluator
) -> None:
    """Execute a command. Raises ApiError if that is rejected before the connection is upgraded."""
    if not answer.streams.stdin and await evaluator.run(lambda: answer.run(None, True)) is None:
        raise answer.unknown
    channels = await open_channels(exchange, answer.streams)
    started, outcome = await evaluator.run(lambda: (clock(), answer.run(None, False)))
    await _Execution(channels, answer, clock, evaluator).run(outcome, started)


class Session:
    """One client that talks to a container, by its streams."""

    def __init__(
        self, channels: Channels, answer: CommandAnswer, clock: Callable[[], float], evaluator: Evaluator
    ) -> None:
        self._channels = channels
        self._evaluator = evaluator
        self._answer = answer
        self._clock = clock
        self._ahead: deque[Message] = deque()  # messages that came while a command ran
        self._ahead_bytes = 0
        self._is_interrupted = False

    async def _open(self) -> None:
        """Send an empty message: clients wait for the first one."""
        streams = self._answer.streams
        await self._send(STDOUT if streams.stdout else STDERR if streams.stderr else ERROR, "")

    async def _talk(self) -> int | None:
        """Run an interactive shell until it ends; return its exit code, None if the client has left."""
        terminal, exit_code = Terminal(), 0
        keys = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            run = self._answer.open_shell()
            await self._send(STDOUT, PROMPT)
            while not terminal.is_at_end:
                message = await self._next_message()
                if message is None:
                    return None
                if message.is_end:
                    break
                text = keys.decode(message.data)
                for start in range(0, len(text), _PIECE):
                    await self._send(STDOUT, terminal.typed(text[start : start + _PIECE]))
                    while terminal.lines:
                        exit_code = await self._run_line(run, terminal.lines.popleft())
                        await self._send(STDOUT, PROMPT)
        except ExitError as ended:
            exit_code = ended.code
        except NotRunningError:
            exit_code = _KILLED
        return exit_code

    async def _next_message(self) -> Message | None:
        if not self._ahead:
            return await self._channels.receive()
        message = self._ahead.popleft()
        self._ahead_bytes -= len(message.data) + 1
        return message

    async def _run_line(self, run: Callable[[str], Outcome | None], line: str) -> int:
        """Run a line of a shell and return its exit code. Raises ExitError and NotRunningError."""
        started, outcome = await self._evaluator.run(lambda: (self._clock(), run(line)))
        if outcome is None:
            await self._send(STDOUT, _UNKNOWN.format(line))
            return 127
        code = await self._play(outcome, started)
        if code is None:
            raise ExitError(_KILLED)
        return code

    async def _play(self, outcome: Outcome, started: float) -> int | None:
        """Send the output of a command at its times. Returns the exit code, None if the client has left."""
        streams = self._answer.streams
        self._is_interrupted = False
        for number, (at, text) in enumerate(outcome.output):
            if not await self._wait_until(started + at):
                return self._early_end()
            channel = STDERR if number in outcome.errors and not streams.tty else STDOUT
            if streams.stderr if channel == STDERR else streams.stdout:
                await self._send(channel, text.replace("\n", "\r\n") if streams.tty else text)
        end = None if outcome.run_time is None else started + outcome.run_time
        if not await self._wait_until(end):
            return self._early_end()
        return outcome.exit_code

    def _early_end(self) -> int | None:
        if self._channels.is_closed:
            return None
        return _INTERRUPTED if self._is_interrupted else _KILLED

    async def _wait_until(self, time: float | None) -> bool:
        """Wait; None is forever. Returns whether the client and the container are still there."""
        while not self._channels.is_closed:
            left = _POLL if time is None else time - self._clock()
            if left <= 0:
                return True
            message = await self._channels.receive(min(left, _POLL))
            if message is not None and self._answer.streams.tty:
                self._is_interrupted = INTERRUPT in message.data
                if self._ahead_bytes < _MOST_INPUT:  # terminals drop what is too much
                    self._ahead.append(message)
                    self._ahead_bytes += len(message.data) + 1
            if self._is_interrupted or not self._answer.is_running():
                return False
        return False

    async def _send(self, channel: int, text: str) -> None:
        await self._channels.send(channel, text.encode(errors="surrogateescape"))

    async def _finish(self, status: Tree) -> None:
        if not self._channels.reports_text:
            await self._send(ERROR, encode_json(status).decode())
        elif status["status"] != "Success":
            await self._send(ERROR, status["message"])
        await self._channels.close()


class _Execution(Session):
    """One command and the streams of its client."""

    async def run(self, outcome: Outcome | None, started: float) -> None:
        """Send what the command prints when it does, and how it ends. Without an outcome, it waits for its
        input."""
        await self._open()
        if outcome is None and not self._answer.streams.stdin:  # it is not known after what a server answered
            await self._refuse()
            return
        if outcome is None and self._answer.streams.tty:
            if not is_shell(self._answer.command):
                await self._refuse()
            elif (exit_code := await self._talk()) is not None:
                await self._finish(_status(self._answer.command, exit_code))
            return
        if outcome is None:
            try:
                stdin = await self._read_input()
                started, outcome = await self._evaluator.run(
                    lambda: (self._clock(), self._answer.run(stdin, False))
                )
            except ApiError as error:
                await self._finish(status_tree(error))
                return
        if outcome is None:
            await self._refuse()
            return
        exit_code = await self._play(outcome, started)
        if exit_code is not None:
            await self._finish(_status(self._answer.command, exit_code))

    async def _read_input(self) -> str:
        """Return all input, up to where the client closes it or leaves the shell that reads it. Raises
        ApiError if it is too long."""
        script = bytearray()
        size = looks = 0
        may_end = False
        while (message := await self._channels.receive()) is not None and not message.is_end:
            start = script.rfind(b"\n") + 1
            script += message.data
            size += len(message.data) + 1
            if size > _MOST_INPUT:
                raise bad_request(f"the input of a command exceeds {_MOST_INPUT} bytes")
            if b"\n" not in message.data:
                continue
            may_end = may_end or self._leaves_shell(script, start)
            looks += may_end
            if may_end and looks <= _MOST_LOOKS and await self._is_known(script):
                break
        return script.decode(errors="surrogateescape")

    def _leaves_shell(self, script: bytearray, start: int) -> bool:
        """Whether a line of a script that a shell reads, after a start, may be its last."""
        return is_shell(self._answer.command) and _EXIT.search(script, start) is not None

    async def _is_known(self, script: bytearray) -> bool:
        """Whether it is known what a script does: it is complete."""
        text = script.decode(errors="surrogateescape")
        return await self._evaluator.run(lambda: self._answer.run(text, True)) is not None

    async def _refuse(self) -> None:
        problem = f"error executing command in container: {self._answer.unknown.message}"
        await self._finish(status_tree(internal(problem)))


def _status(command: Sequence[str], exit_code: int) -> Tree:
    """Return how a command ended."""
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    error = f"error executing command [{' '.join(command)}], exit code {exit_code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {error}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }
