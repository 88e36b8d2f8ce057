"""Scenes: the requests about admission policies in one namespace."""

from __future__ import annotations

import json
from typing import Any

from tests.sandbox.apiserver.patch_replay import PATCHES, Step

Tree = dict[str, Any]

PAUSE = Step("PAUSE", "", "", None, "")
"""For the real server, which learns of policies after a while."""
API = "/apis/admissionregistration.k8s.io/v1/"
DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def namespace_of(scene: str) -> str:
    return "p-" + scene.replace(" ", "-")


def step(method: str, path: str, body: Tree | None = None, user: str = "") -> Step:
    content_type = PATCHES.get(method, "application/json")
    data = None if body is None else json.dumps(body).encode()
    return Step("PATCH" if method in PATCHES else method, path, content_type, data, "tester", user)


def making_namespace(scene: str) -> Step:
    name = namespace_of(scene)
    return step("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": {"team": "a"}}})


class Scene:
    """Requests about one namespace."""

    def __init__(self, name: str) -> None:
        self.namespace = namespace_of(name)
        self.steps: list[Step] = []

    def policy(self, kind: str = "validating", *, bind: Tree | None = None, **spec: Any) -> Scene:
        """Create a policy on Deployments by default, and bind it to this namespace."""
        rules = spec.pop("rules", None) or [{**DEPLOYMENTS, "operations": ["CREATE", "UPDATE"]}]
        constraints = {"resourceRules": rules, **spec.pop("constraints", {})}
        name = spec.pop("name", self.namespace)
        body = {"metadata": {"name": name}, "spec": {"matchConstraints": constraints, **spec}}
        self.steps.append(step("POST", f"{API}{kind}admissionpolicies", body))
        if bind is None:
            bind = {}
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        resources = {"namespaceSelector": selector, **bind.pop("matchResources", {})}
        actions = {"validationActions": ["Deny"]} if kind == "validating" else {}
        binding = {"policyName": name, "matchResources": resources, **actions, **bind}
        self.steps.append(
            step("POST", f"{API}{kind}admissionpolicybindings", {"metadata": {"name": name}, "spec": binding})
        )
        return self

    def pause(self) -> Scene:
        self.steps.append(PAUSE)
        return self

    def ask(self, method: str, path: str, body: Tree | None = None, user: str = "") -> Scene:
        self.steps.append(step(method, path, body, user))
        return self

    def deployment(
        self, name: str = "web", replicas: int = 1, user: str = "", query: str = "", **more: Any
    ) -> Scene:
        labels = {"app": name}
        container = {"name": "c", "image": "nginx:1", **more.pop("container", {})}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": name, **more}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments{query}"
        return self.ask("POST", path, {"metadata": metadata, "spec": spec}, user)

    def config_map(self, name: str, user: str = "", data: Tree | None = None, **metadata: Any) -> Scene:
        body = {"metadata": {"name": name, **metadata}, "data": data or {"a": "b"}}
        return self.ask("POST", f"/api/v1/namespaces/{self.namespace}/configmaps", body, user)


def validates(expression: str, **more: Any) -> list[Tree]:
    return [{"expression": expression, **more}]


def apply(expression: str) -> Tree:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> Tree:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
