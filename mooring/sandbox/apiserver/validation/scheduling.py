"""Scheduling constraints: tolerations and taints, affinity, topology spread, scheduling gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from mooring.sandbox.apiserver.errors import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
)
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.fields import Causes, optional_choice, positive, text
from mooring.sandbox.apiserver.validation.labels import label_selector, node_selector, node_selector_term
from mooring.sandbox.apiserver.validation.names import dns_label, label_value, qualified_name

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_COMPARISONS: Final = ("Lt", "Gt")  # supported, and off by default in 1.36
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


# ---- tolerations and taints -----------------------------------------------------------------------


def tolerations(path: str, items: Sequence[Tree]) -> Causes:
    for index, toleration in enumerate(items):
        yield from _toleration(f"{path}[{index}]", toleration)


def _toleration(path: str, toleration: Tree) -> Causes:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    effect, value = toleration.get("effect", ""), toleration.get("value", "")
    if key:
        if qualified_name(key):
            yield from text(f"{path}.key", key, qualified_name)
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid_value(f"{path}.operator", operator, why)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid_value(f"{path}.effect", effect, why)
    if operator in ("Equal", ""):
        if label_value(value):
            yield invalid_value(f"{path}.operator", value, ";".join(label_value(value)))
    elif operator == "Exists":
        if value:
            why = "value must be empty when `operator` is 'Exists'"
            yield invalid_value(f"{path}.operator", value, why)
    else:
        operators = ("Equal", "Exists", *(_COMPARISONS if operator in _COMPARISONS else ()))
        yield not_supported(f"{path}.operator", operator, operators)
    if effect and effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def taints(path: str, items: Sequence[Tree]) -> Causes:
    seen = set()
    for index, taint in enumerate(items):
        at, key, value = f"{path}[{index}]", taint.get("key", ""), taint.get("value", "")
        effect = taint.get("effect", "")
        yield from text(f"{at}.key", key, qualified_name)
        if label_value(value):
            yield invalid_value(f"{at}.value", value, ";".join(label_value(value)))
        if not effect:
            yield required(f"{at}.effect")
        elif effect not in EFFECTS:
            yield not_supported(f"{at}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            why = "taints must be unique by key and effect pair"
            cause = duplicate(at, shown)
            yield Cause(cause.reason, at, f"{cause.message}: {why}")
        seen.add((key, effect))


# ---- affinity -------------------------------------------------------------------------------------


def affinity(path: str, terms: Tree) -> Causes:
    node = terms.get("nodeAffinity")
    if node:
        yield from _node_affinity(f"{path}.nodeAffinity", node)
    for name in ("podAffinity", "podAntiAffinity"):
        if terms.get(name):
            yield from _pod_affinity(f"{path}.{name}", terms[name])


def _node_affinity(path: str, rules: Tree) -> Causes:
    terms = rules.get(_REQUIRED)
    if terms is not None:
        yield from node_selector(f"{path}.{_REQUIRED}", terms)
    for index, term in enumerate(rules.get(_PREFERRED) or ()):
        at = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(at, term)
        yield from node_selector_term(f"{at}.preference", term.get("preference") or {}, any_values=True)


def _weight(path: str, term: Tree) -> Causes:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        yield invalid_value(f"{path}.weight", weight, "must be in the range 1-100")


def _pod_affinity(path: str, terms: Tree) -> Causes:
    for index, term in enumerate(terms.get(_REQUIRED) or ()):
        yield from _pod_affinity_term(f"{path}.{_REQUIRED}[{index}]", term)
    for index, term in enumerate(terms.get(_PREFERRED) or ()):
        at = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(at, term)
        yield from _pod_affinity_term(f"{at}.podAffinityTerm", term.get("podAffinityTerm") or {})


def _pod_affinity_term(path: str, term: Tree) -> Causes:
    yield from label_selector(f"{path}.labelSelector", term.get("labelSelector"))
    yield from label_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for name in term.get("namespaces") or ():
        yield from text(f"{path}.namespace", name, dns_label)
    yield from _label_keys(path, term)
    key = term.get("topologyKey", "")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from text(f"{path}.topologyKey", key, qualified_name)


def _label_keys(path: str, term: Tree) -> Causes:
    """Validate matchLabelKeys and mismatchLabelKeys, after they were merged into the selector."""
    selector = term.get("labelSelector")
    same, other = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    for name, keys in (("matchLabelKeys", same), ("mismatchLabelKeys", other)):
        if keys and selector is None:
            yield forbidden_value(f"{path}.{name}", "must not be specified when labelSelector is not set")
        elif keys:
            for index, key in enumerate(keys):
                yield from text(f"{path}.{name}[{index}]", key, qualified_name)
    if same and selector is not None:
        yield from _keys_asked_twice(path, same, selector)
    mismatched = set(other)
    for index, key in enumerate(same):
        if key in mismatched:
            why = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid_value(f"{path}.matchLabelKeys[{index}]", key, why)


def _keys_asked_twice(path: str, keys: Sequence[str], selector: Tree) -> Causes:
    """Each key must be in the selector only once: the merge has added it."""
    positions = {key: index for index, key in enumerate(keys)}
    seen = set(selector.get("matchLabels") or ())
    for expression in selector.get("matchExpressions") or ():
        key = expression.get("key", "")
        if key in positions and key in seen:
            why = "exists in both matchLabelKeys and labelSelector"
            yield invalid_value(f"{path}[{positions[key]}]", key, why)
        seen.add(key)


# ---- spreading ------------------------------------------------------------------------------------


def spread_constraints(path: str, items: Sequence[Tree]) -> Causes:
    following = Counter(map(_spread_pair, items))
    for index, constraint in enumerate(items):
        at = f"{path}[{index}]"
        yield from _spread_constraint(at, constraint)
        pair = _spread_pair(constraint)
        following[pair] -= 1
        if following[pair]:
            shown = "{" + f"{pair[0]}, {pair[1]}" + "}"
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", shown)
        yield from _spread_options(at, constraint)


def _spread_pair(constraint: Tree) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _spread_constraint(path: str, constraint: Tree) -> Causes:
    key, action = _spread_pair(constraint)
    if constraint.get("maxSkew", 0) <= 0:
        yield from positive(f"{path}.maxSkew", constraint.get("maxSkew", 0))
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    actions = choices("core_v1.TopologySpreadConstraint.whenUnsatisfiable")
    yield from optional_choice(f"{path}.whenUnsatisfiable", action, actions)


def _spread_options(path: str, constraint: Tree) -> Causes:
    domains, action = constraint.get("minDomains"), constraint.get("whenUnsatisfiable", "")
    if domains is not None:
        yield from positive(f"{path}.minDomains", domains)
        if action != "DoNotSchedule":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield invalid_value(f"{path}.minDomains", domains, why)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policies = choices(f"core_v1.TopologySpreadConstraint.{name}")
        yield from optional_choice(f"{path}.{name}", constraint.get(name), policies)
    if constraint.get("matchLabelKeys"):
        yield from _label_keys(path, constraint)
    yield from label_selector(f"{path}.labelSelector", constraint.get("labelSelector"))


# ---- gates, and what may change while they are closed ---------------------------------------------


def scheduling_gates(path: str, items: Sequence[Tree]) -> Causes:
    seen = set()
    for index, gate in enumerate(items):
        name = gate.get("name", "")
        yield from text(f"{path}[{index}]", name, qualified_name)
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


def node_affinity_narrowed(path: str, new: Tree | None, old: Tree | None) -> Causes:
    """The node affinity of a gated pod may only be narrowed."""
    before = dig(old, _REQUIRED, "nodeSelectorTerms") or []
    if not before:
        return
    after = dig(new, _REQUIRED, "nodeSelectorTerms") or []
    at = f"{path}.{_REQUIRED}.nodeSelectorTerms"
    if len(before) != len(after):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid_value(at, [_as_shown(term) for term in after] or None, why)
        return
    for index, (term, was) in enumerate(zip(after, before, strict=True)):
        if not _only_adds(term, was):
            why = "only additions are allowed (no mutations or deletions)"
            yield invalid_value(f"{at}[{index}]", _as_shown(term), why)


def _only_adds(term: Tree, was: Tree) -> bool:
    names = ("matchExpressions", "matchFields")
    if not any(was.get(name) for name in names):
        return not any(term.get(name) for name in names)
    return all((term.get(name) or [])[: len(was.get(name) or [])] == (was.get(name) or []) for name in names)


def _as_shown(term: Tree) -> Tree:
    """Show a term in the form of the API server's internal types: with the names of Go's fields."""
    return {
        shown: [
            {"Key": one.get("key", ""), "Operator": one.get("operator", ""), "Values": one.get("values")}
            for one in term.get(name) or ()
        ]
        or None
        for shown, name in (("MatchExpressions", "matchExpressions"), ("MatchFields", "matchFields"))
    }


def node_selector_as_shown(selector: Tree | None) -> Tree | None:
    """Show the required terms of a volume in the form of the internal types."""
    if selector is None:
        return None
    return {"NodeSelectorTerms": [_as_shown(term) for term in selector.get("nodeSelectorTerms") or ()]}
