"""ValidatingAdmissionPolicy: reject, or warn of, what expressions in the cluster forbid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from mooring.cel.values import type_name
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.admission.attributes import Attributes
from mooring.sandbox.apiserver.admission.expressions import (
    BUDGET,
    Activation,
    Budget,
    ExpressionError,
    OutOfBudgetError,
    match_conditions,
)
from mooring.sandbox.apiserver.admission.matching import GROUP
from mooring.sandbox.apiserver.admission.policies import Invocation, Policies
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.objects import Tree

_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_LONGEST_MESSAGE: Final = 5 * 1024


class Denial(NamedTuple):
    """Why a policy denies a write."""

    message: str
    reason: str = ""
    always: bool = False
    """Whether the binding's actions do not matter: its configuration is wrong."""


class ValidatingAdmissionPolicy(AdmissionPlugin):
    operations = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
    subresources = True
    needs = (f"validatingadmissionpolicybindings.{GROUP}",)

    def __init__(self) -> None:
        self._policies = Policies("validatingadmission")

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if not self._policies.get(write.api.store):
            return
        deleting = write.operation == "DELETE"
        attributes = Attributes(write, None if deleting else obj, obj if deleting else old, write.name)
        denied: ApiError | None = None
        for invocation in self._policies.invocations(attributes):
            for denial in _denials(invocation, attributes):
                refusal = _apply(invocation, attributes, denial)
                denied = denied or refusal
        if denied is not None:
            raise denied


def _apply(invocation: Invocation, attributes: Attributes, denial: Denial) -> ApiError | None:
    """Do what the binding says about a denial: return an error, or warn. Audit logs are not kept."""
    policy, binding = invocation.policy, invocation.binding
    name = "" if binding is None else binding["metadata"]["name"]
    actions = () if binding is None else binding["spec"].get("validationActions") or ()
    if "Warn" in actions and not denial.always:
        attributes.write.warnings.append(
            f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{name}': "
            f"{denial.message}"
        )
    if not denial.always and "Deny" not in actions:
        return None
    bound = f" with binding '{name}'" if name else ""
    by = f"ValidatingAdmissionPolicy '{policy.name}'{bound}"
    return _refusal(attributes, f"{by} denied request: {denial.message}", denial.reason or "Invalid")


def _refusal(attributes: Attributes, message: str, reason: str) -> ApiError:
    resource = attributes.write.resource
    error = forbidden(resource.group, resource.plural, attributes.name or "Unknown", message)
    details = {**error.details, "causes": [{"message": message}]}
    return ApiError(_CODES.get(reason, 422), reason, error.message, details=details)


def _denials(invocation: Invocation, attributes: Attributes) -> Iterator[Denial]:
    """Evaluate a policy with one parameter."""
    policy = invocation.policy
    if invocation.error:
        if not policy.ignores_failures:
            yield Denial(invocation.error, always=True)
        return
    spec, ignore = policy.spec, policy.ignores_failures
    if spec.get("matchConditions"):
        alone = Activation(
            attributes, invocation.resource, policy.variables, invocation.params, with_namespace=False
        )
        matched = match_conditions(spec["matchConditions"], alone, ignore)
        if matched.error:
            yield Denial(matched.error)
        if not matched.matches:
            return
    try:
        yield from list(_failed(invocation, attributes))
    except OutOfBudgetError as error:
        if not ignore:
            yield Denial(str(error))


def _failed(invocation: Invocation, attributes: Attributes) -> Iterator[Denial]:
    policy = invocation.policy
    validations: list[Tree] = policy.spec.get("validations") or []

    def activation() -> Activation:
        return Activation(attributes, invocation.resource, policy.variables, invocation.params)

    budget, values = Budget(BUDGET), activation()
    outcomes = [_value(values, one["expression"], budget) for one in validations]
    messages = activation()
    for validation, outcome in zip(validations, outcomes, strict=True):
        # Messages are evaluated whether the validation fails or not: they count against the budget.
        message = _message(messages, validation, budget)
        if isinstance(outcome, ExpressionError):
            if not policy.ignores_failures:
                yield Denial(str(outcome))
        elif outcome is not True:
            yield Denial(message, validation.get("reason") or "Invalid")
    audit = activation()
    budget = Budget(BUDGET)
    for annotation in policy.spec.get("auditAnnotations") or ():
        problem = _annotation_problem(_value(audit, annotation["valueExpression"], budget), annotation)
        if problem and not policy.ignores_failures:
            yield Denial(problem, always=True)


def _value(activation: Activation, expression: str, budget: Budget) -> Any:
    """Return the value of an expression, or its error."""
    try:
        return activation.evaluate(expression, budget)
    except ExpressionError as error:
        return error


def _message(activation: Activation, validation: Tree, budget: Budget) -> str:
    if validation.get("messageExpression"):
        value = _value(activation, validation["messageExpression"], budget)
        text = value.strip() if isinstance(value, str) else ""
        if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE:
            return text
    text = validation.get("message", "").strip()
    return text or f"failed expression: {validation['expression'].strip()}"


def _annotation_problem(value: Any, annotation: Tree) -> str:
    """Return what is wrong with the value of an audit annotation; the annotation itself is not kept."""
    if isinstance(value, ExpressionError):
        return str(value)
    if value is None or isinstance(value, str):
        return ""
    return (
        f"valueExpression '{annotation['valueExpression']}' resulted in unsupported return type: "
        f"{type_name(value)}. Return type must be either string or null."
    )
