"""FlowSchemas say whether their priority level exists."""

from __future__ import annotations

from mooring.sandbox.controllers.flow_schema_status import LEVELS, SCHEMAS, FlowSchemaStatuses
from tests.sandbox.controllers.kit import Embedded, play

SUBJECT = {"kind": "User", "user": {"name": "jane"}}
RULE = {"verbs": ["*"], "nonResourceURLs": ["*"]}


def test_a_schema_dangles_without_its_level() -> None:
    async def scene(stage: Embedded) -> None:
        async def dangling() -> str:
            await stage.rest()
            (condition,) = (await stage.cluster.get(SCHEMAS, "jane")).status.conditions
            return f"{condition.type} {condition.status} {condition.reason}"

        spec = {
            "priorityLevelConfiguration": {"name": "few"},
            "matchingPrecedence": 1000,
            "rules": [{"subjects": [SUBJECT], "nonResourceRules": [RULE]}],
        }
        await stage.cluster.create(SCHEMAS, {"metadata": {"name": "jane"}, "spec": spec})
        assert await dangling() == "Dangling True NotFound"
        limited = {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}
        level = {"metadata": {"name": "few"}, "spec": {"type": "Limited", "limited": limited}}
        await stage.cluster.create(LEVELS, level)
        assert await dangling() == "Dangling False Found"
        await stage.cluster.delete(LEVELS, "few")
        assert await dangling() == "Dangling True NotFound"

    play(scene, FlowSchemaStatuses)
