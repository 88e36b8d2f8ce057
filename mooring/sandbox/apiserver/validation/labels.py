"""Labels and selectors, of pods and of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mooring.api.meta import LabelSelector
from mooring.api.preparing import prepare
from mooring.api.selectors import SelectorError, compile_selector
from mooring.sandbox.apiserver.errors import duplicate, forbidden_value, invalid_value, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes, text
from mooring.sandbox.apiserver.validation.names import dns_subdomain, label_value, qualified_name

prepare(LabelSelector)


def labels(path: str, items: Mapping[str, str] | None) -> Causes:
    for key, value in (items or {}).items():
        yield from text(path, key, qualified_name)
        yield from text(path, value, label_value)


def sound_labels(items: Mapping[str, str] | None) -> bool:
    """Whether labels are valid, quickly."""
    if items:
        for key, value in items.items():
            if qualified_name(key) or label_value(value):
                return False
    return True


def label_selector(path: str, selector: Tree | None) -> Causes:
    if not selector:
        return
    if not sound_labels(selector.get("matchLabels")):
        yield from labels(f"{path}.matchLabels", selector["matchLabels"])
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from _expression(f"{path}.matchExpressions[{index}]", expression)


def _expression(path: str, expression: Tree) -> Causes:
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        yield from _no_values(path, values)
    else:
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    yield from _key_and_values(path, expression.get("key", ""), values)


def _no_values(path: str, values: Sequence[str]) -> Causes:
    if values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden_value(f"{path}.values", why)


def _key_and_values(path: str, key: str, values: Sequence[str]) -> Causes:
    yield from text(f"{path}.key", key, qualified_name)
    for index, value in enumerate(values):
        yield from text(f"{path}.values[{index}]", value, label_value)


def matches(selector: Tree | None, items: Mapping[str, str] | None) -> bool | None:
    """Whether a selector selects these labels; None if it is invalid."""
    try:
        compiled = compile_selector(msgspec.convert(selector or {}, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return None
    return compiled.matches(items or {})


def is_empty(selector: Tree) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


# ---- nodes ----------------------------------------------------------------------------------------


def node_selector(path: str, selector: Tree) -> Causes:
    """Validate the required terms of node affinity, of pods and of volumes."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms or ()):
        yield from node_selector_term(f"{path}.nodeSelectorTerms[{index}]", term)


def node_selector_term(path: str, term: Tree, *, any_values: bool = False) -> Causes:
    """`any_values` skips the check of values: a preference that nothing satisfies is harmless."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        yield from _node_expression(f"{path}.matchExpressions[{index}]", expression, any_values)
    for index, expression in enumerate(term.get("matchFields") or ()):
        yield from _node_field(f"{path}.matchFields[{index}]", expression)


def _node_expression(path: str, expression: Tree, any_values: bool) -> Causes:
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        yield from _no_values(path, values)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield required(f"{path}.values", why)
    else:
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    yield from _key_and_values(path, expression.get("key", ""), () if any_values else values)


def _node_field(path: str, expression: Tree) -> Causes:
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", why)
    key = expression.get("key", "")
    if key != "metadata.name":
        yield invalid_value(f"{path}.key", key, "not a valid field selector key")
    else:
        for index, value in enumerate(values):
            yield from text(f"{path}.values[{index}]", value, dns_subdomain)


def topology_terms(path: str, terms: Sequence[Tree]) -> Causes:
    """Validate the allowed topologies of a storage class."""
    seen: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for index, term in enumerate(terms):
        at = f"{path}[{index}].matchLabelExpressions"
        expressions: dict[str, frozenset[str]] = {}
        for number, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = expression.get("key", ""), expression.get("values") or ()
            yield from _topology_values(f"{at}[{number}].values", values)
            yield from text(f"{at}[{number}].key", key, qualified_name)
            if key in expressions:
                yield duplicate(f"{at}[{number}].key", key)
            expressions[key] = frozenset(values)
        content = frozenset(expressions.items())
        if content in seen:
            yield duplicate(at, "")
        seen.add(content)


def _topology_values(path: str, values: Sequence[str]) -> Causes:
    if not values:
        yield required(path)
    seen = set()
    for index, value in enumerate(values):
        if value in seen:
            yield duplicate(f"{path}[{index}]", value)
        seen.add(value)
