"""Roles and their bindings."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.errors import invalid_value, not_supported, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes, required_text, text
from mooring.sandbox.apiserver.validation.labels import label_selector
from mooring.sandbox.apiserver.validation.names import dns_subdomain, path_segment

_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def role(obj: Tree) -> Causes:
    yield from _rules(obj, namespaced=True)


def cluster_role(obj: Tree) -> Causes:
    yield from _rules(obj, namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is None:
        return
    at, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or []
    if not selectors:
        yield required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        problems = list(label_selector(f"{at}[{index}]", selector))
        yield from problems
        if problems:
            yield invalid_value(f"{at}[{index}]", None, "invalid label selector.")


def _rules(obj: Tree, *, namespaced: bool) -> Causes:
    for index, rule in enumerate(obj.get("rules") or ()):
        at, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            yield required(f"{at}.verbs", "verbs must contain at least one value")
        if urls:
            if namespaced:
                why = "namespaced rules cannot apply to non-resource URLs"
                yield invalid_value(f"{at}.nonResourceURLs", urls, why)
            if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid_value(f"{at}.nonResourceURLs", urls, why)
            continue
        if not rule.get("apiGroups"):
            yield required(f"{at}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{at}.resources", "resource rules must supply at least one resource")


def role_binding(obj: Tree) -> Causes:
    yield from _binding(obj, ("Role", "ClusterRole"))


def cluster_role_binding(obj: Tree) -> Causes:
    yield from _binding(obj, ("ClusterRole",))


def _binding(obj: Tree, kinds: tuple[str, ...]) -> Causes:
    reference = obj.get("roleRef") or {}
    group, kind = reference.get("apiGroup", ""), reference.get("kind", "")
    if group != _GROUP:
        yield not_supported("roleRef.apiGroup", group, (_GROUP,))
    if kind not in kinds:
        yield not_supported("roleRef.kind", kind, kinds)
    yield from required_text("roleRef.name", reference.get("name"), path_segment)
    for index, subject in enumerate(obj.get("subjects") or ()):
        yield from _subject(f"subjects[{index}]", subject, namespaced="Role" in kinds)


def _subject(path: str, subject: Tree, *, namespaced: bool) -> Causes:
    kind, name, group = (subject.get(key, "") for key in ("kind", "name", "apiGroup"))
    if not name:
        yield required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            yield from text(f"{path}.name", name, dns_subdomain)
        if group:
            yield not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif kind not in _SUBJECTS:
        yield not_supported(f"{path}.kind", kind, _SUBJECTS)
    elif group != _GROUP:
        yield not_supported(f"{path}.apiGroup", group, (_GROUP,))


def role_binding_update(obj: Tree, old: Tree) -> Causes:
    yield from role_binding(obj)
    yield from _same_role(obj, old)


def cluster_role_binding_update(obj: Tree, old: Tree) -> Causes:
    yield from cluster_role_binding(obj)
    yield from _same_role(obj, old)


def _same_role(obj: Tree, old: Tree) -> Causes:
    if obj.get("roleRef") != old.get("roleRef"):
        reference = obj["roleRef"]
        shown = {
            "APIGroup": reference.get("apiGroup", ""),
            "Kind": reference.get("kind", ""),
            "Name": reference.get("name", ""),
        }
        yield invalid_value("roleRef", shown, "cannot change roleRef")
