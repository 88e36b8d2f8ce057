"""A TCP proxy on loopback whose connections can be cut, or fall silent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any


class CutProxy:
    """Relays to a port. `cut` breaks all connections and refuses new ones until `mend`; `silence` keeps
    those there are, but nothing passes through them any more."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._silent: set[asyncio.StreamWriter] = set()
        self._refusing = False

    async def __aenter__(self) -> CutProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.sleep(0)

    def cut(self) -> None:
        self._refusing = True
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        self._refusing = False

    def silence(self) -> None:
        self._silent |= self._open

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # the target is down
            writer.transport.abort()
            return
        await asyncio.gather(self._relay(reader, to_writer), self._relay(to_reader, writer))

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while data := await reader.read(65_536):
                if writer not in self._silent:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            self._open.discard(writer)
            writer.close()


class ProxyThread:
    """A CutProxy for tests without an event loop of their own."""

    def __init__(self, target: int) -> None:
        self._proxy = CutProxy(target)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> ProxyThread:
        self._thread.start()
        self._run(self._proxy.__aenter__())
        self.server = f"https://127.0.0.1:{self._proxy.port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        await self._proxy.__aexit__()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=5)

    def cut(self) -> None:
        self._run(self._call(self._proxy.cut))

    def mend(self) -> None:
        self._run(self._call(self._proxy.mend))

    async def _call(self, change: Callable[[], None]) -> None:
        change()

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)
