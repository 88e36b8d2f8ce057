"""A plugin that raises, rejects, waits and answers nonsense, when a fault says so."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from mooring.framework import CycleState, NodeInfo, Plugin, PodInfo, Status
from mooring.framework.status import Code
from tests.faults.faults import Kind
from tests.faults.hasty import LONGEST
from tests.faults.processes import Process


class Unreliable(Plugin):
    """Does nothing while no fault acts on its process."""

    name = "Unreliable"
    process: Process

    def _misbehave(self, answers: tuple[Any, ...]) -> Any:
        for fault in self.process.faults:
            if fault.kind is Kind.BLOCK and fault.random.random() < fault.rate:
                time.sleep(fault.random.random() ** 4 * LONGEST)
            if fault.kind is Kind.PLUGIN and fault.random.random() < fault.rate:
                answer = fault.random.choice(answers)
                if isinstance(answer, type):
                    raise answer("the plugin is unreliable")
                return answer
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        answer: Status | None = self._misbehave((RuntimeError, "nonsense", Status(Code.UNSCHEDULABLE, "no")))
        return answer

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        answer: Status | None = self._misbehave((RuntimeError, Status(Code.UNSCHEDULABLE, "no")))
        return answer

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        wait = Status(Code.WAIT, "not yet", timeout=2.0)
        answer: Status | None = self._misbehave((RuntimeError, wait, Status(Code.UNSCHEDULABLE, "no")))
        return answer

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        answer = self._misbehave((RuntimeError, 5.0, 20.0, "nonsense"))
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return None
        result: Status | None = answer
        return result
