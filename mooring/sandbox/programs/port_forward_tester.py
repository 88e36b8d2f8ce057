"""`agnhost port-forward-tester`: waits for text from one client, and sends it as much as variables say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from mooring.sandbox.network.messages import LARGEST, Query, Reply
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.listeners import Listener, Process
from mooring.sandbox.programs.netexec import port_number

if TYPE_CHECKING:
    from mooring.sandbox.programs.shell import Shell

_LINGER: Final = 0.5  # seconds from the end of the connection to that of the program
_STATE: Final = "connection"


def listen(shell: Shell, flags: dict[str, str]) -> None:
    """Listen at the port that a variable names. Raises UnknownProgramError."""
    variables = shell.variables
    amounts = [variables.get(name) or "" for name in ("CHUNKS", "CHUNK_SIZE", "CHUNK_INTERVAL")]
    if flags or not all(one.isascii() and one.isdecimal() and len(one) < 7 for one in amounts):
        raise UnknownProgramError("agnhost port-forward-tester")
    chunks, size, interval = map(int, amounts)
    if chunks * size > LARGEST:
        raise UnknownProgramError("agnhost port-forward-tester")
    expected = (variables.get("EXPECTED_CLIENT_DATA") or "").encode(errors="surrogateescape")
    answer = PortForwardTester(expected, chunks, size, max(chunks - 1, 0) * interval / 1000)
    shell.listeners.append(Listener(port_number(variables.get("BIND_PORT") or ""), answer, is_raw=True))


class PortForwardTester(msgspec.Struct, frozen=True):
    """Answers the first client with chunks once it has sent what is expected. They are sent one after the
    other without delay; the program ends after the `seconds` that they would take."""

    expected: bytes
    chunks: int
    size: int
    seconds: float

    def __call__(self, query: Query, process: Process) -> Reply:
        if process.state.get(_STATE) == "over":
            return Reply(0)
        if _STATE not in process.state:
            process.state[_STATE] = "accepted"
            process.lines.append("Accepted client connection\n")
        text, wanted = query.body[: len(self.expected)], len(self.expected)
        if len(text) == wanted:
            return self._send(process) if text == self.expected else self._fail(process, 3, text)
        return self._fail(process, 2, text) if query.is_end else Reply(0)

    def _send(self, process: Process) -> Reply:
        if self.expected:
            process.lines.append("Received expected client data\n")
        process.lines += "Shutting down connection\n", "Done\n"
        process.state[_STATE] = "over"
        process.exit = self.seconds + _LINGER, 0
        return Reply(200, b"x" * self.size * self.chunks, piece=max(self.size, 1))

    def _fail(self, process: Process, code: int, text: bytes) -> Reply:
        process.state[_STATE] = "over"
        process.exit = 0.0, code
        if code == 2:
            problem = f"Expected to read {len(self.expected)} bytes from client, but got {len(text)} instead."
        else:
            expected, found = (one.decode(errors="replace") for one in (self.expected, text))
            problem = f'Expect to read "{expected}", but got "{found}".'
        process.lines.append(f"{problem} err={'EOF' if not text else '<nil>'}\n")
        return Reply(0)
