"""Ports of pods that are forwarded to clients: a pair of streams for each connection, one for its data and
one for the error that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import closing
from typing import Any, Final, Protocol

from mooring.sandbox.apiserver.context.evaluations import Evaluator
from mooring.sandbox.apiserver.http.channels import accept_spdy, accept_websocket, wants_spdy
from mooring.sandbox.apiserver.verbs.request import ForwardError, PortsAnswer
from mooring.sandbox.programs.conversations import Conversation
from mooring.serving.exchange import Exchange
from mooring.serving.spdy.frames import CANCEL
from mooring.serving.spdy.streams import Pipe, SpdyConnection, SpdyStream
from mooring.serving.websocket import WebSocket

_SPDY: Final = "portforward.k8s.io"
_TUNNEL: Final = f"SPDY/3.1+{_SPDY}"
_CHANNELS: Final = "v4.channel.k8s.io"
_POLL: Final = 0.5  # seconds between two looks at a pod
_PATIENCE: Final = 30.0  # seconds in which a client opens the second stream of a pair
_MOST_ALONE: Final = 100  # streams of a client that wait for the other one of their pair
_PIECE: Final = 16 * 1024  # bytes that a program takes in one turn of the loop
_MOST_WAITING: Final = 256 * 1024  # bytes of a channel that its program has not taken


async def forward_ports(exchange: Exchange, answer: PortsAnswer, evaluator: Evaluator) -> None:
    """Connect a client to ports of a pod. Raises ApiError if that is rejected before the connection is
    upgraded."""
    if wants_spdy(exchange):
        pipe, _ = accept_spdy(exchange, (_SPDY,))
        await _Forwarding(pipe, answer, evaluator).run()
        return
    protocols = (_TUNNEL, _CHANNELS, "") if answer.ports else (_TUNNEL,)
    socket, protocol = accept_websocket(exchange, protocols)
    if protocol == _TUNNEL:
        await _Forwarding(socket, answer, evaluator).run()
    else:
        await _forward_channels(socket, answer, evaluator)


class _Stream(Protocol):
    """The data of one connection to a port."""

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return what the client has sent: no bytes at the end, None after so many seconds without any."""
        ...

    async def send(self, data: bytes) -> None: ...


async def _converse(
    stream: _Stream, conversation: Conversation, answer: PortsAnswer, evaluator: Evaluator
) -> None:
    """Connect the client to a program until one of them, or the pod, ends."""
    with closing(conversation):
        await _talk(stream, conversation, answer, evaluator)


async def _talk(
    stream: _Stream, conversation: Conversation, answer: PortsAnswer, evaluator: Evaluator
) -> None:
    await _send_all(stream, conversation.receive(b""), evaluator)
    while not conversation.is_over:
        data = await stream.receive(_POLL)
        if data:
            for start in range(0, len(data), _PIECE):
                await _send_all(stream, conversation.receive(data[start : start + _PIECE]), evaluator)
        elif data is not None:
            await _send_all(stream, conversation.end(), evaluator)
        elif not answer.is_running():
            return


async def _send_all(stream: _Stream, answers: Iterator[bytes], evaluator: Evaluator) -> None:
    """Send what a program answers; it is evaluated for each answer."""
    while (data := await evaluator.run(lambda: next(answers, None))) is not None:
        await stream.send(data)
        await asyncio.sleep(0)


# ---- SPDY


class _Forwarding:
    """One client over SPDY. It opens a pair of streams for each connection, with a number in their header
    `requestid`."""

    def __init__(self, pipe: Pipe, answer: PortsAnswer, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._connection = SpdyConnection(pipe, self)
        self._answer = answer
        self._waiting: dict[str, tuple[SpdyStream, asyncio.TimerHandle]] = {}
        """Streams without the other of their pair, each with what drops it."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            await self._connection.run()
        finally:
            for task in self._tasks:
                task.cancel()
            for _, dropping in self._waiting.values():
                dropping.cancel()

    def accepts(self, headers: Mapping[str, str]) -> bool:
        port = headers.get("port", "")
        is_port = port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536
        if not is_port or headers.get("streamtype") not in ("data", "error"):
            return False
        if len(self._waiting) >= _MOST_ALONE:
            self._forget_ended()
        return len(self._waiting) < _MOST_ALONE

    def opened(self, stream: SpdyStream) -> None:
        key = _request(stream)
        if key not in self._waiting:
            dropping = asyncio.get_running_loop().call_later(_PATIENCE, self._drop, key)
            self._waiting[key] = stream, dropping
            return
        other, dropping = self._waiting[key]
        if other.headers["streamtype"] == stream.headers["streamtype"]:
            self._start(stream.reset(CANCEL))
        else:
            del self._waiting[key]
            dropping.cancel()
            is_data = stream.headers["streamtype"] == "data"
            self._start(self._forward(*((stream, other) if is_data else (other, stream))))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _forget_ended(self) -> None:
        """Forget streams that stayed alone and that the client has reset."""
        for key in [key for key, (stream, _) in self._waiting.items() if stream.is_over]:
            _, dropping = self._waiting.pop(key)
            dropping.cancel()

    def _drop(self, key: str) -> None:
        """Drop a stream that stays alone."""
        stream, _ = self._waiting.pop(key)
        self._start(stream.reset(CANCEL))

    async def _forward(self, data: SpdyStream, error: SpdyStream) -> None:
        error.is_ignored = True
        try:
            conversation = self._answer.open(int(data.headers["port"]))
        except ForwardError as problem:
            await error.send(str(problem).encode())
            await error.finish()
            await data.reset(CANCEL)
            return
        await _converse(data, conversation, self._answer, self._evaluator)
        data.is_ignored = True  # the program is no longer there
        await data.finish()
        await error.finish()


def _request(stream: SpdyStream) -> str:
    """Return what identifies the pair of a stream. Old clients do not name it: they open the stream for the
    error right before the one for the data."""
    is_error = stream.headers["streamtype"] == "error"
    return stream.headers.get("requestid") or str(stream.number if is_error else stream.number - 2)


# ---- WebSockets without SPDY


class _Channel:
    """One connection of a client that names its ports in the URL."""

    def __init__(self, socket: WebSocket, number: int) -> None:
        self._socket = socket
        self.number = number
        self._parts: asyncio.Queue[bytes] = asyncio.Queue()
        self.waiting = 0  # bytes

    def take(self, data: bytes) -> None:
        self.waiting += len(data)
        self._parts.put_nowait(data)

    async def receive(self, seconds: float | None = None) -> bytes | None:
        try:
            async with asyncio.timeout(seconds):
                data = await self._parts.get()
        except TimeoutError:
            return None
        self.waiting -= len(data)
        return data

    async def send(self, data: bytes) -> None:
        await self._socket.send(bytes([self.number]) + data)


async def _forward_channels(socket: WebSocket, answer: PortsAnswer, evaluator: Evaluator) -> None:
    """Forward the ports that the request names: each has a channel for data and one for its error."""
    channels = [_Channel(socket, 2 * number) for number in range(len(answer.ports))]
    tasks = [
        asyncio.create_task(_forward_channel(socket, channel, port, answer, evaluator))
        for channel, port in zip(channels, answer.ports, strict=True)
    ]
    everything = asyncio.gather(*tasks)
    everything.add_done_callback(lambda _: socket.close())
    try:
        while (message := await socket.receive()) is not None:
            number, is_error = divmod(message[0], 2) if message else (0, 1)
            if not is_error and number < len(channels):
                await _pass_on(message[1:], channels[number], tasks[number])
    finally:
        everything.cancel()


async def _pass_on(data: bytes, channel: _Channel, task: asyncio.Task[None]) -> None:
    """Pass data of the client to a channel, and return once there is room for more."""
    if data and not task.done():
        channel.take(data)
    while channel.waiting > _MOST_WAITING and not task.done():
        await asyncio.wait((task,), timeout=_POLL)


async def _forward_channel(
    socket: WebSocket, channel: _Channel, port: int, answer: PortsAnswer, evaluator: Evaluator
) -> None:
    for number in (channel.number, channel.number + 1):
        await socket.send(bytes([number]) + port.to_bytes(2, "little"))
    try:
        conversation = answer.open(port)
    except ForwardError as problem:
        await socket.send(bytes([channel.number + 1]) + str(problem).encode())
        return
    await _converse(channel, conversation, answer, evaluator)
