"""Building a document in either dialect: paths, and the definitions that they refer to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from mooring.sandbox.apiserver.context.resource import GroupVersionKind, Resource
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.openapi.custom_schemas import custom_list_schema, custom_schema
from mooring.sandbox.apiserver.openapi.operations import Operation, group_name, operations
from mooring.sandbox.apiserver.openapi.type_names import PATCH, custom_name
from mooring.sandbox.apiserver.openapi.type_schemas import KIND, Dialect, Schemas

CODES: Final = {200: "OK", 201: "Created", 202: "Accepted"}
JSON: Final = "application/json"
BEARER_TOKEN: Final = {
    "description": "Bearer Token authentication",
    "type": "apiKey",
    "name": "authorization",
    "in": "header",
}
_STATUS: Final = object_type("meta_v1", "Status")
_DELETE_OPTIONS: Final = object_type("meta_v1", "DeleteOptions")
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)
_STRATEGIC: Final = "application/strategic-merge-patch+json"


class Builder(ABC):
    """Collects resources into one document."""

    dialect: Dialect

    def __init__(self) -> None:
        self.schemas = Schemas(self.dialect)
        self.paths: dict[str, Tree] = {}

    def add(self, resource: Resource) -> None:
        self._define(resource)
        for operation in operations(resource):
            item = self.paths.setdefault(operation.path, self.path_item(operation))
            item[operation.method] = self.operation(operation)

    @abstractmethod
    def path_item(self, operation: Operation) -> Tree:
        """Return a path without its operations."""

    @abstractmethod
    def operation(self, operation: Operation) -> Tree: ...

    # ---- what operations have in common -----------------------------------------------------------

    def common(self, operation: Operation) -> Tree:
        """Return the members of an operation that both dialects share."""
        resource = operation.resource
        return {
            "tags": [f"{group_name(resource.group)}_{resource.version}"],
            "description": operation.description,
            "operationId": operation.id,
            "x-kubernetes-action": operation.action,
            KIND: operation.kind._asdict(),
        }

    def body(self, operation: Operation) -> Tree | None:
        """Return the schema of an operation's body; None if it has none."""
        if operation.verb == "patch":
            return self.dialect.named(self.schemas.add_named(PATCH))
        if operation.action in ("delete", "deletecollection"):
            return self.dialect.named(self._define_delete_options(operation.resource))
        return self._kind(operation) if operation.verb in ("create", "update") else None

    def media(self, operation: Operation) -> tuple[str, ...]:
        """Return the media types of an operation's body."""
        if operation.verb != "patch":
            return ("*/*",)
        return _PATCHES if operation.resource.custom else (*_PATCHES, _STRATEGIC)

    def answer(self, operation: Operation) -> Tree:
        """Return the schema of an operation's answer."""
        resource = operation.resource
        if operation.verb == "list":
            return self.dialect.named(self._define_list(resource))
        if operation.verb == "delete" and resource.strategy.traits.return_deleted:
            return self._kind(operation)
        if operation.action in ("delete", "deletecollection"):
            name = self.schemas.add(_STATUS)
            self.schemas.label(name, GroupVersionKind("", "v1", "Status"))
            return self.dialect.named(name)
        if operation.subresource is not None and operation.subresource.name == "log":
            return {"type": "string"}
        return self._kind(operation)

    # ---- definitions ------------------------------------------------------------------------------

    def _kind(self, operation: Operation) -> Tree:
        part = operation.subresource
        if part is None or part.codec.type is None:
            return self.dialect.named(self._define(operation.resource))
        name = self.schemas.add(part.codec.type)
        self.schemas.label(name, part.kind)
        return self.dialect.named(name)

    def _define(self, resource: Resource) -> str:
        if resource.type is None:
            name = custom_name(*resource.gvk)
            if name not in self.schemas.definitions:
                self.schemas.definitions[name] = custom_schema(self.schemas, resource.schema)
        else:
            name = self.schemas.add(resource.type)
        self.schemas.label(name, resource.gvk)
        return name

    def _define_list(self, resource: Resource) -> str:
        kind = resource.gvk._replace(kind=resource.list_kind)
        if resource.type is None:
            name = custom_name(*kind)
            self.schemas.definitions[name] = custom_list_schema(self.schemas, resource)
        else:
            name = self.schemas.add(object_type(resource.type.module, f"{resource.type.name}List"))
        self.schemas.label(name, kind)
        return name

    def _define_delete_options(self, resource: Resource) -> str:
        name = self.schemas.add(_DELETE_OPTIONS)
        for group, version in (("", "v1"), (resource.group, resource.version)):
            self.schemas.label(name, GroupVersionKind(group, version, "DeleteOptions"))
        return name
