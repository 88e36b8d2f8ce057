"""MutatingAdmissionPolicy: change objects by expressions in the cluster."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from mooring.cel.values import StructValue
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
from mooring.sandbox.apiserver.admission.mutations import replace_object
from mooring.sandbox.apiserver.admission.policies import Invocation, Policies
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.context.write import Reinvocation, Write
from mooring.sandbox.apiserver.errors import forbidden, internal
from mooring.sandbox.apiserver.fields.configuration_errors import problems
from mooring.sandbox.apiserver.fields.kind_shapes import shape_of
from mooring.sandbox.apiserver.fields.merging import merge
from mooring.sandbox.apiserver.fields.shapes import Atomic, AtomicList, Granular, Listed, Shape, Untyped
from mooring.sandbox.apiserver.kinds.codec import FieldValidation
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.patches.apply_patch import problem_of
from mooring.sandbox.apiserver.patches.json_patch import DoesNotApplyError, TestFailedError, apply_operations

_NAME: Final = "MutatingAdmissionPolicy"


class _MutationError(Exception):
    """A policy cannot be applied to an object."""


class MutatingAdmissionPolicy(AdmissionPlugin):
    operations = frozenset({"CREATE", "UPDATE"})
    subresources = True
    needs = (f"mutatingadmissionpolicybindings.{GROUP}",)

    def __init__(self) -> None:
        self._policies = Policies("mutatingadmission")

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.part or not self._policies.get(write.api.store):
            return
        if write.reinvocation is None:
            write.reinvocation = Reinvocation()
        again = write.reinvocation
        invoked, last = again.notes.get(_NAME, (set(), None))
        changed = last is not None and last != obj
        first = Attributes(write, obj, old, "" if write.generated_name else write.name)
        errors: list[tuple[str, str]] = []
        for invocation in list(self._policies.invocations(first)):
            key = _key(invocation)
            if invocation.error:
                _note(errors, invocation, invocation.error, "")
                continue
            # a policy sees what those before it changed
            attributes = Attributes(write, obj, old, first.name)
            if not self._matches(invocation, attributes, errors):
                continue
            if again.running and not (key in invoked and (changed or again.required)):
                continue
            before = copy.deepcopy(obj)
            _mutate(invocation, write, obj, old, first.name, errors)
            if obj != before:
                again.required = True
            if invocation.policy.spec.get("reinvocationPolicy") == "IfNeeded":
                invoked.add(key)
        again.notes[_NAME] = invoked, copy.deepcopy(obj)
        if errors:
            raise _refusal(first, errors)

    def _matches(self, invocation: Invocation, attributes: Attributes, errors: list[tuple[str, str]]) -> bool:
        policy = invocation.policy
        conditions = policy.spec.get("matchConditions")
        if not conditions:
            return True
        activation = Activation(
            attributes, invocation.resource, policy.variables, invocation.params, with_namespace=False
        )
        matched = match_conditions(conditions, activation, policy.ignores_failures)
        if matched.error:
            _note(errors, invocation, matched.error, "Invalid")
        return matched.matches


def _key(invocation: Invocation) -> tuple[str, ...]:
    binding, params = invocation.binding, invocation.params
    name = "" if binding is None else binding["metadata"]["name"]
    metadata = {} if params is None else params["metadata"]
    return invocation.policy.name, name, metadata.get("namespace", ""), metadata.get("name", "")


def _note(errors: list[tuple[str, str]], invocation: Invocation, problem: str, reason: str) -> None:
    policy, binding = invocation.policy, invocation.binding
    if policy.ignores_failures:
        return
    by = f'policy "{policy.name}"'
    if binding is not None:
        by = f"policy '{policy.name}' with binding '{binding['metadata']['name']}'"
    errors.append((f"{by} denied request: {problem}", reason))


def _refusal(attributes: Attributes, errors: list[tuple[str, str]]) -> ApiError:
    resource = attributes.write.resource
    name = attributes.name or attributes.write.name or "Unknown"
    details = forbidden(resource.group, resource.plural, name, "").details
    causes = [{"message": message} for message, _ in errors]
    message, reason = errors[0]
    return ApiError(403, reason or "Forbidden", message, details={**details, "causes": causes})


def _mutate(
    invocation: Invocation,
    write: Write,
    obj: Tree,
    old: Tree | None,
    name: str,
    errors: list[tuple[str, str]],
) -> None:
    """Apply the mutations of a policy in order."""
    policy, resource = invocation.policy, invocation.resource
    for mutation in policy.spec.get("mutations") or ():
        attributes = Attributes(write, obj, old, name)
        activation = Activation(attributes, resource, policy.variables, invocation.params)
        current, _ = attributes.objects_in(resource)
        assert current is not None
        try:
            changed = _patched(mutation, activation, resource, copy.deepcopy(current))
        except (ExpressionError, OutOfBudgetError, _MutationError) as error:
            _note(errors, invocation, str(error), "Invalid")
            continue
        if changed is not None and changed != current:
            replace_object(write, resource, obj, changed)


def _patched(mutation: Tree, activation: Activation, resource: Resource, tree: Tree) -> Tree | None:
    """Return the object after a mutation; None if a test says that it stays as it is."""
    if mutation["patchType"] == "JSONPatch":
        operations = activation.evaluate(mutation["jsonPatch"]["expression"], Budget(BUDGET))
        return _json_patched(resource, operations, tree)
    config = activation.evaluate(mutation["applyConfiguration"]["expression"], Budget(BUDGET))
    return _merged(resource, config, tree)


def _json_patched(resource: Resource, operations: Any, tree: Tree) -> Tree | None:
    patch = []
    for operation in operations:
        for problem in _wrong_names(operation.get("value"), ""):
            raise _MutationError(f"type mismatch: {problem}")
        patch.append({name: _plain(value) for name, value in operation.items()})
    try:
        result = apply_operations(patch, tree)
    except TestFailedError:
        return None
    except DoesNotApplyError as error:
        raise _MutationError(f"JSON Patch: {error}") from None
    try:
        return resource.codec.sift(result, FieldValidation.STRICT).tree
    except ApiError as error:
        raise internal(problem_of(error)) from None


def _merged(resource: Resource, config: Any, tree: Tree) -> Tree:
    wrong = list(_wrong_names(config, "Object"))
    if wrong:
        raise _MutationError("type mismatch: " + "\n".join(wrong))
    shape, patch = shape_of(resource), _plain(config)
    errors = list(problems(shape, patch))
    if errors:
        listed = errors[0] if len(errors) == 1 else "\n  ".join(["errors:", *errors])
        raise _MutationError(
            f"error applying patch: failed to convert patch object to typed object: {listed}"
        )
    atomics = list(_atomics(shape, patch, ""))
    if atomics:
        where = ", ".join(atomics)
        why = f"may not mutate atomic arrays, maps or structs: {where}"
        raise _MutationError(f"error applying patch: invalid ApplyConfiguration: {why}")
    merged: Tree = merge(shape, tree, patch)
    return resource.codec.sift(merged, FieldValidation.IGNORE).tree


def _plain(value: Any) -> Any:
    """Return a value of an expression as JSON has it."""
    if isinstance(value, dict):
        return {str(name): _plain(held) for name, held in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _wrong_names(value: Any, expected: str) -> Iterator[str]:
    """Yield what is wrong with names of types, which are the paths of their fields."""
    if isinstance(value, StructValue):
        expected = expected or value.name
        if value.name != expected:
            why = f'unexpected type name "{value.name}", expected "{expected}"'
            yield f"{why}, which matches field name path from root Object type"
        for name, held in value.items():
            yield from _wrong_names(held, f"{expected}.{name}")
    elif isinstance(value, list) and expected:
        for item in value:
            yield from _wrong_names(item, expected)
    elif isinstance(value, dict) and expected:
        for held in value.values():
            yield from _wrong_names(held, expected)


def _atomics(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """Yield the paths of what is set only as a whole, which a policy would overwrite."""
    if isinstance(shape, Untyped):
        return
    if isinstance(shape, Atomic) and isinstance(value, dict):
        yield path
        shape = shape.inner
    if isinstance(shape, AtomicList) and isinstance(value, list):
        yield path
        for index, item in enumerate(value):
            yield from _atomics(shape.item, item, f"{path}[{index}]")
    elif isinstance(shape, Listed) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _atomics(shape.item, item, f"{path}[{index}]")
    elif isinstance(shape, Granular) and isinstance(value, dict):
        for name, held in value.items():
            member = shape.member(name)
            if member is not None:
                yield from _atomics(member.shape, held, f"{path}.{name}")
