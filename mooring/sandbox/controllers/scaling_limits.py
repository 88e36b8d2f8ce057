"""How fast an autoscaler may act on its proposals: stabilization windows and the policies of `behavior`."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

import msgspec

from mooring.api.meta import Struct
from mooring.api.quantity import NANO, parse

STABLE_FOR: Final = 300  # seconds for which the highest proposal stands before replicas are removed
TOLERANCE: Final = 0.1
FASTEST, FASTEST_FROM = 2, 4
"""Without a behavior, replicas at most double at a time, or become this many."""


class Policy(Struct):
    type: Literal["Pods", "Percent"] = "Pods"
    value: int = 0
    period_seconds: int = 0

    def most(self, replicas: int) -> int:
        """Return how many there may be at the end of a period that began with this many replicas."""
        return replicas + self.value if self.type == "Pods" else math.ceil(replicas * (1 + self.value / 100))

    def least(self, replicas: int) -> int:
        """Return how few there may be at the end of a period that began with this many replicas."""
        return replicas - self.value if self.type == "Pods" else int(replicas * (1 - self.value / 100))


class ScalingRules(Struct):
    """The rules of one direction, with the defaults that the API server fills in."""

    stabilization_window_seconds: int | None = None
    select_policy: Literal["Max", "Min", "Disabled"] = "Max"
    policies: list[Policy] = []
    tolerance: str | None = None

    @property
    def tolerated(self) -> float:
        return TOLERANCE if self.tolerance is None else parse(self.tolerance) / NANO


class Behavior(Struct):
    scale_up: ScalingRules = msgspec.field(default_factory=ScalingRules)
    scale_down: ScalingRules = msgspec.field(default_factory=ScalingRules)


class Limited(NamedTuple):
    """A number of replicas after a limit was applied, with reason and message of the condition."""

    replicas: int
    reason: str
    message: str


class _Dated(NamedTuple):
    time: float
    replicas: int


class ScalingHistory:
    """The proposals for one autoscaler, and the replicas that it added and removed, while they count."""

    def __init__(self, replicas: int, now: float) -> None:
        self._proposals = [_Dated(now, replicas)]
        self._added: list[_Dated] = []
        self._removed: list[_Dated] = []

    def stabilize(self, current: int, proposed: int, behavior: Behavior | None, now: float) -> Limited:
        """Return the proposal, unless recent ones would remove or add fewer replicas; and remember it."""
        down, up = STABLE_FOR, 0
        if behavior is None:
            recent = [one.replicas for one in self._proposals if now - one.time <= down]
            stable = max([proposed, *recent])
        else:
            window = behavior.scale_down.stabilization_window_seconds
            down = STABLE_FOR if window is None else window
            up = behavior.scale_up.stabilization_window_seconds or 0
            most = max([proposed, *(one.replicas for one in self._proposals if now - one.time < down)])
            least = min([proposed, *(one.replicas for one in self._proposals if now - one.time < up)])
            stable = min(max(current, least), most)
        self._proposals = [one for one in self._proposals if now - one.time <= max(down, up)]
        self._proposals.append(_Dated(now, proposed))
        if stable == proposed:
            return Limited(stable, "ReadyForNewScale", "recommended size matches current size")
        if behavior is not None and proposed >= current:
            return Limited(stable, "ScaleUpStabilized", _STABILIZED.format("lower", "lowest"))
        return Limited(stable, "ScaleDownStabilized", _STABILIZED.format("higher", "highest"))

    def record(self, before: int, after: int, behavior: Behavior | None, now: float) -> None:
        """Remember a change of the replicas for the policies of the behavior."""
        if behavior is None:
            return
        changes = self._added if after > before else self._removed
        rules = behavior.scale_up if after > before else behavior.scale_down
        longest = max((one.period_seconds for one in rules.policies), default=0)
        changes[:] = [one for one in changes if now - one.time <= longest]
        changes.append(_Dated(now, abs(after - before)))

    def limit_by(
        self, behavior: Behavior, current: int, desired: int, least: int, most: int, now: float
    ) -> Limited:
        """Return the replicas within the bounds and the policies of a behavior."""
        if desired > current:
            fastest = max(current, self._bound(behavior.scale_up, current, now, upward=True))
            if desired > min(most, fastest):
                return _too_fast_up(fastest) if most > fastest else _too_many(most)
        elif desired < current:
            fastest = min(current, self._bound(behavior.scale_down, current, now, upward=False))
            if desired < max(least, fastest):
                return _too_fast_down(fastest) if least < fastest else _too_few(least)
        return _within(desired)

    def _bound(self, rules: ScalingRules, current: int, now: float, *, upward: bool) -> int:
        if rules.select_policy == "Disabled":
            return current
        bounds = []
        for policy in rules.policies:
            period = policy.period_seconds
            added = sum(one.replicas for one in self._added if now - one.time < period)
            removed = sum(one.replicas for one in self._removed if now - one.time < period)
            start = current - added + removed
            bounds.append(policy.most(start) if upward else policy.least(start))
        return max(bounds) if upward == (rules.select_policy == "Max") else min(bounds)


def limit_without_behavior(current: int, desired: int, least: int, most: int) -> Limited:
    """Return the replicas within the bounds of an autoscaler, and no sudden multiple of the present."""
    fastest = max(FASTEST * current, FASTEST_FROM)
    if desired < least:
        return _too_few(least)
    if desired > min(most, fastest):
        return _too_fast_up(fastest) if most > fastest else _too_many(most)
    return _within(desired)


_STABILIZED = "recent recommendations were {} than current one, applying the {} recent recommendation"


def _within(replicas: int) -> Limited:
    return Limited(replicas, "DesiredWithinRange", "the desired count is within the acceptable range")


def _too_many(replicas: int) -> Limited:
    why = "the desired replica count is more than the maximum replica count"
    return Limited(replicas, "TooManyReplicas", why)


def _too_few(replicas: int) -> Limited:
    why = "the desired replica count is less than the minimum replica count"
    return Limited(replicas, "TooFewReplicas", why)


def _too_fast_up(replicas: int) -> Limited:
    why = "the desired replica count is increasing faster than the maximum scale rate"
    return Limited(replicas, "ScaleUpLimit", why)


def _too_fast_down(replicas: int) -> Limited:
    why = "the desired replica count is decreasing faster than the maximum scale rate"
    return Limited(replicas, "ScaleDownLimit", why)
