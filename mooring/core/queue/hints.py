"""Which events bring a refused pod back, by what its refusing plugins registered."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from mooring.core.event_map import with_node_taint
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.framework.events import ClusterEvent, EventHint, Hint, QueueingHint
from mooring.framework.pod import PodInfo

logger = logging.getLogger(__name__)

ProfileHints = Mapping[str, Iterable[EventHint]]
_EventKey = tuple[str, int]


class Strategy(IntEnum):
    """What to do with a refused pod after an event."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class Check(NamedTuple):
    """One hint to ask, and what follows if it says Queue."""

    plugin: str
    hint: QueueingHint
    strategy: Strategy


class Plan(NamedTuple):
    """How to decide about an event for all pods refused by the same plugins.

    The checks that lead farthest come first, so the first Queue decides; `otherwise` is the answer without.
    """

    checks: tuple[Check, ...]
    otherwise: Strategy

    def decide(self, pod: PodInfo, old: Any, new: Any) -> Strategy:
        for plugin, hint, strategy in self.checks:
            try:
                answer = hint(pod, old, new)
            except Exception:
                # A pod tried in vain costs little; a pod never tried again is lost.
                logger.exception("queueing hint of plugin %s failed; pod %s is retried", plugin, pod.key)
                return strategy
            if answer is not Hint.SKIP:
                return strategy
        return self.otherwise


FUTILE = Plan((), Strategy.SKIP)
ALWAYS = Plan((), Strategy.AFTER_BACKOFF)


def _for_this_pod(pod: PodInfo, old: Any, new: Any) -> Hint:
    """A wildcard event concerns every pod, or just the one that it carries."""
    mine = new is None or (isinstance(new, PodInfo) and new.uid == pod.uid)
    return Hint.QUEUE if mine else Hint.SKIP


_WILDCARD = Plan((Check("*", _for_this_pod, Strategy.AFTER_BACKOFF),), Strategy.SKIP)


class Rejectors:
    """A set of plugins that refused pods of a profile; one object for all pods that they refused.

    What an event means to such pods is worked out once.
    """

    __slots__ = ("_plans", "hints", "pending", "unschedulable")

    def __init__(
        self, hints: ProfileHints | None, unschedulable: frozenset[str], pending: frozenset[str]
    ) -> None:
        self.hints = hints  # None: nothing is known of the profile
        self.unschedulable = unschedulable
        self.pending = pending
        self._plans: dict[_EventKey, Plan] = {}

    def plan(self, event: ClusterEvent) -> Plan:
        key = (event.resource, event.action)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._make(event)
        return plan

    def _make(self, event: ClusterEvent) -> Plan:
        plugins = self.unschedulable | self.pending
        if not plugins:
            return ALWAYS
        if event.wildcard:
            return _WILDCARD
        if self.hints is None:
            return ALWAYS
        checks: list[Check] = []
        otherwise = Strategy.SKIP
        for plugin in sorted(plugins):
            strategy = Strategy.IMMEDIATELY if plugin in self.pending else Strategy.AFTER_BACKOFF
            for registered, hint in _matching(self.hints.get(plugin, ()), event):
                if hint is None:
                    otherwise = max(otherwise, strategy)
                else:
                    checks.append(Check(registered, hint, strategy)._replace(plugin=plugin))
        return _reduced(checks, otherwise)
