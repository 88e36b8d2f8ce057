"""How often each plugin took part in an attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from mooring.runtime.observer import Points
from mooring.runtime.profile import Profile

_EVALUATED = {"PreFilter": "preFilter", "Filter": "filter", "PreScore": "preScore", "Score": "score"}


class Evaluations:
    """Counts which plugins took no part: that is one number an attempt, and most attempts are alike."""

    def __init__(self) -> None:
        self._cycles: Counter[tuple[str, Points, frozenset[str], frozenset[str]]] = Counter()

    def add(
        self,
        cycles: int,
        profile: str,
        points: Points,
        skip_filter: frozenset[str],
        skip_score: frozenset[str],
    ) -> None:
        """So many cycles reached these points, without the plugins that skipped."""
        self._cycles[profile, points, skip_filter, skip_score] += cycles

    def counts(self, profiles: Iterable[Profile]) -> Iterator[tuple[tuple[str, ...], int]]:
        """The cycles in which a plugin took part, by plugin, extension point and profile."""
        for profile in profiles:
            for point, name in _EVALUATED.items():
                for plugin in profile.points.get(name, ()):
                    yield (plugin, point, profile.scheduler_name), self._count(profile, plugin, point)

    def _count(self, profile: Profile, plugin: str, point: str) -> int:
        total = 0
        for (name, points, skip_filter, skip_score), cycles in self._cycles.items():
            skipped = skip_filter if point.endswith("Filter") else skip_score
            if name == profile.scheduler_name and point in points and plugin not in skipped:
                total += cycles
        return total
