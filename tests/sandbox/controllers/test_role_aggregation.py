"""Aggregated roles of many rules, some of which aggregate each other."""

from __future__ import annotations

from mooring.sandbox.controllers.role_aggregation import RoleAggregation
from tests.sandbox.controllers.kit import Embedded, play
from tests.sandbox.controllers.upkeep_scenes import cluster_role

LABELS = {"part": "of"}
ALL = {"clusterRoleSelectors": [{"matchLabels": LABELS}]}


def rule(number: int) -> dict[str, list[str]]:
    return {"apiGroups": [f"group{number}"], "resources": ["*"], "verbs": ["get"]}


def test_rules_are_merged_once() -> None:
    async def scene(stage: Embedded) -> None:
        rules = [rule(number) for number in range(500)]
        await stage.create(cluster_role("one", LABELS, *rules, *rules))
        await stage.create(cluster_role("sum", {}, aggregationRule=ALL))
        await stage.rest()
        assert (await stage.get("clusterroles", "sum"))["rules"] == rules

    play(scene, RoleAggregation)


def test_roles_that_aggregate_each_other_come_to_an_end() -> None:
    async def scene(stage: Embedded) -> None:
        for number in range(5):
            await stage.create(cluster_role(f"r{number}", LABELS, rule(number), aggregationRule=ALL))
        await stage.rest()
        groups = {rule["apiGroups"][0] for rule in (await stage.get("clusterroles", "r0"))["rules"]}
        assert groups == {f"group{number}" for number in range(1, 5)}  # it was alone with its own

    play(scene, RoleAggregation)
