"""Running the placement extension points of a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.framework.nodes import Nodes
from mooring.framework.placements import Placement, PlacementPlan, PodGroupInfo
from mooring.framework.plugin import Plugin, overrides
from mooring.framework.status import Code, Status
from mooring.runtime.containment import CONTAINED
from mooring.runtime.runners import PluginError, raised, unexpected

NO_PLACEMENTS = "no feasible placements found"
MAX_SCORE = 100


class PlacementRunner:
    """The plugin that offers placements, and those that score them."""

    def __init__(
        self, generators: Sequence[Plugin], scorers: Sequence[Plugin], weights: Mapping[str, int]
    ) -> None:
        self._generator = generators[0] if generators else None
        self._scorers = scorers
        self._weights = weights

    @property
    def scored_by_members(self) -> bool:
        """Whether scores follow from the placement and the members with a place, whichever node they get: a
        class says so with `scores_members = True` next to its own score_placement."""
        return all("scores_members" in vars(type(plugin)) for plugin in self._scorers)

    def generate(self, group: PodGroupInfo, nodes: Nodes) -> Sequence[Placement] | Status:
        """The placements to try; all nodes as one where no plugin says otherwise."""
        plugin = self._generator
        if plugin is None:
            return [Placement("")]
        try:
            answer = plugin.generate_placements(group, nodes)
        except CONTAINED as exc:
            problem = str(raised(plugin.name, "generate_placements", exc))
            return Status(Code.ERROR, problem, plugin=plugin.name)
        if isinstance(answer, Status):
            return answer.by(plugin.name)
        if not isinstance(answer, Sequence) or not all(isinstance(each, Placement) for each in answer):
            expected = "a list of Placement, or a Status"
            problem = unexpected("generate_placements", answer, expected)
            return Status(Code.ERROR, problem, plugin=plugin.name)
        return answer or Status(Code.UNSCHEDULABLE, NO_PLACEMENTS, plugin=plugin.name)

    def scores(self, group: PodGroupInfo, plans: Sequence[PlacementPlan]) -> list[int]:
        """The total score of each plan; raises PluginError where a plugin fails."""
        totals = [0] * len(plans)
        for plugin in self._scorers:
            weight = self._weights.get(plugin.name, 1)
            for i, score in enumerate(self._scores_of(plugin, group, plans)):
                totals[i] += weight * score
        return totals

    def _scores_of(
        self, plugin: Plugin, group: PodGroupInfo, plans: Sequence[PlacementPlan]
    ) -> Sequence[int]:
        prefix = f'running PlacementScore plugins: plugin "{plugin.name}" failed with: '
        try:
            scores: Sequence[int] = [plugin.score_placement(group, plan) for plan in plans]
            if overrides(type(plugin), "normalize_placement_scores"):
                scores = plugin.normalize_placement_scores(group, scores)
        except CONTAINED as exc:
            raise PluginError(plugin.name, prefix + str(raised(plugin.name, "score_placement", exc))) from exc
        for score in scores:
            if not isinstance(score, int) or not 0 <= score <= MAX_SCORE:
                raise PluginError(plugin.name, f"{prefix}score {score!r} is not between 0 and {MAX_SCORE}")
        return scores
