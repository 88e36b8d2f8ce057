"""Schemas with rules, in few words."""

from __future__ import annotations

from typing import Any

from tests.sandbox.apiserver.custom.scenes import Tree, objects

BOOLEAN = {"type": "boolean"}
DOUBLE = {"type": "number"}
EITHER = {"x-kubernetes-int-or-string": True}
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
SET = {"x-kubernetes-list-type": "set"}


def rule(text: str, **more: Any) -> Tree:
    return {"rule": text, **more}


def array(items: Tree, **more: Any) -> Tree:
    return {"type": "array", "items": items, **more}


def map_to(values: Tree, **more: Any) -> Tree:
    return {"type": "object", "additionalProperties": values, **more}


def on_spec(*rules: Tree | str, **properties: Any) -> Tree:
    """The schema of a kind with rules on its spec."""
    return objects(spec=with_rules(objects(**properties), *rules))


def with_rules(schema: Tree, *rules: Tree | str) -> Tree:
    found = [one if isinstance(one, dict) else rule(one) for one in rules]
    return {**schema, "x-kubernetes-validations": found}


def keyed(*keys: str, rules: Any = None, **properties: Any) -> Tree:
    """A list of objects that is a map by some keys."""
    items: Tree = {"type": "object", "required": list(keys), "properties": properties}
    if rules:
        items["x-kubernetes-validations"] = rules
    return array(items, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def kind_of(number: int) -> str:
    return f"Case{number}"


def path_of(kind: str) -> str:
    return f"/apis/example.com/v1/namespaces/default/{kind.lower()}s"


def object_of(kind: str, name: str, spec: Any) -> Tree:
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
