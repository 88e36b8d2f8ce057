"""Which events bring a refused pod back, by what its refusing plugins registered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from mooring.core.event_map import with_node_taint
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.framework.events import ClusterEvent, EventHint, Hint, QueueingHint
from mooring.framework.pod import GroupKey, PodInfo
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside
from mooring.runtime.observer import Observer

logger = logging.getLogger(__name__)

ProfileHints = Mapping[str, Iterable[EventHint]]
TimeHint = Callable[[str, str, QueueingHint], QueueingHint]
_EventKey = tuple[str, int]


def hint_timer(observer: Observer) -> TimeHint:
    """Return a function that wraps a plugin's hint so that the observer learns its answers and times."""

    def time_hint(plugin: str, event: str, hint: QueueingHint) -> QueueingHint:
        timer, record = observer.timer, observer.hint(plugin, event)

        def ask(pod: PodInfo, old: Any, new: Any) -> Hint:
            label, began = "Error", timer()
            try:
                answer = hint(pod, old, new)
                label = "QueueSkip" if answer is Hint.SKIP else "Queue"
                return answer
            finally:
                record(label, timer() - began)

        return ask

    return time_hint


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
    groups: Callable[[Any, Any], Iterable[GroupKey]] | None = None


class Plan(NamedTuple):
    """How to decide about an event for all pods refused by the same plugins.

    The checks that lead farthest come first, so the first Queue decides; `otherwise` is the answer without.
    """

    checks: tuple[Check, ...]
    otherwise: Strategy

    @property
    def futile(self) -> bool:
        """Whether no pod can come back."""
        return not self.checks and self.otherwise is Strategy.SKIP

    def groups(self, old: Any, new: Any) -> set[GroupKey] | None:
        """The groups whose pods may come back; None: all pods may."""
        scopes = [check.groups for check in self.checks if check.groups is not None]
        if self.otherwise is not Strategy.SKIP or len(scopes) < len(self.checks):
            return None
        try:
            return {key for scope in scopes for key in scope(old, new)}
        except CONTAINED as exc:
            reraise_if_from_outside(exc)
            logger.exception("groups of a queueing hint failed; all pods are asked about")
            return None

    def decide(self, pod: PodInfo, old: Any, new: Any) -> Strategy:
        for plugin, hint, strategy, _ in self.checks:
            try:
                answer = hint(pod, old, new)
            except CONTAINED as exc:
                reraise_if_from_outside(exc)
                # A pod tried in vain costs little; a pod never tried again is lost.
                logger.exception("queueing hint of plugin %s failed; pod %s is retried", plugin, pod.key)
                return strategy
            if answer is not Hint.SKIP:
                return strategy
        return self.otherwise


_ALWAYS = Plan((), Strategy.AFTER_BACKOFF)


def _for_this_pod(pod: PodInfo, old: Any, new: Any) -> Hint:
    """A wildcard event concerns every pod, or just the one that it carries."""
    mine = new is None or (isinstance(new, PodInfo) and new.uid == pod.uid)
    return Hint.QUEUE if mine else Hint.SKIP


_WILDCARD = Plan((Check("*", _for_this_pod, Strategy.AFTER_BACKOFF),), Strategy.SKIP)


class Rejectors:
    """A set of plugins that refused pods of a profile; one object for all pods that they refused.

    What an event means to such pods is worked out once.
    """

    __slots__ = ("_plans", "_time_hint", "hints", "pending", "unschedulable")

    def __init__(
        self,
        hints: ProfileHints | None,
        unschedulable: frozenset[str],
        pending: frozenset[str],
        time_hint: TimeHint | None,
    ) -> None:
        self.hints = hints  # None: nothing is known of the profile
        self.unschedulable = unschedulable
        self.pending = pending
        self._time_hint = time_hint
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
            return _ALWAYS
        if event.wildcard:
            return _WILDCARD
        if self.hints is None:
            return _ALWAYS
        checks: list[Check] = []
        otherwise = Strategy.SKIP
        for plugin in sorted(plugins):
            strategy = Strategy.IMMEDIATELY if plugin in self.pending else Strategy.AFTER_BACKOFF
            for registration in self.hints.get(plugin, ()):
                hint = registration.hint
                if not registration.event.matches(event):
                    continue
                if hint is None:
                    otherwise = max(otherwise, strategy)
                    continue
                if self._time_hint is not None:
                    hint = self._time_hint(plugin, event.name, hint)
                checks.append(Check(plugin, hint, strategy, registration.groups))
        # A hint that could say no more than what follows anyway need not be asked.
        checks = [check for check in checks if check.strategy > otherwise]
        checks.sort(key=lambda check: -check.strategy)
        return Plan(tuple(checks), otherwise)


class Registrations:
    """The events that the plugins of all profiles are woken by."""

    __slots__ = ("_by_profile", "_interest", "_rejectors", "_time_hint")

    def __init__(self, hints: Mapping[str, ProfileHints], time_hint: TimeHint | None = None) -> None:
        self._time_hint = time_hint
        self._by_profile = {
            profile: {plugin: with_node_taint(registered) for plugin, registered in plugins.items()}
            for profile, plugins in hints.items()
        }
        self._interest: dict[_EventKey, frozenset[str]] = {}
        self._rejectors: dict[tuple[str, frozenset[str], frozenset[str]], Rejectors] = {}

    def interested(self, event: ClusterEvent) -> frozenset[str]:
        """Return the plugins, of any profile, that registered for an event; empty if it retries no pod.

        A wildcard event concerns all plugins, so callers must check for it first.
        """
        key = (event.resource, event.action)
        plugins = self._interest.get(key)
        if plugins is None:
            plugins = self._interest[key] = frozenset(
                plugin
                for profile in self._by_profile.values()
                for plugin, registered in profile.items()
                if any(each.event.matches(event) for each in registered)
            )
        return plugins

    def rejectors_of(self, queued: QueuedPodInfo) -> Rejectors:
        """Who refused a pod, as the object that all pods refused by the same share."""
        profile = queued.pod.scheduler_name
        key = (profile, queued.unschedulable_plugins, queued.pending_plugins)
        rejectors = self._rejectors.get(key)
        if rejectors is None:
            rejectors = Rejectors(self._by_profile.get(profile), *key[1:], self._time_hint)
            self._rejectors[key] = rejectors
        return rejectors

    def awaited(self, queued: QueuedPodInfo) -> dict[str, list[ClusterEvent]]:
        """The events that may bring a refused pod back, by refusing plugin."""
        hints = self._by_profile.get(queued.pod.scheduler_name, {})
        plugins = sorted(queued.unschedulable_plugins | queued.pending_plugins)
        return {plugin: [each.event for each in hints.get(plugin, ())] for plugin in plugins}
