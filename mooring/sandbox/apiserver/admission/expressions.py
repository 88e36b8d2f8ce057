"""CEL expressions of admission policies and webhooks: what they refer to, and how they are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from mooring.cel import CelCompileError, CelError, Program, compile_expression
from mooring.cel.authorization import Authorizer, Query, ResourceCheck
from mooring.cel.values import LazyMap
from mooring.sandbox.apiserver.admission.attributes import Attributes
from mooring.sandbox.apiserver.authorization.rules import Attributes as Action
from mooring.sandbox.apiserver.authorization.users import service_account
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.objects import Tree

PER_CALL: Final = 1_000_000
BUDGET: Final = 10_000_000
"""What all expressions of a policy may cost for one write, in cel-go's units."""
MATCH_BUDGET: Final = 2_500_000
"""What all match conditions of a policy or webhook may cost."""
VARIABLES: Final = (
    "object",
    "oldObject",
    "params",
    "request",
    "namespaceObject",
    "authorizer",
    "authorizer.requestResource",
    "variables",
)
STRUCTS: Final = ("Object", "JSONPatch")
_NAMESPACE_FIELDS: Final = frozenset(
    {
        "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
        "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
    }
)  # fmt: skip
_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class ExpressionError(Exception):
    """An expression has no value; the message is kube-apiserver's."""


class OutOfBudgetError(Exception):
    """The expressions of a policy cost too much together."""

    def __init__(self) -> None:
        super().__init__(_OUT_OF_BUDGET)


class Budget:
    """What is left for evaluations."""

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise OutOfBudgetError


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Program | CelCompileError:
    try:
        return compile_expression(expression, VARIABLES, STRUCTS)
    except CelCompileError as error:
        return error


class Activation:
    """The values that the expressions of one policy refer to, for one write."""

    def __init__(
        self,
        attributes: Attributes,
        resource: Resource,
        variables: Iterable[tuple[str, str]] = (),
        params: Tree | None = None,
        *,
        with_namespace: bool = True,
    ) -> None:
        obj, old = attributes.objects_in(resource)
        authorizer = Authorizer(_decider(attributes))
        self._cost = 0
        self._values: dict[str, Any] = {
            "object": obj,
            "oldObject": old,
            "params": params,
            "request": {"uid": "", **attributes.request(resource)},
            "namespaceObject": _namespace(attributes) if with_namespace else None,
            "authorizer": authorizer,
            "authorizer.requestResource": ResourceCheck(authorizer, _own_query(attributes)),
            "variables": LazyMap({name: self._variable(name, text) for name, text in variables}),
        }

    def evaluate(self, expression: str, budget: Budget) -> Any:
        """Return the value of an expression. Raises ExpressionError or OutOfBudgetError."""
        self._cost = 0
        try:
            return self._run(expression)
        except CelCompileError as error:
            raise ExpressionError(f"compilation error: compilation failed: {error}") from None
        except CelError as error:
            raise ExpressionError(f"expression '{expression}' resulted in error: {error}") from None
        finally:
            budget.spend(self._cost)

    def _run(self, expression: str) -> Any:
        program = _compiled(expression)
        if isinstance(program, CelCompileError):
            raise program
        left = [PER_CALL]
        try:
            return program.evaluate(self._values, left)
        finally:
            self._cost += PER_CALL - left[0]

    def _variable(self, name: str, expression: str) -> Callable[[], Any]:
        """Return a function that computes a variable once."""
        outcome: list[Any] = []

        def value() -> Any:
            if not outcome:
                try:
                    outcome.append(self._run(expression))
                except (CelError, CelCompileError) as error:
                    outcome.append(CelError(f'composited variable "{name}" fails to evaluate: {error}'))
            if isinstance(outcome[0], CelError):
                raise outcome[0]
            return outcome[0]

        return value


class Match(NamedTuple):
    matches: bool
    error: str = ""


def match_conditions(conditions: Sequence[Mapping[str, str]], activation: Activation, ignore: bool) -> Match:
    """Evaluate match conditions: all must hold. An error makes no difference if one does not hold."""
    budget, errors = Budget(MATCH_BUDGET), []
    for condition in conditions:
        try:
            if activation.evaluate(condition["expression"], budget) is False:
                return Match(False)
        except ExpressionError as error:
            errors.append(str(error))
        except OutOfBudgetError as error:
            return Match(False, "" if ignore else str(error))
    if not errors:
        return Match(True)
    distinct = list(dict.fromkeys(errors))
    return Match(False, "" if ignore else distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")


def _namespace(attributes: Attributes) -> Tree | None:
    """Return what expressions see of the namespace; None for what is in none, and for a Namespace itself."""
    write = attributes.write
    if not write.namespace or write.resource.storage == "namespaces":
        return None
    namespace = write.api.read("namespaces", write.namespace)
    if namespace is None:
        return None
    metadata = {name: value for name, value in namespace["metadata"].items() if name in _NAMESPACE_FIELDS}
    return {
        "metadata": metadata,
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }


def _decider(attributes: Attributes) -> Callable[[tuple[str, str] | None, Query], tuple[bool, str]]:
    write = attributes.write

    def decide(account: tuple[str, str] | None, query: Query) -> tuple[bool, str]:
        user = write.user if account is None else service_account(*account)
        resource = f"{query.resource}/{query.subresource}" if query.subresource else query.resource
        action = Action(query.verb, query.group, resource, query.namespace, query.name, query.path)
        return write.api.rbac.decide(user, action)

    return decide


def _own_query(attributes: Attributes) -> Query:
    resource = attributes.write.resource
    return Query(
        group=resource.group,
        resource=resource.plural,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
    )
