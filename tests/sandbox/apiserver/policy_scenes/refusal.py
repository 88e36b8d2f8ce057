"""Policies and bindings that are invalid."""

from __future__ import annotations

from typing import Any

from tests.sandbox.apiserver.policy_scenes.scene import (
    API,
    DEPLOYMENTS,
    Scene,
    Tree,
    apply,
    patch,
    validates,
)


def refused(scene: Scene) -> None:
    """Policies and bindings that cannot be created."""

    def policy(kind: str = "validating", **spec: Any) -> None:
        constraints = {"resourceRules": [{**DEPLOYMENTS, "operations": ["CREATE"]}]}
        body = {"metadata": {"name": "refused"}, "spec": {"matchConstraints": constraints, **spec}}
        scene.ask("POST", f"{API}{kind}admissionpolicies?dryRun=All", body)

    for expression in (
        "object.spec.replicas",
        "object.spec.replicas > 1 &&",
        "objekt.spec.replicas > 1",
        "'text'",
        "1 + 'a' == 2",
        "request.nothing == 'x'",
        "request.name",
        "request.userInfo.groups.exists(g, g == 1)",
        "namespaceObject.metadata.labels.size() > 0",
        "namespaceObject.metadata.nothing == 'x'",
        "params.x == 1",
        "variables.x == 1",
        "authorizer.group('').allowed()",
        "authorizer.requestResource.check('x')",
        "authorizer.requestResource.check('x').allowed()",
        "object.x.all(y, y)",
        "has(object.spec)",
        "has(object)",
        "object.spec.replicas.isGreaterThan(1)",
        "nothing(object)",
        "object.nothing()",
        "Object{spec: Object.spec{replicas: 1}} == null",
        "[1, 2 == 1",
        "{'a': 1 == 1",
        "size(object == 1",
        "(object.x == 1",
        "object.x.startsWith('a'",
        "[1, 2, 'a'] == 1",
        "duration('x') == duration('1s')",
        "",
        "  ",
    ):
        policy(validations=validates(expression))
    policy(validations=validates("true", messageExpression="object.metadata.name"))
    policy(validations=validates("true", messageExpression="1"))
    policy(validations=validates("true", messageExpression="authorizer.requestResource.check('x').reason()"))
    policy(validations=validates("true", messageExpression=" "))
    policy(validations=validates("true", message=" "))
    policy(validations=validates("true", message="a\nb"))
    policy(validations=validates("true", reason="Nope"))
    policy()
    policy(validations=[], auditAnnotations=[])
    policy(auditAnnotations=[{"key": "a", "valueExpression": "1"}, {"key": "a", "valueExpression": "'x'"}])
    policy(auditAnnotations=[{"key": "a b", "valueExpression": "object.x"}])
    policy(validations=validates("true"), failurePolicy="Maybe")
    policy(
        validations=validates("true"),
        matchConditions=[{"name": "", "expression": "true"}, {"name": "a b", "expression": ""}],
    )
    policy(
        validations=validates("true"),
        matchConditions=[{"name": "a", "expression": "1"}, {"name": "a", "expression": "true"}],
    )
    policy(
        validations=validates("true"),
        matchConditions=[{"name": "a", "expression": "variables.x"}],
        variables=[{"name": "x", "expression": "true"}],
    )
    policy(
        validations=validates("true"),
        variables=[{"name": "a-b", "expression": "1"}, {"name": "if", "expression": ""}],
    )
    policy(validations=validates("variables.x == 1"), variables=[{"name": "x", "expression": "'text'"}])
    policy(validations=validates("variables.y == 1"), variables=[{"name": "x", "expression": "'text'"}])
    policy(
        validations=validates("true"),
        variables=[{"name": "x", "expression": "variables.y"}, {"name": "y", "expression": "1"}],
    )
    policy(validations=validates("true"), paramKind={"apiVersion": "a/b/c", "kind": "X"})
    policy(validations=validates("true"), paramKind={"apiVersion": "a/", "kind": ""})
    policy(validations=validates("true"), paramKind={"apiVersion": "V1", "kind": "X_"})
    for mutation in (
        {},
        {"patchType": "Nope"},
        {"patchType": "JSONPatch"},
        {**patch("[]"), "applyConfiguration": {"expression": "Object{}"}},
        patch("'x'"),
        patch(""),
        apply("{}"),
        apply("Object{metadata: 1"),
        apply("JSONPatch{}"),
        patch("[JSONPatch{nothing: 1}]"),
        patch("[JSONPatch{op: 1}]"),
    ):
        policy("mutating", mutations=[mutation], reinvocationPolicy="Never")
    policy("mutating")
    policy("mutating", mutations=[apply("Object{}")])
    rules: Tree
    for rules in (
        {},
        {"resourceRules": []},
        {"resourceRules": [{}]},
        {"resourceRules": [{**DEPLOYMENTS, "operations": ["*", "CREATE"]}]},
        {"resourceRules": [{**DEPLOYMENTS, "operations": ["GET"], "scope": "Some"}]},
        {
            "resourceRules": [
                {
                    **DEPLOYMENTS,
                    "operations": ["CREATE"],
                    "apiGroups": ["*", "apps"],
                    "apiVersions": ["", "*"],
                }
            ]
        },
        {"resourceRules": [{**DEPLOYMENTS, "operations": ["CREATE"], "resources": ["*/*", "pods", ""]}]},
        {
            "resourceRules": [
                {
                    **DEPLOYMENTS,
                    "operations": ["CREATE"],
                    "resources": ["pods/*", "pods/log", "*/log", "x/log"],
                }
            ]
        },
        {"resourceRules": [{**DEPLOYMENTS, "operations": ["CREATE"], "resources": ["*", "pods"]}]},
        {"resourceRules": [{**DEPLOYMENTS, "operations": ["CREATE"], "resourceNames": ["a", "a", "a/b"]}]},
        {"resourceRules": [{**DEPLOYMENTS, "operations": ["CREATE"]}], "matchPolicy": "Some"},
        {
            "resourceRules": [{**DEPLOYMENTS, "operations": ["CREATE"]}],
            "objectSelector": {"matchLabels": {"a b": "c"}},
        },
    ):
        body = {
            "metadata": {"name": "refused"},
            "spec": {"matchConstraints": rules, "validations": validates("true")},
        }
        scene.ask("POST", f"{API}validatingadmissionpolicies?dryRun=All", body)
    for spec in (
        {},
        {"policyName": "A", "validationActions": ["Deny", "Warn"]},
        {"policyName": "a", "validationActions": ["Deny", "Deny", "Nope"]},
        {"policyName": "a", "validationActions": ["Deny"], "paramRef": {}},
        {
            "policyName": "a",
            "validationActions": ["Deny"],
            "paramRef": {"name": "x/y", "selector": {}, "parameterNotFoundAction": "Maybe"},
        },
        {
            "policyName": "a",
            "validationActions": ["Deny"],
            "paramRef": {"name": "x", "parameterNotFoundAction": "Deny"},
        },
    ):
        scene.ask(
            "POST",
            f"{API}validatingadmissionpolicybindings?dryRun=All",
            {"metadata": {"name": "refused"}, "spec": spec},
        )


MISTYPED = (
    "sets.contains([1], ['a'])",
    "lists.range('a').size() > 0",
    "ip('1.2.3.4').family() == '4'",
    "cidr('1.0.0.0/8').containsIP(5)",
    "url('https://a').getHost() == 1",
    "quantity('1').isLessThan(1)",
    "semver('1.0.0').major() == '1'",
    "[1, 2].sum() == 'a'",
    "['a'].join(1) == ''",
    "{'a': 1}.transformMap(k, v, v > 'x').size() > 0",
    "[1].exists(x, x == 'a') && [2].all(y, y.size() > 0)",
    "optional.of(1).orValue('a') == 1",
    "request.userInfo.groups.exists(g, g > 1)",
    "request.kind.group == 1 || request.nothing == 2",
    "namespaceObject.metadata.labels.a == 1",
    "authorizer.group('').resource('pods').check(1).allowed()",
    "authorizer.nothing()",
    "cel.bind(x, 1, x == 1)",
    "jsonpatch.escapeKey('a') == 'a'",
    "JSONPatch{op: 'add'}.op == 'add'",
    "duration('1s') + 1 > duration('1s')",
    "timestamp('2020-01-01T00:00:00Z').getHours() == 'a'",
    "'%d'.format(['a']) == ''",
    "type(1) == 1",
    "size(1) == 1",
    "object.a + 1",
    "dyn(1)",
    "[1, 'a']",
    "null",
)


def mistyped(scene: Scene) -> None:
    """Expressions whose types are wrong, or not a bool."""
    rules = [{**DEPLOYMENTS, "operations": ["CREATE"]}]
    for expression in MISTYPED:
        spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression}]}
        body = {"metadata": {"name": "mistyped"}, "spec": spec}
        scene.ask("POST", f"{API}validatingadmissionpolicies?dryRun=All", body)
