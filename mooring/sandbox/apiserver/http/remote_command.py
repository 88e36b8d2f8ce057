"""Commands in containers over WebSockets, as kubelets serve them: a channel for each stream."""

from __future__ import annotations

import asyncio
import codecs
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.errors import bad_request, internal, status_tree
from mooring.sandbox.apiserver.http.terminal import INTERRUPT, PROMPT, Terminal
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.verbs.request import CommandAnswer
from mooring.sandbox.programs.errors import ExitError
from mooring.sandbox.programs.executing import NotRunningError
from mooring.sandbox.programs.program import Outcome
from mooring.serving.exchange import Exchange
from mooring.serving.websocket import HandshakeError, WebSocket, choose_protocol

_FIRST_PROTOCOL: Final = "channel.k8s.io"
"""Reports failures as text, and no success."""
_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io", _FIRST_PROTOCOL)
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_POLL: Final = 0.5  # seconds between two looks at a container
_KILLED, _INTERRUPTED = 137, 130
_MOST_INPUT: Final = 512 * 1024  # bytes, one more for each message
_SHELLS: Final = frozenset(("sh", "bash", "ash", "dash"))
_UNKNOWN: Final = "cannot execute {!r}: what it would do is not known, and no containers run\r\n"


async def serve_command(exchange: Exchange, answer: CommandAnswer, clock: Callable[[], float]) -> None:
    """Execute a command. Raises ApiError if that is rejected before the connection is upgraded."""
    try:
        protocol = choose_protocol(exchange, _PROTOCOLS)
    except HandshakeError as error:
        if answer.run(None, True) is None and not answer.streams.stdin:
            raise answer.unknown from None
        raise bad_request(f"{error}: a sandbox cluster executes commands over WebSockets only") from None
    started, outcome = clock(), answer.run(None, False)
    if outcome is None and not answer.streams.stdin:
        raise answer.unknown
    session = _Session(WebSocket(exchange, protocol), answer, clock, is_first=protocol == _FIRST_PROTOCOL)
    await session.run(outcome, started)


class _Session:
    """One command and the streams of its client."""

    def __init__(
        self, socket: WebSocket, answer: CommandAnswer, clock: Callable[[], float], *, is_first: bool
    ) -> None:
        self._socket = socket
        self._is_first = is_first  # of the versions of the protocol
        self._answer = answer
        self._clock = clock
        self._ahead: deque[bytes] = deque()  # messages that came while a command ran
        self._is_interrupted = False

    async def run(self, outcome: Outcome | None, started: float) -> None:
        """Send what the command prints when it does, and how it ends. Without an outcome, it waits for its
        input."""
        streams = self._answer.streams
        first = _STDOUT if streams.stdout else _STDERR if streams.stderr else _ERROR
        await self._send(first, "")  # the client sees that the connection is there
        if outcome is None and streams.tty:
            if not _is_shell(self._answer.command):
                await self._refuse()
                return
            await self._talk()
            return
        if outcome is None:
            try:
                stdin = await self._read_input()
                started, outcome = self._clock(), self._answer.run(stdin, False)
            except ApiError as error:
                await self._finish(status_tree(error))
                return
        if outcome is None:
            await self._refuse()
            return
        exit_code = await self._play(outcome, started)
        if exit_code is not None:
            await self._finish(self._status(exit_code))

    async def _read_input(self) -> str:
        """Return all input, up to where the client closes it. Raises ApiError if it is too long."""
        parts: list[bytes] = []
        size = 0
        while (message := await self._socket.receive()) is not None:
            if message[:1] == bytes([_STDIN]):
                parts.append(message[1:])
                size += len(message)
                if size > _MOST_INPUT:
                    raise bad_request(f"the input of a command exceeds {_MOST_INPUT} bytes")
            elif message[:2] == bytes([_CLOSE, _STDIN]):
                break
        return b"".join(parts).decode(errors="surrogateescape")

    async def _talk(self) -> None:
        """Run an interactive shell until the client ends it."""
        terminal, exit_code = Terminal(), 0
        keys = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            run = self._answer.open_shell()
            await self._send(_STDOUT, PROMPT)
            while not terminal.is_at_end and (message := await self._next_message()) is not None:
                if message[:2] == bytes([_CLOSE, _STDIN]):
                    break
                if message[:1] == bytes([_STDIN]):
                    await self._send(_STDOUT, terminal.typed(keys.decode(message[1:])))
                while terminal.lines:
                    exit_code = await self._run_line(run, terminal.lines.pop(0))
                    await self._send(_STDOUT, PROMPT)
        except ExitError as ended:
            exit_code = ended.code
        except NotRunningError:
            exit_code = _KILLED
        await self._finish(self._status(exit_code))

    async def _next_message(self) -> bytes | None:
        return self._ahead.popleft() if self._ahead else await self._socket.receive()

    async def _run_line(self, run: Callable[[str], Outcome | None], line: str) -> int:
        """Run a line of a shell and return its exit code. Raises ExitError and NotRunningError."""
        started, outcome = self._clock(), run(line)
        if outcome is None:
            await self._send(_STDOUT, _UNKNOWN.format(line))
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
            channel = _STDERR if number in outcome.errors and not streams.tty else _STDOUT
            if streams.stderr if channel == _STDERR else streams.stdout:
                await self._send(channel, text.replace("\n", "\r\n") if streams.tty else text)
        end = None if outcome.run_time is None else started + outcome.run_time
        if not await self._wait_until(end):
            return self._early_end()
        return outcome.exit_code

    def _early_end(self) -> int | None:
        if self._socket.is_closed:
            return None
        return _INTERRUPTED if self._is_interrupted else _KILLED

    async def _wait_until(self, time: float | None) -> bool:
        """Wait; None is forever. Returns whether the client and the container are still there."""
        while not self._socket.is_closed:
            left = _POLL if time is None else time - self._clock()
            if left <= 0:
                return True
            message = await self._socket.receive(min(left, _POLL))
            if message is not None and self._answer.streams.tty:
                self._ahead.append(message)
                self._is_interrupted = INTERRUPT in message
            if self._is_interrupted or not self._answer.is_running():
                return False
        return False

    async def _send(self, channel: int, text: str) -> None:
        await self._socket.send(bytes([channel]) + text.encode(errors="surrogateescape"))

    async def _refuse(self) -> None:
        problem = f"error executing command in container: {self._answer.unknown.message}"
        await self._finish(status_tree(internal(problem)))

    async def _finish(self, status: Tree) -> None:
        if not self._is_first:
            await self._send(_ERROR, encode_json(status).decode())
        elif status["status"] != "Success":
            await self._send(_ERROR, status["message"])
        self._socket.close()
        await asyncio.sleep(0)

    def _status(self, exit_code: int) -> Tree:
        if exit_code == 0:
            return {"metadata": {}, "status": "Success"}
        command = " ".join(self._answer.command)
        error = f"error executing command [{command}], exit code {exit_code}"
        return {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: {error}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }


def _is_shell(command: Sequence[str]) -> bool:
    """Whether a command is an interactive shell."""
    options = [word for word in command[1:] if word not in ("-i", "-l", "--login")]
    return command[0].rpartition("/")[2] in _SHELLS and not options
