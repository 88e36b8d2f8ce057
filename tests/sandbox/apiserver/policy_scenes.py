"""Admission policies, and writes that they admit or deny: asked of a real API server and of the embedded one.

`python -m tests.sandbox.apiserver.record_policies` keeps the real server's answers in data/policies.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.sandbox.apiserver.patch_replay import DATA, PATCHES, Answer, Step

Tree = dict[str, Any]

RECORDED: Path = DATA / "policies.json"
PAUSE = Step("PAUSE", "", "", None, "")
"""For the real server, which learns of policies after a while."""
_API = "/apis/admissionregistration.k8s.io/v1/"
_DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
_CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def namespace_of(scene: str) -> str:
    return "p-" + scene.replace(" ", "-")


def _step(method: str, path: str, body: Tree | None = None, user: str = "") -> Step:
    content_type = PATCHES.get(method, "application/json")
    data = None if body is None else json.dumps(body).encode()
    return Step("PATCH" if method in PATCHES else method, path, content_type, data, "tester", user)


def making_namespace(scene: str) -> Step:
    name = namespace_of(scene)
    return _step("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": {"team": "a"}}})


class Scene:
    """Requests about one namespace."""

    def __init__(self, name: str) -> None:
        self.namespace = namespace_of(name)
        self.steps: list[Step] = []

    def policy(self, kind: str = "validating", *, bind: Tree | None = None, **spec: Any) -> Scene:
        """Create a policy on Deployments by default, and bind it to this namespace."""
        rules = spec.pop("rules", None) or [{**_DEPLOYMENTS, "operations": ["CREATE", "UPDATE"]}]
        constraints = {"resourceRules": rules, **spec.pop("constraints", {})}
        name = spec.pop("name", self.namespace)
        body = {"metadata": {"name": name}, "spec": {"matchConstraints": constraints, **spec}}
        self.steps.append(_step("POST", f"{_API}{kind}admissionpolicies", body))
        if bind is None:
            bind = {}
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        resources = {"namespaceSelector": selector, **bind.pop("matchResources", {})}
        actions = {"validationActions": ["Deny"]} if kind == "validating" else {}
        binding = {"policyName": name, "matchResources": resources, **actions, **bind}
        self.steps.append(
            _step(
                "POST", f"{_API}{kind}admissionpolicybindings", {"metadata": {"name": name}, "spec": binding}
            )
        )
        return self

    def pause(self) -> Scene:
        self.steps.append(PAUSE)
        return self

    def ask(self, method: str, path: str, body: Tree | None = None, user: str = "") -> Scene:
        self.steps.append(_step(method, path, body, user))
        return self

    def deployment(
        self, name: str = "web", replicas: int = 1, user: str = "", query: str = "", **more: Any
    ) -> Scene:
        labels = {"app": name}
        container = {"name": "c", "image": "nginx:1", **more.pop("container", {})}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": name, **more}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments{query}"
        return self.ask("POST", path, {"metadata": metadata, "spec": spec}, user)

    def config_map(self, name: str, user: str = "", data: Tree | None = None, **metadata: Any) -> Scene:
        body = {"metadata": {"name": name, **metadata}, "data": data or {"a": "b"}}
        return self.ask("POST", f"/api/v1/namespaces/{self.namespace}/configmaps", body, user)


def scenes() -> dict[str, list[Step]]:
    found = {}
    for name, build in _SCENES.items():
        scene = Scene(name)
        build(scene)
        found[name] = scene.steps
    return found


def normal(answer: Answer) -> list[Any]:
    """The code, what is said or stored, and the warnings, without what differs from server to server."""
    tree = answer.tree
    if tree.get("kind") == "Status":
        details = {name: value for name, value in (tree.get("details") or {}).items() if name != "uid"}
        shown = {**{name: tree[name] for name in ("reason", "message") if name in tree}, "details": details}
        return [answer.code, shown, answer.warnings]
    metadata = {
        name: value for name, value in tree["metadata"].items() if name in ("name", "labels", "annotations")
    }
    return [answer.code, {"metadata": metadata, "spec": _plain(tree.get("spec") or {})}, answer.warnings]


def _plain(value: Any) -> Any:
    """A tree without nulls, which the form of the file has no room for."""
    if isinstance(value, dict):
        return {name: _plain(held) for name, held in value.items() if held is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value


# ---- scenes ---------------------------------------------------------------------------------------


def _validates(expression: str, **more: Any) -> list[Tree]:
    return [{"expression": expression, **more}]


def _denials(scene: Scene) -> None:
    scene.policy(
        validations=[
            {
                "expression": "object.spec.replicas > 1",
                "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas",
            },
            {
                "expression": f"namespaceObject.metadata.name == '{scene.namespace}'",
                "message": "wrong namespace",
            },
        ]
    )
    scene.pause().deployment(replicas=1).deployment(replicas=2).deployment("other", replicas=0)


def _messages(scene: Scene) -> None:
    rules = [{**_CONFIG_MAPS, "operations": ["CREATE"]}]
    cases = {
        "a": {"messageExpression": "'data of ' + object.metadata.name + ': ' + string(size(object.data))"},
        "b": {"message": "  plain message  "},
        "c": {"messageExpression": "'two\\nlines'", "message": "instead"},
        "d": {"messageExpression": "''"},
        "e": {"messageExpression": "object.nothing", "message": "m"},
        "f": {"reason": "Forbidden"},
        "g": {"reason": "Unauthorized", "message": "who are you"},
        "h": {"reason": "RequestEntityTooLarge"},
        "i": {"messageExpression": "'%s has %d'.format([object.metadata.name, 3])"},
    }
    for name, more in cases.items():
        scene.policy(
            name=f"{scene.namespace}-{name}",
            rules=rules,
            constraints={"objectSelector": {"matchLabels": {"case": name}}},
            validations=_validates("object.metadata.name == 'good'", **more),
        )
    scene.pause()
    for name in cases:
        scene.config_map(f"cm-{name}", labels={"case": name})
    scene.config_map("good", labels={"case": "a"}).config_map("none")


def _variables(scene: Scene) -> None:
    scene.policy(
        variables=[
            {"name": "replicas", "expression": "object.spec.replicas"},
            {"name": "oddReplicas", "expression": "variables.replicas % 2 == 1"},
            {"name": "bad", "expression": "object.spec.nothing"},
        ],
        validations=[
            {"expression": "variables.replicas > 1"},
            {
                "expression": "variables.oddReplicas",
                "messageExpression": "'even: ' + string(variables.replicas)",
            },
            {"expression": "variables.replicas < 7 || variables.bad == 1"},
        ],
    )
    scene.pause()
    for replicas in (1, 2, 3, 7):
        scene.deployment(f"web-{replicas}", replicas=replicas)


def _errors(scene: Scene) -> None:
    rules = [{**_CONFIG_MAPS, "operations": ["CREATE", "UPDATE", "DELETE"]}]
    expressions = {
        "a": "object.data.missing == 'x'",
        "b": "object.data.a > 1",
        "c": "object.metadata.labels['none'] == 'x'",
        "d": "int(object.data.a) == 1",
        "e": "[1, 2][5] == 1",
        "f": "object.data.a.matches('[')",
        "g": "1 / 0 == 1",
        "h": "oldObject.data.a == 'b'",
        "i": "duration(object.data.a) == duration('1s')",
        "j": "quantity(object.data.a).isGreaterThan(quantity('1'))",
        "k": "object.metadata.name.find('[a-z]') == 'z'",
    }
    for name, expression in expressions.items():
        scene.policy(
            name=f"{scene.namespace}-{name}",
            rules=rules,
            constraints={"objectSelector": {"matchLabels": {"case": name}}},
            validations=_validates(expression),
        )
    scene.policy(
        name=f"{scene.namespace}-ignored",
        rules=rules,
        failurePolicy="Ignore",
        constraints={"objectSelector": {"matchLabels": {"case": "ignored"}}},
        validations=[*_validates("object.data.missing == 'x'"), *_validates("object.data.a == 'b'")],
    )
    scene.pause()
    for name in expressions:
        scene.config_map(f"cm-{name}", labels={"case": name})
    scene.config_map("i1", labels={"case": "ignored"}).config_map(
        "i2", labels={"case": "ignored"}, data={"a": "c"}
    )


def _operations(scene: Scene) -> None:
    path = f"/api/v1/namespaces/{scene.namespace}/configmaps/one"
    scene.policy(
        name=f"{scene.namespace}-delete",
        rules=[{**_CONFIG_MAPS, "operations": ["DELETE"]}],
        validations=_validates("object == null && oldObject.data.a == 'free'", message="still in use"),
    )
    scene.policy(
        name=f"{scene.namespace}-update",
        rules=[{**_CONFIG_MAPS, "operations": ["UPDATE"], "resourceNames": ["one"]}],
        matchConditions=[{"name": "changes", "expression": "object.data != oldObject.data"}],
        validations=_validates(
            "request.operation == 'UPDATE' && request.name == 'one' && oldObject.data.a in ['b']"
            " && request.userInfo.username == 'admin'",
            messageExpression="'not by ' + request.userInfo.username + ' from ' + oldObject.data.a",
        ),
    )
    scene.pause().config_map("one").config_map("two").ask("DELETE", path)
    scene.ask("merge", path, {"data": {"a": "free"}}).ask("merge", path, {"metadata": {"labels": {"x": "y"}}})
    scene.ask("merge", path, {"data": {"a": "again"}}).ask("DELETE", path)
    scene.ask("DELETE", path.replace("/one", "/two"))


def _conditions(scene: Scene) -> None:
    rules = [{**_CONFIG_MAPS, "operations": ["CREATE"]}]
    scene.policy(
        rules=rules,
        matchConditions=[
            {"name": "named", "expression": "object.metadata.name.startsWith('c')"},
            {"name": "key", "expression": "object.data.key == 'x'"},
        ],
        validations=_validates("false", message="never"),
    )
    scene.policy(
        name=f"{scene.namespace}-ignore",
        rules=rules,
        failurePolicy="Ignore",
        matchConditions=[{"name": "label", "expression": "object.metadata.labels.x == 'y'"}],
        validations=_validates("false", message="never again"),
    )
    scene.pause().config_map("a").config_map("c1").config_map("c2", data={"key": "x"}).config_map(
        "c3", data={"key": "z"}
    )
    scene.config_map("b", labels={"x": "y"})


def _params(scene: Scene) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    expression = "object.spec.replicas <= int(params.data.max)"
    wording = "'at most ' + params.data.max + ' by ' + params.metadata.name"
    scene.config_map("limit", data={"max": "3"}, labels={"limits": "yes"})
    scene.config_map("tight", data={"max": "2"}, labels={"limits": "yes"})
    for name, ref in {
        "named": {"name": "limit", "parameterNotFoundAction": "Deny"},
        "missing": {"name": "none", "parameterNotFoundAction": "Deny"},
        "allowed": {"name": "none", "parameterNotFoundAction": "Allow"},
        "chosen": {"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Deny"},
        "elsewhere": {"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"},
    }.items():
        scene.policy(
            name=f"{scene.namespace}-{name}",
            paramKind=kind,
            constraints={"objectSelector": {"matchLabels": {"case": name}}},
            validations=_validates(expression, messageExpression=wording),
            bind={"paramRef": ref},
        )
    scene.policy(
        name=f"{scene.namespace}-without",
        paramKind=kind,
        constraints={"objectSelector": {"matchLabels": {"case": "without"}}},
        validations=_validates("params == null", message="has params"),
    )
    scene.policy(
        name=f"{scene.namespace}-unknown",
        paramKind={"apiVersion": "example.com/v1", "kind": "Nothing"},
        constraints={"objectSelector": {"matchLabels": {"case": "unknown"}}},
        validations=_validates("params.x == 1"),
        bind={"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}},
    )
    scene.pause().pause()
    for name in ("named", "missing", "allowed", "chosen", "elsewhere", "without", "unknown"):
        # which one of several parameters denies first is a matter of chance
        for replicas in (2, 3) if name == "chosen" else (2, 3, 4):
            scene.deployment(f"{name}-{replicas}", replicas=replicas, labels={"case": name})


def _actions(scene: Scene) -> None:
    rules = [{**_CONFIG_MAPS, "operations": ["CREATE"]}]
    for name, actions in {
        "warn": ["Warn"],
        "audit": ["Audit"],
        "both": ["Warn", "Audit"],
        "deny": ["Deny", "Audit"],
    }.items():
        scene.policy(
            name=f"{scene.namespace}-{name}",
            rules=rules,
            constraints={"objectSelector": {"matchLabels": {"case": name}}},
            validations=[
                *_validates("size(object.data) > 3", message=f"few ({name})"),
                *_validates("object.data.x == 'y'"),
            ],
            auditAnnotations=[{"key": "size", "valueExpression": "string(size(object.data))"}],
            bind={"validationActions": actions},
        )
    scene.policy(
        name=f"{scene.namespace}-annotations",
        rules=rules,
        constraints={"objectSelector": {"matchLabels": {"case": "annotations"}}},
        auditAnnotations=[{"key": "size", "valueExpression": "string(object.data.none)"}],
    )
    scene.pause()
    for name in ("warn", "audit", "both", "deny", "annotations"):
        scene.config_map(f"cm-{name}", labels={"case": name})


def _matching(scene: Scene) -> None:
    every = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    scene.policy(
        name=f"{scene.namespace}-all",
        rules=[every],
        constraints={
            "objectSelector": {
                "matchExpressions": [{"key": "case", "operator": "In", "values": ["all", "ex"]}]
            },
            "excludeResourceRules": [{**_CONFIG_MAPS, "operations": ["*"], "resourceNames": ["spared"]}],
        },
        validations=_validates(
            "false",
            messageExpression="request.kind.kind + ' ' + request.resource.group + '/'"
            " + request.resource.version + '/' + request.resource.resource + ' ' + request.operation",
        ),
    )
    scene.policy(
        name=f"{scene.namespace}-v1",
        rules=[
            {
                "apiGroups": ["autoscaling"],
                "apiVersions": ["v1"],
                "resources": ["horizontalpodautoscalers"],
                "operations": ["CREATE"],
            }
        ],
        validations=_validates(
            "object.apiVersion != 'autoscaling/v1'",
            messageExpression="object.apiVersion + ' ' + request.kind.version + ' ' + "
            "request.requestKind.version + ' ' + request.requestResource.version",
        ),
    )
    scene.policy(
        name=f"{scene.namespace}-status",
        rules=[
            {
                "apiGroups": ["apps"],
                "apiVersions": ["v1"],
                "resources": ["deployments/status"],
                "operations": ["UPDATE"],
            }
        ],
        validations=_validates("request.subResource != 'status'", message="no status"),
    )
    scene.policy(
        name=f"{scene.namespace}-cluster",
        rules=[{**_CONFIG_MAPS, "operations": ["CREATE"], "scope": "Cluster"}],
        validations=_validates("false", message="never reached"),
    )
    scene.policy(
        name=f"{scene.namespace}-team",
        rules=[{**_CONFIG_MAPS, "operations": ["CREATE"]}],
        constraints={
            "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
        },
        validations=_validates("false", message="never reached"),
    )
    scene.policy(
        name=f"{scene.namespace}-whole",
        rules=[{**_DEPLOYMENTS, "operations": ["UPDATE"]}],
        validations=_validates("false", message="not the whole"),
    )
    scene.policy(
        name=f"{scene.namespace}-scale",
        rules=[{**_DEPLOYMENTS, "resources": ["deployments/scale"], "operations": ["UPDATE"]}],
        validations=_validates(
            "object.spec.replicas < 5",
            messageExpression="request.kind.kind + ' ' + request.subResource + ' '"
            " + string(object.spec.replicas) + ' from ' + string(oldObject.spec.replicas)",
        ),
    )
    scene.pause().config_map("x", labels={"case": "all"}).config_map("spared", labels={"case": "ex"})
    scene.deployment("d", labels={"case": "all"}).deployment("e")
    path = f"/apis/apps/v1/namespaces/{scene.namespace}/deployments/e/status"
    scene.ask("merge", path, {"status": {"replicas": 1}})
    scale = path.replace("/status", "/scale")
    for replicas in (3, 7):
        scene.ask("merge", scale, {"spec": {"replicas": replicas}})
    scene.ask("merge", path.removesuffix("/status"), {"spec": {"replicas": 4}})
    hpa = {
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "e"},
        },
    }
    scene.ask("POST", f"/apis/autoscaling/v2/namespaces/{scene.namespace}/horizontalpodautoscalers", hpa)
    scene.ask("POST", f"/apis/autoscaling/v1/namespaces/{scene.namespace}/horizontalpodautoscalers", hpa)


def _authorizer(scene: Scene) -> None:
    rules = [{**_CONFIG_MAPS, "operations": ["CREATE"]}]
    group = "authorizer.group('').resource('secrets')"
    cases = {
        "a": f"{group}.namespace('{scene.namespace}').check('delete').allowed()",
        "b": "authorizer.requestResource.check('deny').allowed()",
        "c": "authorizer.path('/healthz').check('get').allowed()",
        "d": f"authorizer.serviceAccount('{scene.namespace}', 'default').group('').resource('pods')"
        ".check('get').allowed()",
        "e": f"{group}.subresource('x').name('y').check('get').reason() == 'none'",
    }
    for name, expression in cases.items():
        scene.policy(
            name=f"{scene.namespace}-{name}",
            rules=rules,
            constraints={"objectSelector": {"matchLabels": {"case": name}}},
            validations=_validates(expression),
        )
    scene.pause()
    for name in cases:
        scene.config_map(f"cm-{name}", labels={"case": name})


def _apply(expression: str) -> Tree:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def _patch(expression: str) -> Tree:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def _mutations(scene: Scene) -> None:
    cases = {
        "a": [_apply("Object{spec: Object.spec{replicas: 1337}}")],
        "b": [_apply("Object{metadata: Object.metadata{annotations: {'by': 'policy'}, labels: {'x': 'y'}}}")],
        "c": [
            _apply(
                "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{"
                "containers: [Object.spec.template.spec.containers{name: 'side', image: 'side:1'}]}}}}"
            )
        ],
        "d": [_patch("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}]")],
        "e": [
            _patch(
                "[JSONPatch{op: 'test', path: '/spec/replicas', value: 100},"
                " JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}]"
            )
        ],
        "f": [
            _patch(
                "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 'b'}},"
                " JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('k8s.io/x~y'),"
                " value: 'c'}]"
            )
        ],
        "g": [_patch("[JSONPatch{op: 'remove', path: '/spec/nothing/more'}]")],
        "h": [_apply("Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}")],
        "i": [_apply("Object{spec: Object.spec{nothing: 1}}")],
        "j": [_apply("Object{spec: Object.spek{replicas: 1}}")],
        "k": [_apply("Object{spec: Object.spec{replicas: object.spec.none}}")],
        "l": [_apply("Object{spec: Object.spec{replicas: 'three'}}")],
        "m": [
            _patch("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 2}]"),
            _apply("Object{spec: Object.spec{replicas: object.spec.replicas * 10}}"),
        ],
        "n": [_patch("[JSONPatch{op: 'add', path: '/spec/unknown', value: 1}]")],
        "o": [
            _apply(
                "has(object.metadata.annotations) ? Object{} :"
                " Object{metadata: Object.metadata{annotations: {'was': 'none'}}}"
            )
        ],
    }
    for name, mutations in cases.items():
        scene.policy(
            "mutating",
            name=f"{scene.namespace}-{name}",
            constraints={"objectSelector": {"matchLabels": {"case": name}}},
            mutations=mutations,
            reinvocationPolicy="Never",
        )
    scene.pause().pause()
    for name in cases:
        scene.deployment(f"web-{name}", replicas=1, labels={"case": name})
    scene.policy(
        "mutating",
        name=f"{scene.namespace}-ignored",
        failurePolicy="Ignore",
        constraints={"objectSelector": {"matchLabels": {"case": "ignored"}}},
        matchConditions=[{"name": "few", "expression": "object.spec.replicas < 3"}],
        variables=[{"name": "more", "expression": "object.spec.replicas + 1"}],
        mutations=[
            _apply("Object{spec: Object.spec{replicas: object.spec.none}}"),
            _apply("Object{spec: Object.spec{replicas: variables.more}}"),
        ],
        reinvocationPolicy="IfNeeded",
    )
    scene.pause().pause().deployment("i1", replicas=1, labels={"case": "ignored"})
    scene.deployment("i5", replicas=5, labels={"case": "ignored"})


def _reinvoked(scene: Scene) -> None:
    for name, policy, expression in (
        (
            "a",
            "IfNeeded",
            "Object{metadata: Object.metadata{annotations: {'a': 'of ' + string(object.spec.replicas)}}}",
        ),
        ("c", "Never", "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}"),
    ):
        scene.policy(
            "mutating",
            name=f"{scene.namespace}-{name}",
            mutations=[_apply(expression)],
            reinvocationPolicy=policy,
        )
    scene.pause().pause().deployment("web")
    path = f"/apis/apps/v1/namespaces/{scene.namespace}/deployments/web"
    scene.ask("merge", path, {"metadata": {"labels": {"x": "y"}}})


def _refused(scene: Scene) -> None:
    """Policies and bindings that cannot be created."""

    def policy(kind: str = "validating", **spec: Any) -> None:
        constraints = {"resourceRules": [{**_DEPLOYMENTS, "operations": ["CREATE"]}]}
        body = {"metadata": {"name": "refused"}, "spec": {"matchConstraints": constraints, **spec}}
        scene.ask("POST", f"{_API}{kind}admissionpolicies?dryRun=All", body)

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
        policy(validations=_validates(expression))
    policy(validations=_validates("true", messageExpression="object.metadata.name"))
    policy(validations=_validates("true", messageExpression="1"))
    policy(validations=_validates("true", messageExpression="authorizer.requestResource.check('x').reason()"))
    policy(validations=_validates("true", messageExpression=" "))
    policy(validations=_validates("true", message=" "))
    policy(validations=_validates("true", message="a\nb"))
    policy(validations=_validates("true", reason="Nope"))
    policy()
    policy(validations=[], auditAnnotations=[])
    policy(auditAnnotations=[{"key": "a", "valueExpression": "1"}, {"key": "a", "valueExpression": "'x'"}])
    policy(auditAnnotations=[{"key": "a b", "valueExpression": "object.x"}])
    policy(validations=_validates("true"), failurePolicy="Maybe")
    policy(
        validations=_validates("true"),
        matchConditions=[{"name": "", "expression": "true"}, {"name": "a b", "expression": ""}],
    )
    policy(
        validations=_validates("true"),
        matchConditions=[{"name": "a", "expression": "1"}, {"name": "a", "expression": "true"}],
    )
    policy(
        validations=_validates("true"),
        matchConditions=[{"name": "a", "expression": "variables.x"}],
        variables=[{"name": "x", "expression": "true"}],
    )
    policy(
        validations=_validates("true"),
        variables=[{"name": "a-b", "expression": "1"}, {"name": "if", "expression": ""}],
    )
    policy(validations=_validates("variables.x == 1"), variables=[{"name": "x", "expression": "'text'"}])
    policy(validations=_validates("variables.y == 1"), variables=[{"name": "x", "expression": "'text'"}])
    policy(
        validations=_validates("true"),
        variables=[{"name": "x", "expression": "variables.y"}, {"name": "y", "expression": "1"}],
    )
    policy(validations=_validates("true"), paramKind={"apiVersion": "a/b/c", "kind": "X"})
    policy(validations=_validates("true"), paramKind={"apiVersion": "a/", "kind": ""})
    policy(validations=_validates("true"), paramKind={"apiVersion": "V1", "kind": "X_"})
    for mutation in (
        {},
        {"patchType": "Nope"},
        {"patchType": "JSONPatch"},
        {**_patch("[]"), "applyConfiguration": {"expression": "Object{}"}},
        _patch("'x'"),
        _patch(""),
        _apply("{}"),
        _apply("Object{metadata: 1"),
        _apply("JSONPatch{}"),
        _patch("[JSONPatch{nothing: 1}]"),
        _patch("[JSONPatch{op: 1}]"),
    ):
        policy("mutating", mutations=[mutation], reinvocationPolicy="Never")
    policy("mutating")
    policy("mutating", mutations=[_apply("Object{}")])
    rules: Tree
    for rules in (
        {},
        {"resourceRules": []},
        {"resourceRules": [{}]},
        {"resourceRules": [{**_DEPLOYMENTS, "operations": ["*", "CREATE"]}]},
        {"resourceRules": [{**_DEPLOYMENTS, "operations": ["GET"], "scope": "Some"}]},
        {
            "resourceRules": [
                {
                    **_DEPLOYMENTS,
                    "operations": ["CREATE"],
                    "apiGroups": ["*", "apps"],
                    "apiVersions": ["", "*"],
                }
            ]
        },
        {"resourceRules": [{**_DEPLOYMENTS, "operations": ["CREATE"], "resources": ["*/*", "pods", ""]}]},
        {
            "resourceRules": [
                {
                    **_DEPLOYMENTS,
                    "operations": ["CREATE"],
                    "resources": ["pods/*", "pods/log", "*/log", "x/log"],
                }
            ]
        },
        {"resourceRules": [{**_DEPLOYMENTS, "operations": ["CREATE"], "resources": ["*", "pods"]}]},
        {"resourceRules": [{**_DEPLOYMENTS, "operations": ["CREATE"], "resourceNames": ["a", "a", "a/b"]}]},
        {"resourceRules": [{**_DEPLOYMENTS, "operations": ["CREATE"]}], "matchPolicy": "Some"},
        {
            "resourceRules": [{**_DEPLOYMENTS, "operations": ["CREATE"]}],
            "objectSelector": {"matchLabels": {"a b": "c"}},
        },
    ):
        body = {
            "metadata": {"name": "refused"},
            "spec": {"matchConstraints": rules, "validations": _validates("true")},
        }
        scene.ask("POST", f"{_API}validatingadmissionpolicies?dryRun=All", body)
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
            f"{_API}validatingadmissionpolicybindings?dryRun=All",
            {"metadata": {"name": "refused"}, "spec": spec},
        )


_SCENES = {
    "denials": _denials,
    "messages": _messages,
    "variables": _variables,
    "errors": _errors,
    "operations": _operations,
    "conditions": _conditions,
    "params": _params,
    "actions": _actions,
    "matching": _matching,
    "authorizer": _authorizer,
    "mutations": _mutations,
    "reinvoked": _reinvoked,
    "refused": _refused,
}
