"""Evaluating the rules of a kind for an object: kube-apiserver's order, limits and messages.

Most rules cannot cost so much that a limit is reached, whatever their object is: they are not counted, which
is quicker by an order of magnitude.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import thread_time
from typing import Any, Final, NamedTuple

from mooring.cel import CelError
from mooring.cel.cel_errors import CostLimitExceededError
from mooring.cel.counting import CountingProgram
from mooring.cel.values import NONE, Optional
from mooring.sandbox.apiserver.custom.correlation import Correlation, MapItems
from mooring.sandbox.apiserver.custom.rule_values import TooCostlyError, Values
from mooring.sandbox.apiserver.custom.rules import Expression, Rule, RuleNode
from mooring.sandbox.apiserver.errors import Cause, duplicate, forbidden_value, invalid_value, required, show
from mooring.sandbox.apiserver.objects import Tree

PER_RULE: Final = 1_000_000
BUDGET: Final = 10_000_000
"""What all rules may cost for one object, in cel-go's units."""
_LONGEST_MESSAGE: Final = 5 * 1024
_SECONDS: Final = 10.0
"""CPU time for the rules of one object. Kubernetes' budget stands for one second, but Go is quicker."""
_NO_OLD: Final = CelError("no such attribute(s): oldSelf")
_OUT_OF_BUDGET: Final = "running out of cost budget, no further validation rules will be run"
_OVER_LIMIT: Final = "no further validation rules will be run due to call cost exceeds limit for"


class Verdict(NamedTuple):
    """What is wrong with an object, and what has been wrong with it before."""

    causes: list[Cause]
    warnings: list[str]


class _StopError(Exception):
    """No further rules are evaluated."""


class _MustCountError(Exception):
    """The rules might reach a limit, so that what they cost has to be counted."""


class _Place(NamedTuple):
    """A value with its path, what it was before, and whether its failures are only warnings."""

    path: str
    value: Any
    old: Any
    correlation: Correlation | None
    parent: Correlation | None

    @property
    def is_unchanged(self) -> bool:
        nearest = self.correlation or self.parent
        return nearest is not None and nearest.is_equal

    def member(self, name: str, path: str) -> _Place:
        old = self.old.get(name) if isinstance(self.old, dict) else None
        correlation, parent = self.correlation, self.parent
        if correlation is not None:
            if parent is None and name in ("apiVersion", "kind"):
                correlation = None
            else:
                correlation, parent = correlation.member(name), correlation
        return _Place(path, self.value[name], old, correlation, parent)

    def item(self, index: int, old: Any) -> _Place:
        correlation, parent = self.correlation, self.parent
        if correlation is not None:
            correlation, parent = correlation.item(index), correlation
        return _Place(f"{self.path}[{index}]", self.value[index], old, correlation, parent)


def evaluate_rules(node: RuleNode, obj: Tree, old: Tree | None, allowance: int = BUDGET) -> Verdict:
    """Evaluate all rules of a kind. Raises TooCostlyError if they cost more than the allowance."""
    correlation = None if old is None else Correlation(obj, old, node.schema)
    return _evaluate(node, _Place("", obj, old, correlation, None), allowance)


def _evaluate(node: RuleNode, place: _Place, allowance: int) -> Verdict:
    for counts in (False, True):
        run = _Run(allowance, counts=counts)
        try:
            run.visit(node, place)
        except _MustCountError:
            continue
        except _StopError:
            pass
        break
    return run.verdict


def check_default_by_rules(schema: Tree, default: Any, path: str) -> list[Cause]:
    """Evaluate the rules of a node for its default: as an unchanged value and as a new one."""
    node = RuleNode(schema)
    for old in (default, None):
        causes = _evaluate(node, _Place(path, default, old, None, None), BUDGET).causes
        if causes:
            break
    return causes


class _Run:
    """The evaluation of one object's rules."""

    def __init__(self, allowance: int, *, counts: bool) -> None:
        self._left = BUDGET
        self._allowance = allowance
        self._counts = counts
        self._quick_allowance = [allowance]
        self._end = thread_time() + _SECONDS
        self._values = Values(allowance)
        self.verdict = Verdict([], [])

    def visit(self, node: RuleNode, place: _Place) -> None:
        """Evaluate the rules at a node and below it."""
        value = place.value
        if value is None:
            return
        if node.schema.get("x-kubernetes-validations"):
            self._evaluate_node(node, place)
        if isinstance(value, list):
            if node.items is not None:
                old_items = MapItems(node.schema, place.old)
                for index, item in enumerate(value):
                    self.visit(node.items, place.item(index, old_items.find(item)))
        elif isinstance(value, dict):
            self._visit_members(node, place)

    def _visit_members(self, node: RuleNode, place: _Place) -> None:
        if node.additional is not None:
            for name in place.value:
                self.visit(node.additional, place.member(name, f"{place.path}[{name}]"))
        for name, below in node.properties.items():
            if name in place.value:
                path = f"{place.path}.{name}" if place.path else name
                self.visit(below, place.member(name, path))

    # ---- the rules of one node

    def _evaluate_node(self, node: RuleNode, place: _Place) -> None:
        kind = node.schema.get("type") or ""
        if node.rules and self._left <= 0:
            self._stop(place, kind, f"validation failed due to {_OUT_OF_BUDGET}")
        plain, with_optional = self._variables(node, place)
        for rule in node.rules:
            expression = rule.expression
            if expression.error:
                self._add(invalid_value(_shown(place.path), kind, f"rule compile error: {expression.error}"))
            optional = bool(rule.tree.get("optionalOldSelf"))
            if expression.program is None or (expression.uses_old and place.old is None and not optional):
                continue
            value = self._run(expression, with_optional if optional else plain, place, kind)
            if isinstance(value, CelError):
                self._fail(value, rule, place, kind)
            elif value is not True:
                self._violate(rule, place, kind, plain)

    def _variables(self, node: RuleNode, place: _Place) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return what rules refer to, with the old value and with an optional one."""
        own = self._values.convert(place.value, node.schema, resource=node.is_resource)
        plain = {"self": own, "oldSelf": _NO_OLD}
        if not node.uses_old:
            return plain, plain
        if place.old is None:
            return plain, {"self": own, "oldSelf": NONE}
        old = self._values.convert(place.old, node.schema, resource=node.is_resource)
        return {"self": own, "oldSelf": old}, {"self": own, "oldSelf": Optional(True, old)}

    def _run(self, expression: Expression, variables: Mapping[str, Any], place: _Place, kind: str) -> Any:
        if not self._counts:
            return self._run_quickly(expression, variables)
        assert expression.program is not None
        value, cost = self._count(expression.program, variables)
        if cost > self._left or thread_time() > self._end:
            self._stop(place, kind, f"validation failed due to {_OUT_OF_BUDGET}")
        self._left -= cost
        return value

    def _run_quickly(self, expression: Expression, variables: Mapping[str, Any]) -> Any:
        """Evaluate a rule that cannot reach a limit, and assume that it cost as much as it can."""
        assert expression.quick is not None
        self._left -= expression.cost
        if expression.cost > PER_RULE or self._left < 0 or self._values.has_errors:
            raise _MustCountError
        try:
            return expression.quick.evaluate(variables, self._quick_allowance)
        except CostLimitExceededError:
            raise (TooCostlyError if self._allowance < BUDGET else _MustCountError) from None
        except CelError as error:
            return error

    def _count(self, program: CountingProgram, variables: Mapping[str, Any]) -> tuple[Any, int]:
        spent = BUDGET - self._left
        limit = min(PER_RULE, self._allowance - spent)
        value, cost = program.run(variables, max(limit, 0))
        if limit < PER_RULE and isinstance(value, CostLimitExceededError) and self._allowance < BUDGET:
            raise TooCostlyError
        return value, cost

    def _fail(self, error: CelError, rule: Rule, place: _Place, kind: str) -> None:
        """Report a rule that has no result."""
        text = str(error)
        if text.startswith("no such overload"):
            why = "call arguments did not match a supported operator, function or macro signature for rule"
            self._add(invalid_value(_shown(place.path), kind, f"'{text}': {why}: {rule.text}"))
        elif isinstance(error, CostLimitExceededError):
            self._stop(place, kind, f"'{text}': {_OVER_LIMIT} rule: {rule.text}")
        else:
            self._add(invalid_value(_shown(place.path), kind, f"{text} evaluating rule: {rule.text}"))

    def _violate(self, rule: Rule, place: _Place, kind: str, variables: Mapping[str, Any]) -> None:
        """Report a rule that does not hold; a warning if the value violated it before."""
        path = _shown(f"{place.path}.{rule.field}" if place.path and rule.field else place.path or rule.field)
        is_warning = not rule.expression.uses_old and place.is_unchanged
        detail, fatal = self._message(rule, variables)
        if fatal:
            cause = invalid_value(path, kind, fatal)
        else:
            value = None if kind in ("array", "object") else place.value
            cause = _violation(path, value, detail, rule.tree.get("reason"))
        if is_warning:
            self.verdict.warnings.append(str(cause))
        else:
            self.verdict.causes.append(cause)
        if fatal:
            raise _StopError

    def _message(self, rule: Rule, variables: Mapping[str, Any]) -> tuple[str, str]:
        """Return the message about a rule that does not hold, or why no further rules are evaluated."""
        given = rule.tree.get("message") or ""
        instead = given.strip() if given else f"failed rule: {rule.text}"
        if rule.message.program is None:
            return instead, ""
        value, cost = self._count(rule.message.program, variables)
        if cost > self._left:
            return "", f"messageExpression evaluation failed due to {_OUT_OF_BUDGET}"
        if isinstance(value, CostLimitExceededError):
            text = show(rule.tree["messageExpression"])
            return "", f"{_OVER_LIMIT} messageExpression: {text}"
        self._left -= cost
        message = value.strip() if isinstance(value, str) else ""
        is_usable = message and "\n" not in message and len(message.encode()) <= _LONGEST_MESSAGE
        return message if is_usable else instead, ""

    def _add(self, cause: Cause) -> None:
        self.verdict.causes.append(cause)

    def _stop(self, place: _Place, kind: str, why: str) -> None:
        self._add(invalid_value(_shown(place.path), kind, why))
        raise _StopError


def _shown(path: str) -> str:
    return path or "<nil>"


def _violation(path: str, value: Any, detail: str, reason: str | None) -> Cause:
    """Return the cause of a violated rule; containers are not shown."""
    if reason == "FieldValueForbidden":
        return forbidden_value(path, detail)
    if reason == "FieldValueRequired":
        return required(path, detail)
    if reason == "FieldValueDuplicate":
        return Cause(reason, path, "Duplicate value") if value is None else duplicate(path, value)
    if value is None:
        return Cause("FieldValueInvalid", path, f"Invalid value: {detail}")
    return invalid_value(path, value, detail)
