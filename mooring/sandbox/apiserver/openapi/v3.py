"""OpenAPI v3: a document per group and version."""

from __future__ import annotations

from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.openapi.builder import BEARER_TOKEN, CODES, JSON, Builder
from mooring.sandbox.apiserver.openapi.operations import Operation
from mooring.sandbox.apiserver.openapi.type_schemas import V3


class BuilderV3(Builder):
    dialect = V3

    def document(self, version: str) -> Tree:
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": version},
            "paths": dict(sorted(self.paths.items())),
            "components": {
                "schemas": dict(sorted(self.schemas.definitions.items())),
                "securitySchemes": {"BearerToken": BEARER_TOKEN},
            },
        }

    def path_item(self, operation: Operation) -> Tree:
        names = operation.path_parameters
        return {"parameters": [_parameter(name, "path", "string") for name in names]} if names else {}

    def operation(self, operation: Operation) -> Tree:
        tree = self.common(operation)
        if operation.parameters:
            tree["parameters"] = [
                _parameter(name, "query", type) for name, type in operation.parameters.items()
            ]
        body = self.body(operation)
        if body is not None:
            tree["requestBody"] = {"content": {media: {"schema": body} for media in self.media(operation)}}
            if operation.method != "delete":
                tree["requestBody"]["required"] = True
        content = {JSON: {"schema": self.answer(operation)}}
        tree["responses"] = {
            **{str(code): {"description": CODES[code], "content": content} for code in operation.codes},
            "401": {"description": "Unauthorized"},
        }
        return tree


def _parameter(name: str, place: str, type: str) -> Tree:
    parameter: Tree = {"name": name, "in": place, "schema": {"type": type, "uniqueItems": True}}
    if place == "path":
        parameter["required"] = True
    return parameter
