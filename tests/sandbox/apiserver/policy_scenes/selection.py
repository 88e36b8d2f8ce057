"""Which policies are evaluated: parameters, actions, matching and authorization."""

from __future__ import annotations

from tests.sandbox.apiserver.policy_scenes.scene import CONFIG_MAPS, DEPLOYMENTS, Scene, validates


def params(scene: Scene) -> None:
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
            validations=validates(expression, messageExpression=wording),
            bind={"paramRef": ref},
        )
    scene.policy(
        name=f"{scene.namespace}-without",
        paramKind=kind,
        constraints={"objectSelector": {"matchLabels": {"case": "without"}}},
        validations=validates("params == null", message="has params"),
    )
    scene.policy(
        name=f"{scene.namespace}-unknown",
        paramKind={"apiVersion": "example.com/v1", "kind": "Nothing"},
        constraints={"objectSelector": {"matchLabels": {"case": "unknown"}}},
        validations=validates("params.x == 1"),
        bind={"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}},
    )
    scene.pause().pause()
    for name in ("named", "missing", "allowed", "chosen", "elsewhere", "without", "unknown"):
        # which one of several parameters denies first is a matter of chance
        for replicas in (2, 3) if name == "chosen" else (2, 3, 4):
            scene.deployment(f"{name}-{replicas}", replicas=replicas, labels={"case": name})


def actions(scene: Scene) -> None:
    rules = [{**CONFIG_MAPS, "operations": ["CREATE"]}]
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
                *validates("size(object.data) > 3", message=f"few ({name})"),
                *validates("object.data.x == 'y'"),
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


def matching(scene: Scene) -> None:
    every = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    scene.policy(
        name=f"{scene.namespace}-all",
        rules=[every],
        constraints={
            "objectSelector": {
                "matchExpressions": [{"key": "case", "operator": "In", "values": ["all", "ex"]}]
            },
            "excludeResourceRules": [{**CONFIG_MAPS, "operations": ["*"], "resourceNames": ["spared"]}],
        },
        validations=validates(
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
        validations=validates(
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
        validations=validates("request.subResource != 'status'", message="no status"),
    )
    scene.policy(
        name=f"{scene.namespace}-cluster",
        rules=[{**CONFIG_MAPS, "operations": ["CREATE"], "scope": "Cluster"}],
        validations=validates("false", message="never reached"),
    )
    scene.policy(
        name=f"{scene.namespace}-team",
        rules=[{**CONFIG_MAPS, "operations": ["CREATE"]}],
        constraints={
            "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
        },
        validations=validates("false", message="never reached"),
    )
    scene.policy(
        name=f"{scene.namespace}-whole",
        rules=[{**DEPLOYMENTS, "operations": ["UPDATE"]}],
        validations=validates("false", message="not the whole"),
    )
    scene.policy(
        name=f"{scene.namespace}-scale",
        rules=[{**DEPLOYMENTS, "resources": ["deployments/scale"], "operations": ["UPDATE"]}],
        validations=validates(
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


def authorizer(scene: Scene) -> None:
    rules = [{**CONFIG_MAPS, "operations": ["CREATE"]}]
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
            validations=validates(expression),
        )
    scene.pause()
    for name in cases:
        scene.config_map(f"cm-{name}", labels={"case": name})
