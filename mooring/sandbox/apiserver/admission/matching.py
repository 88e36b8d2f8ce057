"""Which writes a policy, its binding or a webhook is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from mooring.api.meta import LabelSelector
from mooring.api.selectors import Selector, SelectorError, compile_selector
from mooring.sandbox.apiserver.admission.attributes import Attributes
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.errors import internal, not_found
from mooring.sandbox.apiserver.objects import Tree, dig, encode_json

GROUP: Final = "admissionregistration.k8s.io"
_ALL: Final = "*"


def is_exempt(resource: Resource) -> bool:
    """Whether policies and webhooks do not apply: they could not be removed any more otherwise."""
    return resource.group == GROUP


def match(attributes: Attributes, constraints: Tree, rules: str = "resourceRules") -> Resource | None:
    """Return the resource in the version that the constraints match, None if they do not. Raises ApiError.

    `rules` is the member with the rules, of which some constraints need none.
    """
    if not _selects_namespace(attributes, constraints) or not _selects_object(attributes, constraints):
        return None
    excluded = constraints.get("excludeResourceRules") or ()
    equivalent = constraints.get("matchPolicy") == "Equivalent"
    if excluded and _matched(attributes, excluded, equivalent) is not None:
        return None
    if not constraints.get(rules) and rules == "resourceRules":
        return attributes.write.resource
    return _matched(attributes, constraints.get(rules) or (), equivalent)


# ---- rules ----------------------------------------------------------------------------------------


def _matched(attributes: Attributes, rules: Iterable[Tree], equivalent: bool) -> Resource | None:
    own = attributes.write.resource
    if any(_rule_matches(attributes, rule, own) for rule in rules):
        return own
    if not equivalent:
        return None
    others = list(_equivalents(attributes))
    for rule in rules:
        for other in others:
            if _rule_matches(attributes, rule, other):
                return other
    return None


def _equivalents(attributes: Attributes) -> Iterator[Resource]:
    """Yield the other versions of the resource that is written."""
    own = attributes.write.resource
    for other in attributes.write.api.registry:
        if other is not own and other.storage == own.storage:
            yield other


def _rule_matches(attributes: Attributes, rule: Tree, resource: Resource) -> bool:
    names = rule.get("resourceNames")
    return (
        _in_scope(attributes, rule.get("scope") or _ALL)
        and _lists(rule.get("operations"), attributes.write.operation)
        and _lists(rule.get("apiGroups"), resource.group)
        and _lists(rule.get("apiVersions"), resource.version)
        and any(
            _names(pattern, resource.plural, attributes.subresource)
            for pattern in rule.get("resources") or ()
        )
        and (not names or attributes.name in names)
    )


def _in_scope(attributes: Attributes, scope: str) -> bool:
    return scope == _ALL or (scope == "Namespaced") is attributes.write.resource.namespaced


def _lists(values: Iterable[str] | None, value: str) -> bool:
    return any(one in (_ALL, value) for one in values or ())


def _names(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, part = pattern.partition("/")
    return resource in (_ALL, plural) and part in (_ALL, subresource)


# ---- selectors ------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _compiled(selector: bytes) -> Selector:
    return compile_selector(msgspec.json.decode(selector, type=LabelSelector))


def read_selector(tree: Tree | None) -> Selector:
    """Return a compiled selector. Raises 500 for one that cannot be compiled."""
    try:
        return _compiled(encode_json(tree or {}))
    except (SelectorError, msgspec.ValidationError) as error:
        raise internal(str(error)) from None


def _is_empty(selector: Tree | None) -> bool:
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


def _selects_namespace(attributes: Attributes, constraints: Tree) -> bool:
    tree = constraints.get("namespaceSelector")
    namespace = attributes.namespace
    if not namespace or _is_empty(tree):
        return True
    write = attributes.write
    if write.resource.storage == "namespaces" and not write.subresource and attributes.obj is not None:
        labels = dig(attributes.obj, "metadata", "labels")
    else:
        record = write.api.record("namespaces", namespace)
        if record is None:
            raise not_found("", "namespaces", namespace)
        labels = record.labels
    return read_selector(tree).matches(labels or {})


def _selects_object(attributes: Attributes, constraints: Tree) -> bool:
    tree = constraints.get("objectSelector")
    if _is_empty(tree):
        return True
    selector = read_selector(tree)
    objects = (attributes.obj, attributes.old)
    labelled = [one["metadata"].get("labels") or {} for one in objects if one and "metadata" in one]
    return any(map(selector.matches, labelled))
