"""The page's own listener on loopback, for `mooring up` and `mooring view`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from mooring.core.decision import Decision
from mooring.serving.limits import Limits
from mooring.serving.listening import listen
from mooring.serving.server import FixedIdentity, HttpServer
from mooring.web.api import Api
from mooring.web.decisions import RecentDecisions
from mooring.web.service import Action, PageService
from mooring.web.source import Source
from mooring.web.stream import Stream

HOST = "127.0.0.1"


class PageServer:
    """Serves a source on loopback while it `run`s. Raises OSError if the port is in use."""

    def __init__(
        self,
        source: Source,
        clock: Callable[[], float],
        *,
        port: int = 0,
        actions: Mapping[str, Action] | None = None,
        state: Callable[[], dict[str, Any]] = dict,
        views: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        self._source = source
        self.decisions = RecentDecisions(clock)
        stream = Stream(source, self.decisions, state)
        features = tuple(sorted({name.partition("/")[0] for name in actions or ()}))
        api = Api(source, self.decisions, stream, features=features, views=views)
        listener = listen(HOST, port)
        self._token = secrets.token_urlsafe(32)
        service = PageService(api, self._token, listener.getsockname()[1], actions)
        limits = Limits(connections=64, answer_seconds=None)
        self._server = HttpServer(service, listener, FixedIdentity(None), limits)

    @property
    def link(self) -> str:
        """The address of the page, with the token."""
        return f"http://{HOST}:{self._server.port}/?token={self._token}"

    def decided(self, decision: Decision) -> None:
        self.decisions.add(decision, self._source.core)

    async def run(self) -> None:
        await self._server.run()

    def close(self) -> None:
        self._server.close()
