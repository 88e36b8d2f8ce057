"""Finding the victims of a group: the fewest pods that must leave for the whole group to start.

All candidates are removed, and put back where the group still fits, most important first, so that every
victim is needed. The set is then improved: a pod that stands in for several victims takes their place.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from mooring.core.groups.slices import Sliced, finish, paced
from mooring.core.groups.trials import CountedTrial, Trial
from mooring.core.groups.units import Unit
from mooring.framework.pod import PodInfo
from mooring.plugins.default_preemption.budgets import Budgets, split_by_budgets
from mooring.plugins.default_preemption.victims import importance

MANY_UNITS = 2000  # beyond which not every unit is tried by itself

Cost = tuple[int, int, int, int]  # violated budgets, victims, their highest priority, the sum of priorities


class Victims(msgspec.Struct, eq=False):
    """Who must leave, and where the members go then."""

    pods: list[PodInfo]  # most important first
    violating: list[PodInfo]  # those whose eviction a budget forbids
    nodes: Mapping[str, str] | None  # by uid of the member; None: as was planned
    cost: Cost = (0, 0, 0, 0)


class VictimSearch:
    """One search, in one trial."""

    def __init__(self, units: Sequence[Unit], trial: Trial, budgets: Budgets) -> None:
        self._trial = trial
        self._budgets = budgets
        units = sorted(units, key=lambda unit: unit.importance)
        protected = {pod.uid for pod in self.violating([pod for unit in units for pod in unit.pods])}
        self._protected = protected
        self._units = sorted(units, key=lambda unit: not any(pod.uid in protected for pod in unit.pods))
        self._gone: dict[str, PodInfo] = {}
        self._checks = 0

    def violating(self, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """The pods whose eviction a budget forbids, if all of these leave."""
        return split_by_budgets(sorted(pods, key=importance), self._budgets)[0] if self._budgets else []

    def fewest(self, leaving: Iterable[PodInfo]) -> Sliced[Victims | None]:
        """The fewest victims once those that are leaving are gone; None where the group does not start even
        without all candidates."""
        for pod in leaving:
            self._trial.remove(pod)
        if not self._trial.fits():
            victims = yield from self._search()
            if victims is None:
                return None
            self._set(victims)
        pods = sorted(self._gone.values(), key=importance)
        return Victims(pods, self.violating(pods), self._trial.nodes(), self._cost(self._gone))

    def _search(self) -> Sliced[dict[str, PodInfo] | None]:
        yield
        few = len(self._units) <= MANY_UNITS
        solutions = []
        if few or not isinstance(self._trial, CountedTrial):
            if not self._take_least_important():
                return None
            solutions.append(dict(self._gone))
        if isinstance(self._trial, CountedTrial):
            self._set({})
            if not (yield from self._take_cheapest(self._trial)):
                return None
            yield
            solutions.append((yield from self._reprieved()))
        best = min(solutions, key=self._cost)
        return self._improved(best) if few else best

    def _take_least_important(self) -> bool:
        """Remove all candidates, and put back those without which the group still fits, most important
        first. Whether it fits without all of them."""
        for unit in self._units:
            self._remove(unit.pods)
        if not self._trial.fits():
            return False
        finish(self._reprieved())
        return True

    # ---- sets of victims

    def _remove(self, pods: Iterable[PodInfo]) -> None:
        for pod in pods:
            if pod.uid not in self._gone:
                self._trial.remove(pod)
                self._gone[pod.uid] = pod

    def _put_back(self, pods: Iterable[PodInfo]) -> None:
        for pod in pods:
            self._trial.put_back(self._gone.pop(pod.uid))

    def _set(self, pods: dict[str, PodInfo]) -> None:
        self._put_back([pod for pod in self._gone.values() if pod.uid not in pods])
        self._remove(pods.values())

    def _fits(self) -> bool:
        self._checks += 1
        return self._trial.fits()

    def _cost(self, victims: dict[str, PodInfo]) -> Cost:
        pods = victims.values()
        priorities = [pod.priority for pod in pods]
        return len(self.violating(pods)), len(pods), max(priorities, default=0), sum(priorities)

    def _reprieved(self) -> Sliced[dict[str, PodInfo]]:
        """Put back every unit without which the group still fits; who is left."""
        for unit, is_due in paced(self._units):
            self._reprieve(unit)
            if is_due:
                yield
        return dict(self._gone)

    def _reprieve(self, unit: Unit) -> None:
        gone = [pod for pod in unit.pods if pod.uid in self._gone]
        if not gone:
            return
        if not unit.surplus:
            self._put_back(gone)
            if not self._fits():
                self._remove(gone)
            return
        back: list[PodInfo] = []
        for pod in sorted(gone, key=importance):
            self._put_back([pod])
            if self._fits():
                back.append(pod)
            else:
                self._remove([pod])
        if len(gone) - len(back) > unit.surplus:  # what is left of the gang would not run
            self._remove(back)

    def _improved(self, best: dict[str, PodInfo]) -> dict[str, PodInfo]:
        """Replace victims by fewer ones, while a single unit more makes several others unnecessary."""
        cost, self._checks = self._cost(best), 0
        for unit, pods in self._moves():
            if self._checks > self._trial.most_checks or cost[:2] <= (0, 1):
                break
            self._set(best)
            gone = {pod.uid for pod in unit.pods if pod.uid in self._gone} | {pod.uid for pod in pods}
            if unit.surplus < len(gone) < len(unit.pods):  # what is left of the gang would not run
                continue
            self._remove(pods)
            for other in self._units:
                if other is not unit:
                    self._reprieve(other)
            new_cost = self._cost(self._gone)
            if new_cost < cost:
                best, cost = dict(self._gone), new_cost
        return best

    def _moves(self) -> Iterator[tuple[Unit, Sequence[PodInfo]]]:
        """What may be evicted in addition, least important first."""
        for unit in reversed(self._units):
            yield unit, unit.pods
            for pod in reversed(unit.pods) if unit.surplus else ():
                yield unit, [pod]

    # ---- a first set for many candidates

    def _take_cheapest(self, trial: CountedTrial) -> Sliced[bool]:
        """Remove pods row by row where they make most places for each victim, then gangs, until it fits;
        whether it does."""
        single = [unit for unit in self._units if len(unit.pods) == 1 or unit.surplus]
        harmless = [pod for unit in single for pod in unit.pods if pod.uid not in self._protected]
        yield from self._take_by_row(trial, harmless)
        if not trial.fits():
            yield from self._take_by_row(trial, [pod for unit in single for pod in unit.pods])
        for unit in reversed(self._units):
            if trial.fits():
                break
            self._remove(unit.pods)
        return trial.fits()

    def _take_by_row(self, trial: CountedTrial, pods: Iterable[PodInfo]) -> Sliced[None]:
        surplus = {
            unit.pods[0].group: unit.surplus - sum(pod.uid in self._gone for pod in unit.pods)
            for unit in self._units
            if unit.surplus
        }
        by_row: dict[int, list[PodInfo]] = {}
        for pod in pods:
            row = trial.row(pod)
            if row is not None and pod.uid not in self._gone:
                by_row.setdefault(row, []).append(pod)
        offers: list[tuple[float, int, int, int]] = []
        for (row, present), is_due in paced(by_row.items()):
            # The largest last, and among equals the least important: they are taken from the end.
            present.sort(key=lambda pod: (trial.share(pod), importance(pod)))
            self._offer(trial, row, present, offers)
            if is_due:
                yield
        heapq.heapify(offers)
        while offers and not trial.fits():
            _, _, row, count = heapq.heappop(offers)
            present = by_row[row]
            for pod in [present.pop() for _ in range(count)]:
                if pod.group in surplus:
                    if not surplus[pod.group]:
                        continue
                    surplus[pod.group] -= 1
                self._remove([pod])
            self._offer(trial, row, present, offers, push=True)

    def _offer(
        self,
        trial: CountedTrial,
        row: int,
        present: Sequence[PodInfo],
        offers: list[tuple[float, int, int, int]],
        push: bool = False,
    ) -> None:
        """Add how many victims on a row make how many places, at the best ratio."""
        before, best, priorities = trial.capacities[row], None, 0
        capacities = trial.capacities_without(row, reversed(present))
        for count, (pod, capacity) in enumerate(zip(reversed(present), capacities, strict=True), 1):
            priorities += pod.priority
            if capacity > before:
                offer = (count / (capacity - before), priorities, row, count)
                best = offer if best is None or offer < best else best
        if best is not None and push:
            heapq.heappush(offers, best)
        elif best is not None:
            offers.append(best)
