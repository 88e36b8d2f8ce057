"""One scheduling cycle's choice: which node for this pod?

    pre_filter → filter (twice where nominated pods stand in the way) → extenders filter
               → pre_score → score → normalize → extenders prioritize → pick

The algorithm decides; it changes nothing in the cluster's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.core.crowding import CROWDING, Crowding, refusals_with
from mooring.core.diagnosis import Diagnosis
from mooring.core.extenders import Extenders, ExtenderScores
from mooring.core.nominator import Nominator
from mooring.framework.nodes import BoolArray, IntArray
from mooring.framework.pod import PodInfo
from mooring.framework.status import SUCCESS, Code, Status
from mooring.runtime.changes import Changes
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.engine_state import EngineState
from mooring.runtime.extender import ExtenderCallError
from mooring.runtime.filtering import Answer
from mooring.runtime.profile import Profile, ShapeCache
from mooring.runtime.runners import PluginError
from mooring.runtime.scoring import Scoring
from mooring.runtime.stopwatch import Stopwatch
from mooring.runtime.totals import BestRows
from mooring.state.cluster import ClusterState

NO_REFUSALS: Mapping[int, Status] = {}
NO_NODES = "no nodes available to schedule pods"
NO_TOTALS: IntArray = np.zeros(0, np.int64)


class Choice(msgspec.Struct, eq=False):
    """What a cycle came to. `row` is None where the pod does not fit, and after a failure."""

    state: EngineState
    diagnosis: Diagnosis
    row: int | None = None
    node_name: str = ""
    changes: Changes | None = None  # what filtering had to look at again
    feasible: BoolArray | None = None
    candidates: EngineNodes | None = None  # the feasible nodes, where one was to be chosen among them
    scoring: Scoring | None = None  # None where no scores were needed
    extended: list[ExtenderScores] = []  # what extenders added to them
    total: IntArray = NO_TOTALS  # the sum of all scores by row, where there are scores
    best: BestRows | None = None  # the rows with the highest total
    failure: PluginError | None = None  # a filter's, which fails the attempt

    @property
    def scored_by(self) -> list[str]:
        """Those whose scores `scores` gives."""
        columns = () if self.scoring is None else self.scoring.columns
        return [column.runner.name for column in columns] + [each.name for each in self.extended]

    def scores(self, row: int) -> list[int]:
        """What a row was given, weighted."""
        plugins = [] if self.scoring is None else self.scoring.weighted(row)
        return plugins + [each.raw.item(row) * each.weight for each in self.extended]


class Algorithm:
    """Chooses nodes; `pick` gives a random index below n."""

    def __init__(
        self,
        cluster: ClusterState,
        nominator: Nominator,
        pick: Callable[[int], int],
        percentage_of_nodes_to_score: int,
        extenders: Extenders,
        clock: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._nominator = nominator
        self._pick = pick
        self._percentage = percentage_of_nodes_to_score
        self._extenders = extenders
        self._clock = clock
        self._next_start = 0
        self.prefer: Callable[[PodInfo], str] | None = None

    def choose(
        self, profile: Profile, pod: PodInfo, score_anyway: bool = False, within: BoolArray | None = None
    ) -> Choice:
        """Find the best node for a pod; raises PluginError where a plugin fails.

        `score_anyway` scores also where the choice does not need it, for explanations. `within` are the rows
        of the placement to which the pod's group is restricted.
        """
        nodes = self._cluster.nodes
        cache = profile.cache_for(pod.shape, len(nodes))
        stopwatch = profile.stopwatch
        choice = self._filtered(profile, pod, nodes, cache, stopwatch, within)
        if choice.row is None and choice.feasible is not None and choice.failure is None:
            choice.candidates = self._candidates(profile, nodes, cache, choice)
            if self._extenders:
                self._narrow(pod, nodes, choice, stopwatch)
            self._score(profile, pod, nodes, cache, choice, score_anyway, stopwatch)
            if choice.best is not None:
                best = choice.best
                choice.row = int(best[self._pick_one(pod, best) if len(best) > 1 else 0])
        return self._finished(choice)

    def _pick_one(self, pod: PodInfo, best: BestRows) -> int:
        """The index of one of the best rows: the preferred node's if it is among them."""
        if self.prefer is not None:
            row = self._cluster.table.row_of.get(self.prefer(pod), -1)
            for index, each in enumerate(best):
                if each == row:
                    return index
        return self._pick(len(best))

    def rehearse(self, profile: Profile, pod: PodInfo, score: bool, without: Set[str]) -> Choice:
        """`choose` for those who only ask: all nodes, the first of the best, and nothing kept of it.

        The plugins of `without` do not filter.

        Extenders are asked where scores are wanted, which is once for each explanation.
        """
        nodes = self._cluster.nodes
        cache = ShapeCache(profile, without)
        choice = self._filtered(profile, pod, nodes, cache, None)
        if choice.failure is not None:
            raise choice.failure
        if score and self._extenders and choice.row is None and choice.feasible is not None:
            self._narrow(pod, nodes, choice, None)
        if score and choice.feasible is not None and choice.feasible.any():
            choice.candidates = nodes.where(choice.feasible)
            self._score(profile, pod, nodes, cache, choice, True, None)
            if choice.row is None and choice.best is not None:
                choice.row = int(choice.best[0])
        return self._finished(choice)

    def filtered(self, profile: Profile, pod: PodInfo) -> Choice:
        """What the filters say about a pod, without choosing a node; raises PluginError."""
        nodes = self._cluster.nodes
        return self._filtered(profile, pod, nodes, profile.cache_for(pod.shape, len(nodes)), None)

    @contextmanager
    def in_rehearsal(self) -> Iterator[None]:
        """While this lasts, `choose` takes the first of the best, and later choices do not notice it."""
        pick, start = self._pick, self._next_start
        self._pick = lambda n: 0
        try:
            yield
        finally:
            self._pick, self._next_start = pick, start

    def _filtered(
        self,
        profile: Profile,
        pod: PodInfo,
        nodes: EngineNodes,
        cache: ShapeCache,
        stopwatch: Stopwatch | None,
        within: BoolArray | None = None,
    ) -> Choice:
        diagnosis = Diagnosis(self._cluster.table.row_of, within=within)
        choice = Choice(EngineState(cache.values), diagnosis)
        if stopwatch is not None:
            choice.state.sampling = stopwatch.cycle_samples.next()
        if len(nodes) and self._pre_filter(profile, cache, pod, nodes, choice):
            if stopwatch is not None:
                stopwatch.laps.append(stopwatch.timer())
            self._filter(profile, pod, nodes, cache, choice)
            if stopwatch is not None:
                stopwatch.laps.append(stopwatch.timer())
        return choice

    def _finished(self, choice: Choice) -> Choice:
        if choice.row is not None:
            choice.node_name = self._cluster.table.names[choice.row]
        else:
            choice.diagnosis.finish()
        return choice

    def _pre_filter(
        self, profile: Profile, cache: ShapeCache, pod: PodInfo, nodes: EngineNodes, choice: Choice
    ) -> bool:
        outcome = profile.pre_filter(cache, choice.state, pod, nodes)
        diagnosis = choice.diagnosis
        if outcome.restricting:
            diagnosis.unschedulable_plugins.update(outcome.restricting)
            diagnosis.node_names = outcome.node_names
        if outcome.status is not SUCCESS:
            diagnosis.absent = diagnosis.pre_filter = outcome.status
            diagnosis.blame(outcome.status)
            return False
        if outcome.node_names is not None:
            diagnosis.allowed = np.zeros(len(nodes), np.bool_)
            rows = [row for name in outcome.node_names if (row := nodes.index(name)) is not None]
            diagnosis.allowed[rows] = True
        return True

    def _filter(
        self, profile: Profile, pod: PodInfo, nodes: EngineNodes, cache: ShapeCache, choice: Choice
    ) -> None:
        diagnosis, filtering = choice.diagnosis, cache.filtering
        nominated = pod.pod.status.nominated_node_name
        nominated_row = nodes.index(nominated) if nominated else None
        if nominated_row is not None and diagnosis.within is not None and not diagnosis.within[nominated_row]:
            nominated_row = None
        try:
            changes = choice.changes = filtering.refresh(choice.state, pod, nodes, diagnosis.allowed)
        except PluginError:
            # kube-scheduler asks about the nominated node first, and about no other if the pod fits there.
            if nominated_row is None or not self._fits_alone(profile, pod, nodes, nominated_row, choice):
                raise
            choice.row = nominated_row
            choice.feasible = np.arange(len(nodes)) == nominated_row
            return
        diagnosis.filtering = filtering
        crowded = self._crowded(profile, pod, nodes, choice.state, changes)
        if nominated_row is not None:
            refusal = crowded.get(nominated_row) or filtering.status(nominated_row)
            if refusal is not None:
                diagnosis.blame(refusal)
                diagnosis.explicit[nominated_row] = refusal
            elif self._passes(pod, nodes, nominated_row, diagnosis):
                choice.row = nominated_row
                choice.feasible = self._feasible(choice, filtering.feasible, crowded)
                return
        if diagnosis.allowed is not None:
            plugins = " ".join(sorted(diagnosis.unschedulable_plugins))
            reason = f"node(s) didn't satisfy plugin(s) [{plugins}]"
            diagnosis.absent = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
        choice.feasible = self._feasible(choice, filtering.feasible, crowded)
        allowed = _both(diagnosis.allowed, diagnosis.within)
        choice.failure = filtering.failure(_evaluated(allowed, crowded, len(nodes)))

    def _fits_alone(
        self, profile: Profile, pod: PodInfo, nodes: EngineNodes, row: int, choice: Choice
    ) -> bool:
        """Whether the pod fits on a node, where a filter fails for others."""
        allowed = choice.diagnosis.allowed
        if allowed is not None and not allowed[row]:
            return False
        alone = nodes.part(np.array([row]))
        if not Answer(profile.filters, choice.state, pod, alone, contained=True).passed[0]:
            return False
        others = [other for other in self._nominator.nominated_for(nodes.names[row]) if other.uid != pod.uid]
        try:
            if refusals_with(profile, pod, nodes, choice.state, [(row, others)]):
                return False
        except PluginError:
            return False
        return self._passes(pod, nodes, row, choice.diagnosis)

    def _passes(self, pod: PodInfo, nodes: EngineNodes, row: int, diagnosis: Diagnosis) -> bool:
        """Whether the extenders, too, let a pod go to the node it was promised."""
        if not self._extenders:
            return True
        alone = np.zeros(len(nodes), np.bool_)
        alone[row] = True
        try:
            return bool(self._extenders.narrow(pod, nodes, alone, diagnosis)[row])
        except ExtenderCallError:
            return False  # it is asked again about all nodes, and if it fails then, so does the attempt

    def _narrow(self, pod: PodInfo, nodes: EngineNodes, choice: Choice, stopwatch: Stopwatch | None) -> None:
        """Leave of the feasible nodes those that the extenders let pass. Their time counts as filtering."""
        feasible = choice.feasible
        assert feasible is not None
        if stopwatch is not None:
            stopwatch.laps.pop()
        narrowed = self._extenders.narrow(pod, nodes, feasible, choice.diagnosis)
        if stopwatch is not None:
            stopwatch.laps.append(stopwatch.timer())
        if narrowed is not feasible:
            choice.feasible, choice.candidates = narrowed, nodes.where(narrowed)

    def _feasible(self, choice: Choice, feasible: BoolArray, crowded: Mapping[int, Status]) -> BoolArray:
        """The rows that pass, restrictions and nominated pods considered."""
        allowed = _both(choice.diagnosis.allowed, choice.diagnosis.within)
        if allowed is None and not crowded:
            return feasible
        if allowed is not None:
            feasible = feasible & allowed
        for row, status in crowded.items():
            if allowed is None or allowed[row]:
                choice.diagnosis.explicit[row] = status
        if crowded:
            feasible = feasible.copy()
            feasible[list(crowded)] = False
        return feasible

    def _crowded(
        self, profile: Profile, pod: PodInfo, nodes: EngineNodes, state: EngineState, changes: Changes
    ) -> Mapping[int, Status]:
        """The rows where nominated pods are in the way."""
        if not self._nominator.nodes_with_nominations():
            state.discard_cached(CROWDING)
            return NO_REFUSALS
        crowding = state.cached(CROWDING, Crowding)
        refusals = crowding.refresh(profile, pod, nodes, state, self._nominator, changes)
        seconds = pod.spec.active_deadline_seconds
        if seconds is None or not refusals:
            return refusals
        end = self._clock() + seconds
        if not self._nominator.backfills(end):
            return refusals
        earlier = self._nominator.starting_before
        return refusals_with(
            profile, pod, nodes, state, [(row, earlier(nodes.names[row], end)) for row in refusals]
        )

    def _candidates(
        self, profile: Profile, nodes: EngineNodes, cache: ShapeCache, choice: Choice
    ) -> EngineNodes:
        """The feasible nodes that are to be scored: all, or the configured share of them."""
        feasible = choice.feasible
        assert feasible is not None
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self._percentage
        if percentage:
            sampled = self._sample(feasible, len(nodes), percentage)
            if sampled is not None:
                choice.feasible = sampled
                return nodes.where(sampled)
        plain = feasible is cache.filtering.feasible
        return cache.filtering.candidates(nodes) if plain else nodes.where(feasible)

    def _score(
        self,
        profile: Profile,
        pod: PodInfo,
        nodes: EngineNodes,
        cache: ShapeCache,
        choice: Choice,
        score_anyway: bool,
        stopwatch: Stopwatch | None,
    ) -> None:
        candidates = choice.candidates
        count = 0 if candidates is None else len(candidates)
        if candidates is None or count == 0:
            return
        if count == 1 and not score_anyway:
            choice.row = int(candidates.rows[0])
            return
        assert choice.feasible is not None
        assert choice.changes is not None
        profile.pre_score(cache, choice.state, pod, candidates)
        if stopwatch is not None:
            stopwatch.laps.append(stopwatch.timer())
        scoring = cache.scoring
        scoring.refresh(choice.state, pod, nodes, choice.feasible, candidates, choice.changes)
        choice.scoring, choice.total = scoring, scoring.total
        if self._extenders:
            choice.extended = self._extenders.scores(pod, candidates, len(nodes))
        if stopwatch is not None:
            stopwatch.laps.append(stopwatch.timer())
        choice.best = self._extended_best(choice) if choice.extended else scoring.best()

    def _extended_best(self, choice: Choice) -> npt.NDArray[np.intp]:
        """Add what the extenders gave, in a copy since the plugins' totals are kept; the best rows then."""
        candidates = choice.candidates
        assert candidates is not None
        choice.total = choice.total.copy()
        for each in choice.extended:
            choice.total += each.weighted
        rows = candidates.rows
        totals = choice.total[rows]
        best: npt.NDArray[np.intp] = rows[totals == totals.max()]
        return best

    def _sample(self, feasible: BoolArray, total: int, percentage: int) -> BoolArray | None:
        """Where only a share of the nodes is to be scored: that many feasible ones, going round."""
        enough = max(100, total * percentage // 100)
        if total < 100 or enough >= total:
            return None
        order = np.roll(np.arange(total), -(self._next_start % total))
        candidates = order[feasible[order]]
        if len(candidates) <= enough:
            return None
        chosen = candidates[:enough]
        self._next_start = int(candidates[enough])
        sampled = np.zeros(total, np.bool_)
        sampled[chosen] = True
        return sampled


def _both(allowed: BoolArray | None, within: BoolArray | None) -> BoolArray | None:
    """The rows of both masks; None: all."""
    if within is None:
        return allowed
    return within if allowed is None else allowed & within


def _evaluated(allowed: BoolArray | None, crowded: Mapping[int, Status], length: int) -> BoolArray | None:
    """The rows that the filters have the last word on; None: all."""
    hidden = [row for row, status in crowded.items() if status.code is not Code.ERROR]
    if not hidden:
        return allowed
    rows = np.ones(length, np.bool_) if allowed is None else allowed.copy()
    rows[hidden] = False
    return rows
