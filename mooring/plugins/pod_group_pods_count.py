"""PodGroupPodsCount: prefer the placement that takes most members of the group."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.framework.placements import PlacementPlan, PodGroupInfo
from mooring.framework.plugin import Plugin

MAX_SCORE = 100


class PodGroupPodsCount(Plugin):
    """Counts the members with a place, those scheduled earlier included, in percent of the best placement."""

    name = "PodGroupPodsCount"
    scores_members = True

    def score_placement(self, group: PodGroupInfo, plan: PlacementPlan) -> int:
        return len(group.scheduled) + len(plan.assignments)

    def normalize_placement_scores(self, group: PodGroupInfo, scores: Sequence[int]) -> Sequence[int]:
        most = max(scores)
        if most == 0:
            raise ValueError("no pods from pod group are assigned to any of the candidate placements")
        return [score * MAX_SCORE // most for score in scores]
