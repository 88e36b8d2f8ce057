"""What expressions of policies see, and how their results are reported."""

from __future__ import annotations

from tests.sandbox.apiserver.policy_scenes.scene import CONFIG_MAPS, Scene, validates


def denials(scene: Scene) -> None:
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


def messages(scene: Scene) -> None:
    rules = [{**CONFIG_MAPS, "operations": ["CREATE"]}]
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
            validations=validates("object.metadata.name == 'good'", **more),
        )
    scene.pause()
    for name in cases:
        scene.config_map(f"cm-{name}", labels={"case": name})
    scene.config_map("good", labels={"case": "a"}).config_map("none")


def variables(scene: Scene) -> None:
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


def errors(scene: Scene) -> None:
    rules = [{**CONFIG_MAPS, "operations": ["CREATE", "UPDATE", "DELETE"]}]
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
            validations=validates(expression),
        )
    scene.policy(
        name=f"{scene.namespace}-ignored",
        rules=rules,
        failurePolicy="Ignore",
        constraints={"objectSelector": {"matchLabels": {"case": "ignored"}}},
        validations=[*validates("object.data.missing == 'x'"), *validates("object.data.a == 'b'")],
    )
    scene.pause()
    for name in expressions:
        scene.config_map(f"cm-{name}", labels={"case": name})
    scene.config_map("i1", labels={"case": "ignored"}).config_map(
        "i2", labels={"case": "ignored"}, data={"a": "c"}
    )


def operations(scene: Scene) -> None:
    path = f"/api/v1/namespaces/{scene.namespace}/configmaps/one"
    scene.policy(
        name=f"{scene.namespace}-delete",
        rules=[{**CONFIG_MAPS, "operations": ["DELETE"]}],
        validations=validates("object == null && oldObject.data.a == 'free'", message="still in use"),
    )
    scene.policy(
        name=f"{scene.namespace}-update",
        rules=[{**CONFIG_MAPS, "operations": ["UPDATE"], "resourceNames": ["one"]}],
        matchConditions=[{"name": "changes", "expression": "object.data != oldObject.data"}],
        validations=validates(
            "request.operation == 'UPDATE' && request.name == 'one' && oldObject.data.a in ['b']"
            " && request.userInfo.username == 'admin'",
            messageExpression="'not by ' + request.userInfo.username + ' from ' + oldObject.data.a",
        ),
    )
    scene.pause().config_map("one").config_map("two").ask("DELETE", path)
    scene.ask("merge", path, {"data": {"a": "free"}}).ask("merge", path, {"metadata": {"labels": {"x": "y"}}})
    scene.ask("merge", path, {"data": {"a": "again"}}).ask("DELETE", path)
    scene.ask("DELETE", path.replace("/one", "/two"))


def conditions(scene: Scene) -> None:
    rules = [{**CONFIG_MAPS, "operations": ["CREATE"]}]
    scene.policy(
        rules=rules,
        matchConditions=[
            {"name": "named", "expression": "object.metadata.name.startsWith('c')"},
            {"name": "key", "expression": "object.data.key == 'x'"},
        ],
        validations=validates("false", message="never"),
    )
    scene.policy(
        name=f"{scene.namespace}-ignore",
        rules=rules,
        failurePolicy="Ignore",
        matchConditions=[{"name": "label", "expression": "object.metadata.labels.x == 'y'"}],
        validations=validates("false", message="never again"),
    )
    scene.pause().config_map("a").config_map("c1").config_map("c2", data={"key": "x"}).config_map(
        "c3", data={"key": "z"}
    )
    scene.config_map("b", labels={"x": "y"})
