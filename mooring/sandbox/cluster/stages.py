"""How far a pod is after the scheduler decided about it: chosen, waiting in Permit, bound, or failed."""

from __future__ import annotations

import re
import time
from typing import NamedTuple, Protocol

from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain import words
from mooring.explain.log import DecisionLog
from mooring.explain.text import why

CHOSEN, WAITING, BOUND, FAILED, PENDING = "chosen", "waiting", "bound", "failed", "pending"
_PREFIX = re.compile(r"^0/\d+ nodes are available: ")
_SUFFIX = re.compile(r"\. no new claims to deallocate.*$|\. preemption: .*$", re.DOTALL)
_PLUGIN = re.compile(r'running \w+ plugin "([^"]+)": ')


class Stage(NamedTuple):
    name: str
    node: str
    text: str


class Deciding(Protocol):
    """A scheduler and the log of its decisions."""

    @property
    def core(self) -> Scheduler: ...
    @property
    def decisions(self) -> DecisionLog: ...


def stage_of(scheduler: Deciding | None, decision: Decision) -> Stage:
    """Return how far the pod of a decision is by now."""
    if not decision.node:
        return Stage(PENDING, "", brief(decision))
    attempts = () if scheduler is None else scheduler.decisions.of(decision.pod)
    if scheduler is None or not attempts:
        return Stage(BOUND, decision.node, why(decision))
    last, core = attempts[-1], scheduler.core
    failure = last.decision
    if failure.tried_node:
        times = f"×{last.count}: " if last.count > 1 else ""
        return Stage(FAILED, failure.tried_node, f"{times}{brief(failure)}")
    held = core.waiting.get(last.uid)
    if held is not None:
        until = time.strftime("%H:%M:%S", time.localtime(held.deadline))
        return Stage(WAITING, decision.node, f"{words.joined(held.pending_plugins, 'and')} until {until}")
    pod = core.intake.pod(last.uid)
    if pod is not None and not pod.node_name:
        return Stage(CHOSEN, decision.node, why(decision))
    return Stage(BOUND, decision.node, why(decision))


def brief(decision: Decision) -> str:
    """Return why a pod is pending without what all messages have in common, the dominant reason first."""
    if decision.post_filter is not None and decision.post_filter.victims:
        return why(decision)
    groups = [each for each in decision.refused if each.reasons]
    if decision.tried_node or not groups:
        return _PLUGIN.sub(r"\1: ", _SUFFIX.sub("", _PREFIX.sub("", decision.message)))
    groups.sort(key=lambda each: -each.nodes)
    return ", ".join(f"{each.nodes} {' and '.join(each.reasons)}" for each in groups).replace("node(s) ", "")
