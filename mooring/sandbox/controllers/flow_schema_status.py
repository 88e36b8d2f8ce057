"""The status of FlowSchemas: whether their priority level exists."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.kinds import ApiResource
from mooring.api.meta import Condition, KubeObject, Struct
from mooring.client.controller import Context, Controller

_GROUP = "flowcontrol.apiserver.k8s.io"


class LevelRef(Struct):
    name: str = ""


class FlowSchemaSpec(Struct):
    priority_level_configuration: LevelRef = msgspec.field(default_factory=LevelRef)


class FlowSchemaStatus(Struct):
    conditions: list[Condition] = []


class FlowSchema(KubeObject):
    spec: FlowSchemaSpec = msgspec.field(default_factory=FlowSchemaSpec)
    status: FlowSchemaStatus = msgspec.field(default_factory=FlowSchemaStatus)


class PriorityLevel(KubeObject):
    pass


SCHEMAS = ApiResource(_GROUP, "v1", "flowschemas", False, FlowSchema)
LEVELS = ApiResource(_GROUP, "v1", "prioritylevelconfigurations", False, PriorityLevel)


class FlowSchemaStatuses(Controller):
    name = "flowschema-status"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._schemas = self.cache.follow(SCHEMAS)
        self._levels = self.cache.follow(LEVELS)
        self._schemas.subscribe(self._schema_changed)
        self._levels.subscribe(self._level_changed)

    def _schema_changed(self, old: FlowSchema | None, new: FlowSchema | None) -> None:
        if new is not None:
            self.enqueue(new.name)

    def _level_changed(self, old: PriorityLevel | None, new: PriorityLevel | None) -> None:
        if old is None or new is None:
            for schema in self._schemas:
                self.enqueue(schema.name)

    async def sync(self, key: str) -> None:
        schema = self._schemas.get(key)
        if schema is None:
            return
        level = schema.spec.priority_level_configuration.name
        exists = self._levels.get(level) is not None
        status, reason, what = ("False", "Found", "and it exists")
        if not exists:
            status, reason, what = "True", "NotFound", "but there is no such object"
        before = next((one for one in schema.status.conditions if one.type == "Dangling"), None)
        if before is not None and before.status == status:
            return
        text = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {what}'
        condition: dict[str, Any] = {
            "type": "Dangling",
            "status": status,
            "lastTransitionTime": self.context.now(),
            "reason": reason,
            "message": text,
        }
        patch = {"metadata": {"uid": schema.uid}, "status": {"conditions": [condition]}}
        self._schemas.wrote(await self.cluster.patch(SCHEMAS, key, patch, subresource="status"))
