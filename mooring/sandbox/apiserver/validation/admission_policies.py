"""ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mooring.cel.types import BOOL, NULL, STRING, Type, list_of
from mooring.sandbox.apiserver.errors import (
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
)
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.admission_expressions import (
    check_expression,
    declarations,
    problems,
)
from mooring.sandbox.apiserver.validation.admission_rules import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    match_conditions,
    match_resources,
)
from mooring.sandbox.apiserver.validation.fields import Causes, one_of, text
from mooring.sandbox.apiserver.validation.labels import label_selector
from mooring.sandbox.apiserver.validation.names import dns_subdomain, path_segment, qualified_name

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MUTABLE: Final = ("CREATE", "UPDATE")
_PATCHES: Final = {
    "ApplyConfiguration": ("applyConfiguration", Type("Object")),
    "JSONPatch": ("jsonPatch", list_of(Type("JSONPatch"))),
}
_MOST_ANNOTATIONS: Final = 20
_LONGEST_VALUE: Final = 5 * 1024
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_VERSION: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_RESERVED: Final = frozenset(
    [
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
        "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
    ]
)  # fmt: skip


def validating_policy(policy: Tree) -> Causes:
    spec = policy["spec"]
    yield from _common(spec)
    variables: dict[str, Type] = {}
    yield from _variables(spec, variables)
    validations, annotations = spec.get("validations"), spec.get("auditAnnotations")
    if not validations and not annotations:
        why = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", why)
        yield required("spec.auditAnnotations", why)
        return
    own = variables if spec.get("variables") else None
    for index, validation in enumerate(validations or ()):
        yield from _validation(f"spec.validations[{index}]", validation, spec, own)
    yield from _annotations(policy["metadata"].get("name", ""), annotations or (), spec, own)


def mutating_policy(policy: Tree) -> Causes:
    spec = policy["spec"]
    yield from _common(spec, mutating=True)
    variables: dict[str, Type] = {}
    yield from _variables(spec, variables)
    mutations = spec.get("mutations")
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations or ()):
        yield from _mutation(f"spec.mutations[{index}]", mutation, spec, variables)
    yield from one_of("spec.reinvocationPolicy", spec.get("reinvocationPolicy"), REINVOCATION_POLICIES)


def _common(spec: Tree, *, mutating: bool = False) -> Causes:
    """Validate what both kinds of policies have, up to their variables."""
    yield from one_of("spec.failurePolicy", spec.get("failurePolicy"), FAILURE_POLICIES)
    if spec.get("paramKind") is not None:
        yield from _param_kind("spec.paramKind", spec["paramKind"])
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield required("spec.matchConstraints")
    else:
        yield from match_resources("spec.matchConstraints", constraints)
        if not constraints.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
        if mutating:
            yield from _mutable("spec.matchConstraints", constraints)
    params = spec.get("paramKind") is not None
    yield from match_conditions("spec.matchConditions", spec.get("matchConditions"), params=params)


def _mutable(path: str, resources: Tree) -> Causes:
    for rule in resources.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTABLE:
                yield not_supported(f"{path}.resourceRules.operations", operation, _MUTABLE)


def _param_kind(path: str, kind: Tree) -> Causes:
    version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    if not version:
        yield required(f"{path}.apiVersion")
    elif version.count("/") > 1:
        why = f"unexpected GroupVersion string: {version}"
        yield invalid_value(f"{path}.apiVersion", version, why)
    else:
        group, _, last = version.rpartition("/")
        if group:
            yield from text(f"{path}.apiVersion", group, dns_subdomain)
        if not last:
            yield invalid_value(f"{path}.apiVersion", version, "version must be specified")
        elif not _VERSION.fullmatch(last):
            yield invalid_value(f"{path}.apiVersion", last, _LABEL_1035)
    if not name:
        yield required(f"{path}.kind")
    elif not _VERSION.fullmatch(name.lower()):
        why = f"may have mixed case, but should otherwise match: {_LABEL_1035}"
        yield invalid_value(f"{path}.kind", name, why)


def _variables(spec: Tree, types: dict[str, Type]) -> Causes:
    """Validate the variables of a policy, and add their types."""
    params = spec.get("paramKind") is not None
    for index, variable in enumerate(spec.get("variables") or ()):
        path, name = f"spec.variables[{index}]", variable.get("name", "")
        expression = variable.get("expression", "")
        if not name.strip():
            yield required(f"{path}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            yield invalid_value(f"{path}.name", name, "must be a valid CEL identifier")
        if not expression.strip():
            yield required(f"{path}.expression", "expression is not specified")
            continue
        checked = check_expression(expression, declarations(params=params, variables=dict(types)))
        if checked.problem:
            yield invalid_value(f"{path}.expression", expression, checked.problem)
        types[name] = checked.type


def _validation(path: str, validation: Tree, spec: Tree, variables: dict[str, Type] | None) -> Causes:
    params = spec.get("paramKind") is not None
    expression, message = validation.get("expression", ""), validation.get("message", "")
    if not expression.strip():
        yield required(f"{path}.expression", "expression is not specified")
    else:
        checked = check_expression(expression, declarations(params=params, variables=variables))
        yield from problems(f"{path}.expression", expression, checked, (BOOL,))
    wording = validation.get("messageExpression", "")
    if wording and not wording.strip():
        yield invalid_value(f"{path}.messageExpression", wording, "must be non-empty if specified")
    elif wording:
        visible = declarations(params=params, authorizer=False, variables=variables)
        checked = check_expression(wording, visible)
        yield from problems(f"{path}.messageExpression", wording, checked, (STRING,))
    if message and not message.strip():
        yield invalid_value(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield invalid_value(f"{path}.message", message, "must not contain line breaks")
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)


def _annotations(
    policy: str, annotations: Iterable[Tree], spec: Tree, variables: dict[str, Type] | None
) -> Causes:
    every, seen = list(annotations), set()
    if len(every) > _MOST_ANNOTATIONS:
        why = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield invalid_value("spec.auditAnnotations", every, why)
    params = spec.get("paramKind") is not None
    for index, annotation in enumerate(every):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key", "")
        yield from text(f"{path}.key", f"{policy}/{key}", qualified_name)
        expression = annotation.get("valueExpression", "")
        if not expression.strip():
            yield required(f"{path}.valueExpression", "valueExpression is not specified")
        elif len(expression.strip().encode()) > _LONGEST_VALUE:
            yield required(f"{path}.valueExpression", f"must not exceed {_LONGEST_VALUE} bytes in length")
        else:
            checked = check_expression(expression.strip(), declarations(params=params, variables=variables))
            yield from problems(f"{path}.valueExpression", expression, checked, (STRING, NULL))
        if key in seen:
            yield duplicate(f"{path}.key", key)
        seen.add(key)


def _mutation(path: str, mutation: Tree, spec: Tree, variables: dict[str, Type]) -> Causes:
    patch = mutation.get("patchType", "")
    if patch not in _PATCHES:
        yield from one_of(f"{path}.patchType", patch, tuple(_PATCHES))
        return
    member, result = _PATCHES[patch]
    if mutation.get(member) is None:
        yield required(f"{path}.{member}", f"must be specified when patchType is {patch}")
    else:
        expression = mutation[member].get("expression", "").strip()
        if not expression:
            yield required(f"{path}.{member}.expression")
        else:
            params = spec.get("paramKind") is not None
            visible = declarations(params=params, variables=variables, patches=True)
            checked = check_expression(expression, visible)
            yield from problems(f"{path}.{member}.expression", expression, checked, (result,))
    for other, (its_member, _) in _PATCHES.items():
        if other != patch and mutation.get(its_member) is not None:
            why = f"must not be specified when patchType is {patch}"
            yield invalid_value(f"{path}.{its_member}", f"{{{its_member}}}", why)


# ---- bindings -------------------------------------------------------------------------------------


def validating_binding(binding: Tree) -> Causes:
    yield from _binding(binding)
    actions, seen = binding["spec"].get("validationActions") or [], set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"spec.validationActions[{index}]", action, _ACTIONS)
        if action in seen:
            yield duplicate(f"spec.validationActions[{index}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        yield invalid_value("spec.validationActions", actions, why)
    if not actions:
        yield required("spec.validationActions", "at least one validation action is required")


def mutating_binding(binding: Tree) -> Causes:
    yield from _binding(binding)
    if binding["spec"].get("matchResources") is not None:
        yield from _mutable("spec.matchResources", binding["spec"]["matchResources"])


def _binding(binding: Tree) -> Causes:
    spec = binding["spec"]
    if not spec.get("policyName"):
        yield required("spec.policyName")
    else:
        yield from text("spec.policyName", spec["policyName"], dns_subdomain)
    if spec.get("paramRef") is not None:
        yield from _param_ref("spec.paramRef", spec["paramRef"])
    if spec.get("matchResources") is not None:
        yield from match_resources("spec.matchResources", spec["matchResources"])


def _param_ref(path: str, ref: Tree) -> Causes:
    name, selector, exclusive = (
        ref.get("name", ""),
        ref.get("selector"),
        "name and selector are mutually exclusive",
    )
    if name:
        yield from text(f"{path}.name", name, path_segment)
        if selector is not None:
            yield forbidden_value(f"{path}.name", exclusive)
    if selector is not None:
        yield from label_selector(f"{path}.selector", selector)
        if name:
            yield forbidden_value(f"{path}.selector", exclusive)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    yield from one_of(
        f"{path}.parameterNotFoundAction", ref.get("parameterNotFoundAction"), ("Deny", "Allow")
    )
