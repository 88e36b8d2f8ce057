"""Policies that change objects."""

from __future__ import annotations

from tests.sandbox.apiserver.policy_scenes.scene import (
    Scene,
    apply,
    patch,
)


def mutations(scene: Scene) -> None:
    cases = {
        "a": [apply("Object{spec: Object.spec{replicas: 1337}}")],
        "b": [apply("Object{metadata: Object.metadata{annotations: {'by': 'policy'}, labels: {'x': 'y'}}}")],
        "c": [
            apply(
                "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{"
                "containers: [Object.spec.template.spec.containers{name: 'side', image: 'side:1'}]}}}}"
            )
        ],
        "d": [patch("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}]")],
        "e": [
            patch(
                "[JSONPatch{op: 'test', path: '/spec/replicas', value: 100},"
                " JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}]"
            )
        ],
        "f": [
            patch(
                "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 'b'}},"
                " JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('k8s.io/x~y'),"
                " value: 'c'}]"
            )
        ],
        "g": [patch("[JSONPatch{op: 'remove', path: '/spec/nothing/more'}]")],
        "h": [apply("Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}")],
        "i": [apply("Object{spec: Object.spec{nothing: 1}}")],
        "j": [apply("Object{spec: Object.spek{replicas: 1}}")],
        "k": [apply("Object{spec: Object.spec{replicas: object.spec.none}}")],
        "l": [apply("Object{spec: Object.spec{replicas: 'three'}}")],
        "m": [
            patch("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 2}]"),
            apply("Object{spec: Object.spec{replicas: object.spec.replicas * 10}}"),
        ],
        "n": [patch("[JSONPatch{op: 'add', path: '/spec/unknown', value: 1}]")],
        "o": [
            apply(
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
            apply("Object{spec: Object.spec{replicas: object.spec.none}}"),
            apply("Object{spec: Object.spec{replicas: variables.more}}"),
        ],
        reinvocationPolicy="IfNeeded",
    )
    scene.pause().pause().deployment("i1", replicas=1, labels={"case": "ignored"})
    scene.deployment("i5", replicas=5, labels={"case": "ignored"})


def reinvoked(scene: Scene) -> None:
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
            mutations=[apply(expression)],
            reinvocationPolicy=policy,
        )
    scene.pause().pause().deployment("web")
    path = f"/apis/apps/v1/namespaces/{scene.namespace}/deployments/web"
    scene.ask("merge", path, {"metadata": {"labels": {"x": "y"}}})
