"""The connection of a watch: an answer without end, one JSON document per line."""

from __future__ import annotations

from mooring.client.http.connection import Connection

LONGEST_LINE = 16 * 1024**2  # ten times what etcd keeps of one object by default
_PAUSE_AT = 4 * 1024**2  # bytes of lines that wait for their reader; beyond, the server has to wait


class LineConnection(Connection):
    """An answer of 200 is read by `lines`; any other is a refusal, and is read whole."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[bytes] = []
        self._waiting = 0  # bytes in _lines
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._paused = self._ended = False
        self._failure: Exception | None = None
        self.streaming = False

    async def lines(self) -> list[bytes]:
        """The lines that came, once there are any; none at the end. Raises what `Connection` raises."""
        while not self._lines and not self._ended:
            self._waiter = self._loop.create_future()
            await self._waiter
        lines, self._lines, self._waiting = self._lines, [], 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if not lines and self._failure is not None:
            raise self._failure
        return lines

    def _finish(self, error: Exception | None) -> None:
        if self.streaming and not self._ended:
            self._ended, self._failure = True, error
            if error is None and self._partial:
                self._lines.append(b"".join(self._partial))
        super()._finish(None if self.streaming else error)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.streaming = self.status == 200
        if self.streaming:
            self._wake()

    def on_body(self, chunk: bytes) -> None:
        if not self.streaming:
            super().on_body(chunk)
            return
        self._take_content(chunk)
        first, *rest = chunk.split(b"\n")
        if first:
            self._partial.append(first)
            self._partial_size += len(first)
            if self._partial_size > LONGEST_LINE:
                raise ValueError(f"watch event exceeds {LONGEST_LINE} bytes")
        if rest:
            self._take_lines([b"".join(self._partial), *rest[:-1]])
            self._partial = [rest[-1]] if rest[-1] else []
            self._partial_size = len(rest[-1])

    def _take_lines(self, lines: list[bytes]) -> None:
        complete = [line for line in lines if line]
        self._lines.extend(complete)
        self._waiting += sum(map(len, complete))
        if self._waiting > _PAUSE_AT and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()
