"""The page of `mooring scheduler --web`: read-only, behind the scheduler's authentication."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from mooring.config import LoadedConfig
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog
from mooring.process.scheduler_process import SchedulerProcess
from mooring.runtime.registry import Registry
from mooring.serving.messages import Answer, Handler, Request, failure
from mooring.web.api import Api
from mooring.web.assets import asset_answer
from mooring.web.decisions import RecentDecisions
from mooring.web.records import API
from mooring.web.stream import Stream

MOUNT = "/web/"
STREAM_SECONDS = 50.0  # below the time that the server allows for an answer


class SchedulerPage:
    """Routes below /web/, and the source that they read: the process that serves them."""

    mode = "scheduler"

    def __init__(self, config: LoadedConfig, registry: Registry) -> None:
        self.config = config
        self.registry = registry
        self._process: SchedulerProcess | None = None
        self._recent = RecentDecisions(time.time)

    @property
    def core(self) -> Scheduler | None:
        return None if self._process is None else self._process.scheduler

    @property
    def decisions(self) -> DecisionLog | None:
        return None if self._process is None else self._process.decisions

    def status(self) -> str:
        leads = self._process is None or self._process.may_bind()
        return "" if leads else "standby: another replica is the leader, and decisions are made there"

    async def ask(self, question: Callable[[], Any]) -> Any:
        return question() if self._process is None else await self._process.driver.ask(question)

    def decided(self, decision: Decision) -> None:
        self._recent.add(decision, self.core)

    def routes(self, process: SchedulerProcess) -> Mapping[str, Handler]:
        self._process = process
        api = Api(self, self._recent, Stream(self, self._recent), stream_seconds=STREAM_SECONDS)

        async def handle(request: Request) -> Answer:
            path = request.path.removeprefix(MOUNT)
            if path.startswith(f"{API}/"):
                return await api.get(path.removeprefix(f"{API}/"), request)
            accepted, tag = request.header(b"accept-encoding"), request.header(b"if-none-match")
            answer = asset_answer(path, accepted, tag)
            return answer or failure(404, "NotFound", "the server could not find the requested resource")

        return {MOUNT: handle}
