"""Servers of pods: they listen on ports of this machine while their containers run."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from mooring.sandbox.kubelet.container_life import RUNNING
from mooring.sandbox.kubelet.containers import PodLife
from mooring.sandbox.programs.servers import AnswerPost, PodServers, Server
from mooring.serving.certificates import KeyPair
from mooring.serving.exchange import BodyTooLargeError, Exchange
from mooring.serving.listening import listen
from mooring.serving.messages import Answer
from mooring.serving.server import FixedIdentity, HttpServer
from mooring.serving.settings import EndpointError
from mooring.serving.tls import make_context

log = logging.getLogger("mooring.kubelet")

_HOST: Final = "127.0.0.1"
_LARGEST_BODY: Final = 8 * 1024 * 1024


class _ProgramService:
    """Hands requests to an emulated program."""

    def __init__(self, answer: AnswerPost) -> None:
        self._answer = answer

    async def answer(self, exchange: Exchange) -> None:
        try:
            body = await exchange.body(_LARGEST_BODY)
        except BodyTooLargeError as error:
            await exchange.send(self.error(413, str(error)))
            return
        await exchange.send(await self._answer(exchange.path, body))

    def error(self, code: int, message: str) -> Answer:
        return Answer(code, f"{message}\n".encode())


class Listeners:
    """Opens and closes what the containers of pods serve. Without `servers`, nothing listens."""

    def __init__(self, servers: PodServers | None) -> None:
        self._servers = servers
        self._open: dict[str, dict[Server, asyncio.Task[None]]] = {}  # by uid
        self._addresses: dict[str, str] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, uid: str, address: str, life: PodLife) -> None:
        """Listen for the containers of a pod that run now."""
        if self._servers is None:
            return
        running = {
            one.outcome.server: None
            for one in life.all
            if one.state == RUNNING and one.outcome.server is not None
        }
        tasks = self._open.get(uid, {})
        for server in tasks.keys() - running.keys():
            self._close_one(uid, server)
        for server in running:
            if server not in tasks:
                self._open_one(uid, address, server)

    def close(self, uid: str) -> None:
        """Stop listening for a pod that is gone."""
        for server in tuple(self._open.get(uid, ())):
            self._close_one(uid, server)

    async def stop(self) -> None:
        """Stop listening for all pods."""
        for uid in tuple(self._open):
            self.close(uid)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _open_one(self, uid: str, address: str, server: Server) -> None:
        assert self._servers is not None
        try:
            context = make_context(KeyPair(server.certificate.encode(), server.key.encode()))
            listener = listen(_HOST, 0)
        except (EndpointError, OSError) as error:
            log.warning("a container does not serve: %s", error)
            return
        http = HttpServer(_ProgramService(server.answer), listener, FixedIdentity(context))
        self._servers.add(address, server.port, _HOST, http.port)
        self._addresses[uid] = address
        self._open.setdefault(uid, {})[server] = asyncio.create_task(http.run(), name=f"server of {address}")

    def _close_one(self, uid: str, server: Server) -> None:
        assert self._servers is not None
        tasks = self._open[uid]
        task = tasks.pop(server)
        self._servers.remove(self._addresses[uid], server.port)
        task.cancel()
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        if not tasks:
            del self._open[uid], self._addresses[uid]
