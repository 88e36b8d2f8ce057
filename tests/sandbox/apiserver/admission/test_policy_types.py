"""Warnings about the types of expressions in ValidatingAdmissionPolicies."""

from __future__ import annotations

from typing import Any

from mooring.sandbox.apiserver.admission.policy_types import type_warnings
from tests.sandbox.apiserver.kit import Direct

_RULE = {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}


def _warnings(
    *validations: dict[str, str], rule: dict[str, Any] | None = None, **spec: Any
) -> list[tuple[str, str]]:
    constraints = {"resourceRules": [rule or _RULE]}
    policy = {"spec": {"matchConstraints": constraints, "validations": list(validations), **spec}}
    return [(one["fieldRef"], one["warning"]) for one in type_warnings(Direct().api.registry, policy)]


def test_expressions_that_fit_the_kind() -> None:
    assert not _warnings(
        {"expression": "object.spec.template.spec.containers.all(c, c.name != '')"},
        {"expression": "object.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')"},
        {"expression": "variables.many && has(object.status)", "messageExpression": "object.metadata.name"},
        {"expression": "oldObject.spec.template.spec.volumes.exists(v, has(v.emptyDir))"},
        variables=[{"name": "many", "expression": "object.spec.replicas > 3"}],
    )  # fmt: skip


def test_mistakes_name_the_field_and_the_kind() -> None:
    assert _warnings(
        {
            "expression": "object.spec.replicas > '1'",
            "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas",
        },
        {"expression": "object.spec.replica > 1"},
    ) == [
        (
            "spec.validations[0].expression",
            "apps/v1, Kind=Deployment: compilation failed: ERROR: <input>:1:22: found no matching "
            "overload for '_>_' "
            "applied to '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n",
        ),
        (
            "spec.validations[0].messageExpression",
            "apps/v1, Kind=Deployment: compilation failed: ERROR: <input>:1:28: found no matching "
            "overload for '_+_' "
            "applied to '(string, int)'\n | 'wants replicas > 1, got ' + object.spec.replicas\n"
            " | ...........................^\n",
        ),
        (
            "spec.validations[1].expression",
            "apps/v1, Kind=Deployment: compilation failed: ERROR: <input>:1:12: undefined field 'replica'\n"
            " | object.spec.replica > 1\n | ...........^\n",
        ),
    ]


def test_kinds_that_are_not_named_are_not_checked() -> None:
    for member in ("apiGroups", "apiVersions", "resources"):
        assert not _warnings({"expression": "object.nothing"}, rule={**_RULE, member: ["*"]})
