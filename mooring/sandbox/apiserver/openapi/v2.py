"""OpenAPI v2: one document of everything, for older clients."""

from __future__ import annotations

from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.openapi.builder import BEARER_TOKEN, CODES, JSON, Builder
from mooring.sandbox.apiserver.openapi.operations import Operation
from mooring.sandbox.apiserver.openapi.type_schemas import V2


class BuilderV2(Builder):
    dialect = V2

    def document(self, version: str) -> Tree:
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": version},
            "paths": dict(sorted(self.paths.items())),
            "definitions": dict(sorted(self.schemas.definitions.items())),
            "securityDefinitions": {"BearerToken": BEARER_TOKEN},
            "security": [{"BearerToken": []}],
        }

    def path_item(self, operation: Operation) -> Tree:
        names = operation.path_parameters
        return {"parameters": [_parameter(name, "path", "string") for name in names]} if names else {}

    def operation(self, operation: Operation) -> Tree:
        parameters = [_parameter(name, "query", type) for name, type in operation.parameters.items()]
        body = self.body(operation)
        if body is not None:
            parameter: Tree = {"name": "body", "in": "body", "schema": body}
            if operation.method != "delete":
                parameter["required"] = True
            parameters.insert(0, parameter)
        answer = self.answer(operation)
        return {
            **self.common(operation),
            "consumes": list(self.media(operation)),
            "produces": [JSON],
            "schemes": ["https"],
            "parameters": parameters,
            "responses": {
                **{str(code): {"description": CODES[code], "schema": answer} for code in operation.codes},
                "401": {"description": "Unauthorized"},
            },
        }


def _parameter(name: str, place: str, type: str) -> Tree:
    parameter: Tree = {"uniqueItems": True, "type": type, "name": name, "in": place}
    if place == "path":
        parameter["required"] = True
    return parameter
