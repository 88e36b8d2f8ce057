"""Admission webhooks and policies."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.sandbox.apiserver.objects import Tree


def default_policy(obj: Tree) -> None:
    spec = obj["spec"]
    spec.setdefault("failurePolicy", "Fail")
    _matching(spec.get("matchConstraints"))


def default_binding(obj: Tree) -> None:
    _matching(obj["spec"].get("matchResources"))


def _matching(resources: Tree | None) -> None:
    if resources is None:
        return
    _equivalent(resources)
    _scopes(resources.get("resourceRules") or ())
    _scopes(resources.get("excludeResourceRules") or ())


def _equivalent(resources: Tree) -> None:
    resources.setdefault("matchPolicy", "Equivalent")
    resources.setdefault("namespaceSelector", {})
    resources.setdefault("objectSelector", {})


def _scopes(rules: Iterable[Tree]) -> None:
    for rule in rules:
        rule.setdefault("scope", "*")


def default_webhooks(obj: Tree) -> None:
    for webhook in obj.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("timeoutSeconds", 10)
        _equivalent(webhook)
        _scopes(webhook.get("rules") or ())
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def default_mutating_webhooks(obj: Tree) -> None:
    default_webhooks(obj)
    for webhook in obj.get("webhooks") or ():
        webhook.setdefault("reinvocationPolicy", "Never")
