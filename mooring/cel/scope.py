"""What an expression is evaluated in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mooring.cel.cel_errors import CostLimitExceededError


class Scope:
    """The variables, and the budget that all scopes of one evaluation share."""

    __slots__ = ("_budget", "variables")

    def __init__(self, variables: Mapping[str, Any], budget: int | list[int]) -> None:
        self.variables = variables
        self._budget = [budget] if isinstance(budget, int) else budget

    def spend(self, cost: int) -> None:
        """Charge for work; raises once the budget is used up."""
        self._budget[0] -= cost
        if self._budget[0] < 0:
            raise CostLimitExceededError

    def with_variables(self, variables: Mapping[str, Any]) -> Scope:
        """A scope inside this one, with more variables."""
        return Scope({**self.variables, **variables}, self._budget)


Evaluate = Callable[[Scope], Any]


class Lazy:
    """A variable whose value is computed on first use, and then kept."""

    __slots__ = ("_evaluate", "_known", "_scope", "_value")

    def __init__(self, scope: Scope, evaluate: Evaluate) -> None:
        self._scope = scope
        self._evaluate = evaluate
        self._known = False
        self._value: Any = None

    @property
    def value(self) -> Any:
        if not self._known:
            self._value = self._evaluate(self._scope)
            self._known = True
        return self._value
