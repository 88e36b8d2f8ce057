"""Validation of the rules in a definition: their form, their types, and the most that they can cost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from time import thread_time
from typing import Any, Final, NamedTuple

from mooring.cel.estimate import UNLIMITED
from mooring.sandbox.apiserver.custom.rule_types import LARGEST_REQUEST, Declaration
from mooring.sandbox.apiserver.custom.rules import Rule, compile_rules, declare_self, field_path
from mooring.sandbox.apiserver.errors import (
    Cause,
    forbidden_value,
    internal_value,
    invalid_value,
    not_supported,
    required,
)
from mooring.sandbox.apiserver.kinds.schema_leaves import is_leaf
from mooring.sandbox.apiserver.objects import Tree

_RULE_LIMIT: Final = 10_000_000
_TOTAL_LIMIT: Final = 100_000_000
_MOST_NAMED: Final = 4
_SECONDS: Final = 10
"""CPU time for compiling the rules of a schema."""
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LINE_BREAK: Final = re.compile(r"[\n\r]")
_NO_TYPE: Final = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: unable to "
    "convert structural schema to CEL declarations"
)


def check_form(schema: Tree, path: str) -> Iterator[Cause]:
    """Check the rules of one node, except for their expressions."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        at = f"{path}.x-kubernetes-validations[{index}]"
        yield from _check_texts(rule, at)
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            yield not_supported(f"{at}.reason", reason, _REASONS)
        field = rule.get("fieldPath") or ""
        if field and not field.strip():
            yield invalid_value(f"{at}.fieldPath", field, "must be non-empty if specified")
        if _LINE_BREAK.search(field):
            yield invalid_value(f"{at}.fieldPath", field, "must not contain line breaks")
        if field and field_path(field, schema) is None:
            yield invalid_value(f"{at}.fieldPath", field, "must be a valid path")


def _check_texts(rule: Tree, at: str) -> Iterator[Cause]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        yield required(f"{at}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid_value(f"{at}.message", message, "must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid_value(f"{at}.message", message, "must not contain line breaks")
    elif _LINE_BREAK.search(text.strip()) and not message:
        yield required(f"{at}.message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        yield required(f"{at}.messageExpression", "messageExpression must be non-empty if specified")


class _Place(NamedTuple):
    """A node of a schema: how often there can be values of it, and the list that keeps them from being
    correlated with their old values."""

    schema: Tree
    path: str
    most: int | None
    uncorrelatable: str


def check_expressions(schema: Tree, path: str, problems: Sequence[Cause], *, suppress: bool) -> list[Cause]:
    """Check the expressions of all rules of a schema, except where the schema itself has problems. `suppress`
    accepts a rule that costs too much, since it was accepted before."""
    check = _Check([cause.field for cause in problems], suppress=suppress)
    check.visit(_Place(schema, path, 1, ""), root=True)
    return check.causes + check.total_cost(path)


class _Check:
    def __init__(self, broken: Sequence[str], *, suppress: bool) -> None:
        self._broken = broken
        self._suppress = suppress
        self._end = thread_time() + _SECONDS
        self._total = 0
        self._expensive: list[tuple[int, str]] = []
        self.causes: list[Cause] = []

    def visit(self, place: _Place, *, root: bool = False) -> None:
        schema, path = place.schema, place.path
        below = _times(place.most, _most_elements(schema))
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            self.visit(_Place(values, f"{path}.additionalProperties", below, place.uncorrelatable))
        for name, inner in (schema.get("properties") or {}).items():
            if not is_leaf(inner):
                self.visit(_Place(inner, f"{path}.properties[{name}]", below, place.uncorrelatable))
        items = schema.get("items")
        if isinstance(items, dict):
            is_map = schema.get("x-kubernetes-list-type") == "map"
            uncorrelatable = place.uncorrelatable if is_map else path
            self.visit(_Place(items, f"{path}.items", below, uncorrelatable))
        if schema.get("x-kubernetes-validations") and not any(one.startswith(path) for one in self._broken):
            self._check_node(place, root)

    def _check_node(self, place: _Place, root: bool) -> None:
        path = f"{place.path}.x-kubernetes-validations"
        if thread_time() > self._end:
            self.causes.append(internal_value(path, f"compiling all rules takes longer than {_SECONDS} s"))
            return
        declaration = declare_self(place.schema, root=root)
        if declaration is None:
            self.causes.append(internal_value(path, _NO_TYPE))
            return
        for index, rule in enumerate(compile_rules(place.schema, declaration)):
            self._check_cost(place, rule, declaration, f"{path}[{index}]")
            self._check_rule(place, rule, f"{path}[{index}]")

    def _check_cost(self, place: _Place, rule: Rule, declaration: Declaration, at: str) -> None:
        times = LARGEST_REQUEST // (declaration.least + 1) if place.most is None else place.most
        cost = min(rule.expression.cost * times, UNLIMITED)
        self._count(cost, "estimated rule cost", f"{at}.rule")
        if rule.message.program is not None:
            self._count(rule.message.cost, "estimated messageExpression cost", f"{at}.messageExpression")

    def _count(self, cost: int, name: str, at: str) -> None:
        if cost > _RULE_LIMIT and not self._suppress:
            self.causes.append(forbidden_value(at, _too_expensive(name, cost, _RULE_LIMIT)))
        self._total = min(self._total + cost, UNLIMITED)
        if cost >= _TOTAL_LIMIT // 100:
            self._expensive = sorted([*self._expensive, (cost, at)], key=lambda one: -one[0])[:_MOST_NAMED]

    def _check_rule(self, place: _Place, rule: Rule, at: str) -> None:
        if rule.expression.error:
            self._invalid(f"{at}.rule", rule, rule.expression.error)
        if rule.message.error:
            self._invalid(f"{at}.messageExpression", rule, rule.message.error)
        optional = rule.tree.get("optionalOldSelf")
        if rule.expression.uses_old and place.uncorrelatable:
            why = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
            why = f"{why} {place.uncorrelatable}"
            self.causes.append(invalid_value(f"{at}.rule", rule.tree["rule"], why))
        elif not rule.expression.uses_old and optional is not None:
            why = "may not be set if oldSelf is not used in rule"
            self.causes.append(invalid_value(f"{at}.optionalOldSelf", optional, why))

    def _invalid(self, at: str, rule: Rule, why: str) -> None:
        self.causes.append(Cause("FieldValueInvalid", at, f"Invalid value: {_show_rule(rule.tree)}: {why}"))

    def total_cost(self, path: str) -> list[Cause]:
        """Return the causes of rules that cost too much together."""
        if self._total <= _TOTAL_LIMIT:
            return []
        why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        total = _too_expensive(name, self._total, _TOTAL_LIMIT)
        return [*(forbidden_value(at, why) for _, at in self._expensive), forbidden_value(path, total)]


def _too_expensive(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{name} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _most_elements(schema: Tree) -> int | None:
    """Return how many values there can be below one of this node; None if there is no limit."""
    kind = schema.get("type")
    limit: int | None = 1
    if kind == "array":
        limit = schema.get("maxItems")
    elif kind == "object" and schema.get("additionalProperties") is not None:
        limit = schema.get("maxProperties")
    return None if limit is None else max(limit, 0)


def _times(most: int | None, factor: int | None) -> int | None:
    return None if most is None or factor is None else min(most * factor, UNLIMITED)


def _show_rule(tree: Tree) -> str:
    """Return a rule as Go shows it in messages."""
    members: dict[str, Any] = {
        "Rule": tree.get("rule") or "",
        "Message": tree.get("message") or "",
        "MessageExpression": tree.get("messageExpression") or "",
        "Reason": tree.get("reason"),
        "FieldPath": tree.get("fieldPath") or "",
        "OptionalOldSelf": tree.get("optionalOldSelf"),
    }
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
