"""The binding cycle: what happens between the choice of a node and the pod being bound to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from mooring.framework.pod import PodInfo
from mooring.framework.status import SUCCESS, Code, Status
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside
from mooring.runtime.engine_state import EngineState
from mooring.runtime.extender import Extender, ExtenderCallError
from mooring.runtime.observer import Laps
from mooring.runtime.profile import Profile
from mooring.runtime.runners import raised, unexpected

Call = Callable[[Callable[[], Any]], Awaitable[Any]]


class BindingCycle:
    """One pod on its way to its node. `run` is a coroutine because plugins may wait for the cluster; it
    needs no event loop when none of them does."""

    __slots__ = (
        "binders",
        "bound",
        "call",
        "evaluated_nodes",
        "feasible_nodes",
        "group",
        "laps",
        "node_name",
        "pod",
        "prepared",
        "profile",
        "queued",
        "retries",
        "state",
    )

    def __init__(
        self, profile: Profile, state: EngineState, queued: Any, pod: PodInfo, node_name: str
    ) -> None:
        self.profile = profile
        self.state = state
        self.queued = queued
        self.pod = pod
        self.node_name = node_name
        self.bound = False
        self.call: Call | None = None  # runs a custom plugin where it may block; None: right here
        self.evaluated_nodes = self.feasible_nodes = 0  # for the log
        self.binders: Sequence[Extender] = ()  # asked before the bind plugins
        self.laps: Laps = []  # of an attempt that an observer watches
        self.prepared = False  # whether pre_bind has succeeded
        self.group: Any = None  # the GroupBinding that it is part of
        self.retries = 0  # of binding requests, for members of a group

    async def prepare(self) -> Status:
        """pre_bind, before it is known whether the pod will be bound."""
        stopwatch, laps = self.profile.stopwatch, self.laps
        before = len(laps)
        if stopwatch is not None:
            laps.append(stopwatch.timer())
        status = await self._pre_bind()
        if stopwatch is not None:
            laps.append(stopwatch.timer())
            if not status.ok:
                stopwatch.binding_failed(laps, before, status.code, self.state)
        self.prepared = status.ok
        return status

    async def run(self) -> Status:
        """pre_bind, unless that is done, bind and post_bind; the first failure ends it."""
        stopwatch, laps = self.profile.stopwatch, self.laps
        if not self.prepared:
            status = await self.prepare()
            if not status.ok:
                return status
        if self.retries and laps:
            laps.pop()  # that of the request that failed
        before = len(laps) - 2
        status = await self._bind()
        if stopwatch is not None:
            laps.append(stopwatch.timer())
        if status.ok:
            self.bound = True
            if self.profile.post_binds:
                await self._post_bind()
            if stopwatch is not None:
                laps.append(stopwatch.timer())
        elif stopwatch is not None:
            stopwatch.binding_failed(laps, before, status.code, self.state)
        return status

    async def _pre_bind(self) -> Status:
        for name, ask in self.profile.pre_binds:
            answer = await self._ask("PreBind", name, ask)
            if answer is None:  # as most of them have nothing to do
                continue
            status = await _status(name, ask, answer)
            if not status.ok:
                return _failed(status, f'running PreBind plugin "{name}": ')
        return SUCCESS

    async def _bind(self) -> Status:
        for extender in self.binders:
            try:
                await extender.bind(self.pod, self.node_name)
                return SUCCESS
            except ExtenderCallError as failure:
                if not extender.ignorable:
                    return Status(Code.ERROR, str(failure), exception=failure)
        for name, ask in self.profile.binds:
            status = await _status(name, ask, await self._ask("Bind", name, ask))
            if status.code is not Code.SKIP:
                return status if status.ok else _failed(status, f'running Bind plugin "{name}": ')
        return Status(Code.ERROR, "no bind plugin took the pod: all of them skipped it")

    async def _post_bind(self) -> None:
        for name, ask in self.profile.post_binds:
            await _status(name, ask, await self._ask("PostBind", name, ask))

    async def _ask(self, point: str, name: str, ask: Callable[..., Any]) -> Any:
        """What a plugin answers, or what is to be awaited for the answer."""
        if self.call is None or name not in self.profile.custom_plugins:
            return self._ask_here(point, name, ask)
        return await self.call(partial(self._ask_here, point, name, ask))

    def _ask_here(self, point: str, name: str, ask: Callable[..., Any]) -> Any:
        if self.state.sampling is not None:
            ask = self.state.sampling.timed(name, point, ask)
        try:
            return ask(self.state, self.pod, self.node_name)
        except CONTAINED as exc:
            return Status(Code.ERROR, str(raised(name, ask.__name__, exc)), exception=exc)


async def _status(name: str, ask: Callable[..., Any], answer: Any) -> Status:
    """A plugin's answer as a status, once it is there."""
    try:
        if hasattr(answer, "__await__"):
            answer = await answer
    except CONTAINED as exc:
        reraise_if_from_outside(exc, awaited=True)
        return Status(Code.ERROR, str(raised(name, ask.__name__, exc)), exception=exc)
    if answer is None:
        return SUCCESS
    if not isinstance(answer, Status):
        return Status(Code.ERROR, unexpected(ask.__name__, answer))
    return answer


def _failed(status: Status, prefix: str) -> Status:
    """After permit every failure is an error to the queue, whatever the plugin called it."""
    message = status.message or f"unexpected status {status.code.text}"
    return Status(Code.ERROR, prefix + message, exception=status.exception)
