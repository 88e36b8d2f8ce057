"""The binding cycle: what happens between the choice of a node and the pod being bound to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.framework.cycle_state import CycleState
from mooring.framework.observed_profile import ObservedProfile
from mooring.framework.pod import PodInfo
from mooring.framework.profile import Profile
from mooring.framework.runners import raised
from mooring.framework.status import SUCCESS, Code, Status


class BindingCycle:
    """One pod on its way to its node. `run` is a coroutine because plugins may wait for the cluster; it
    needs no event loop when none of them does."""

    __slots__ = ("bound", "node_name", "pod", "profile", "queued", "state")

    def __init__(
        self, profile: Profile, state: CycleState, queued: Any, pod: PodInfo, node_name: str
    ) -> None:
        self.profile = profile
        self.state = state
        self.queued = queued
        self.pod = pod
        self.node_name = node_name
        self.bound = False

    async def run(self) -> Status:
        """pre_bind, bind and post_bind; the first failure ends it."""
        status = await self._pre_bind()
        if status.ok:
            status = await self._bind()
        if status.ok:
            self.bound = True
            await self._post_bind()
        return status

    async def _pre_bind(self) -> Status:
        for name, ask in self.profile.pre_binds:
            status = await self._ask(name, ask)
            if status is not SUCCESS and not status.ok:
                return _failed(status, f'running PreBind plugin "{name}": ')
        return SUCCESS

    async def _bind(self) -> Status:
        for name, ask in self.profile.binds:
            status = await self._ask(name, ask)
            if status.code is not Code.SKIP:
                return status if status.ok else _failed(status, f'running Bind plugin "{name}": ')
        return Status(Code.ERROR, "no bind plugin took the pod: all of them skipped it")

    async def _post_bind(self) -> None:
        for name, ask in self.profile.post_binds:
            await self._ask(name, ask)

    async def _ask(self, name: str, ask: Callable[..., Any]) -> Status:
        try:
            answer = ask(self.state, self.pod, self.node_name)
            if answer is None:
                return SUCCESS
            if hasattr(answer, "__await__"):
                answer = await answer
        except Exception as exc:
            return Status(Code.ERROR, str(raised(name, ask.__name__, exc)), exception=exc)
        if answer is None:
            return SUCCESS
        if not isinstance(answer, Status):
            return Status(Code.ERROR, f"answered {answer!r}; expected None or a Status")
        return answer


class ObservedBindingCycle(BindingCycle):
    """A binding cycle that tells how long its extension points took; its profile is an observed one."""

    __slots__ = ()

    async def run(self) -> Status:
        profile = self.profile
        assert isinstance(profile, ObservedProfile)
        timer, took = profile.timer, profile.took
        began = timer()
        status = await self._pre_bind()
        took["pre_bind"](status.code, timer() - began)
        if status.ok:
            began = timer()
            status = await self._bind()
            took["bind"](status.code, timer() - began)
        if status.ok:
            self.bound = True
            began = timer()
            await self._post_bind()
            took["post_bind"](Code.SUCCESS, timer() - began)
        return status


def _failed(status: Status, prefix: str) -> Status:
    """After permit every failure is an error to the queue, whatever the plugin called it."""
    message = status.message or f"unexpected status {status.code.text}"
    return Status(Code.ERROR, prefix + message, exception=status.exception)
