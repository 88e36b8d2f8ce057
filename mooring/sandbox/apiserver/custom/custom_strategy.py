"""The strategy of custom resources, by the definition of their version."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.context.traits import Traits
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.custom.custom_metadata import check_embedded, finalizer_warnings
from mooring.sandbox.apiserver.custom.lists import check_lists
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.custom.schema_check import NEW, check, json_type
from mooring.sandbox.apiserver.errors import Cause, forbidden, invalid_value
from mooring.sandbox.apiserver.objects import Tree, dig

_MOST_REPLICAS: Final = 2**31 - 1
_NOT_CONTENT: Final = ("apiVersion", "kind", "metadata")


class CustomStrategy(Strategy):
    """Status and scale subresources if the definition has them; values validated by its schema."""

    def __init__(self, traits: Traits, schema: Schema, *, terminating: bool) -> None:
        super().__init__(traits)
        self._schema = schema
        self._status_schema = schema.member("status")
        self._terminating = terminating

    def prepare_create(self, write: Write, obj: Tree) -> None:
        if self._terminating:
            resource = write.resource
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(resource.group, resource.plural, write.name, why)
        super().prepare_create(write, obj)
        write.warnings += finalizer_warnings(obj["metadata"], None)

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_update(write, obj, old)
        write.warnings += finalizer_warnings(obj["metadata"], old["metadata"])

    def prepare_status(self, write: Write, obj: Tree, old: Tree) -> None:
        """Keep everything but the status, including the metadata except for managedFields."""
        super().prepare_status(write, obj, old)
        managed = obj["metadata"].get("managedFields")
        obj["metadata"] = {name: value for name, value in old["metadata"].items() if name != "managedFields"}
        if managed:
            obj["metadata"]["managedFields"] = managed

    def spec_of(self, obj: Tree) -> object:
        """Count every change; a status with its own subresource does not change here."""
        return {name: value for name, value in obj.items() if name not in _NOT_CONTENT}

    def validate_create(self, obj: Tree) -> list[Cause]:
        return super().validate_create(obj) + self._validate(obj, None)

    def validate_update(self, obj: Tree, old: Tree) -> list[Cause]:
        return self._validate(obj, old)

    def _validate(self, obj: Tree, old: Tree | None) -> list[Cause]:
        causes = check(self._schema, obj, "", NEW if old is None else old)
        causes += self._check_replicas(obj, "spec") + self._check_replicas(obj, "status")
        causes += check_embedded(obj, self._schema)
        if old is None or not any(check_lists(old, self._schema)):
            causes += check_lists(obj, self._schema)
        return causes

    def validate_status(self, obj: Tree, old: Tree) -> list[Cause]:
        """Kubernetes reports fields of the status as if it were the whole object."""
        causes: list[Cause] = []
        if self._status_schema is not None and "status" in obj:
            for cause in check(self._status_schema, obj["status"], "", old.get("status", NEW)):
                field = f"status.{cause.field}" if cause.field else "status"
                causes.append(cause if cause.field == "<nil>" else cause._replace(field=field))
            causes += check_embedded(obj["status"], self._status_schema, "status")
            causes += check_lists(obj["status"], self._status_schema, "status")
        return causes + self._check_replicas(obj, "status")

    def _check_replicas(self, obj: Tree, part: str) -> list[Cause]:
        scale = self.traits.scale
        path = scale.replicas if part == "spec" else scale.status_replicas
        if not scale.custom:
            return []
        field, replicas = "." + ".".join(path), dig(obj, *path)
        if replicas is None:
            return []
        if json_type(replicas) != "integer":
            why = f"{field} accessor error: {replicas} is of the type {json_type(replicas)}, expected int64"
            return [invalid_value(field, 0, why)]
        if replicas < 0:
            return [invalid_value(field, replicas, "should be a non-negative integer")]
        if replicas > _MOST_REPLICAS:
            return [invalid_value(field, replicas, f"should be less than or equal to {_MOST_REPLICAS}")]
        return []
