"""Definitions whose rules do not compile, or cost too much."""

from __future__ import annotations

from collections.abc import Iterator

from tests.sandbox.apiserver.custom.rule_scenes.schemas import (
    ANYTHING,
    EITHER,
    SET,
    array,
    map_to,
    on_spec,
    rule,
    with_rules,
)
from tests.sandbox.apiserver.custom.scenes import DEFINITIONS, NUMBER, TEXT, Step, Tree, definition, objects

BIG = {**TEXT, "maxLength": 100_000}
REFUSED: list[Tree] = [
    on_spec("self.x > 1", a=NUMBER),
    on_spec("self.a", a=NUMBER),
    on_spec("self.a > 'x'", "oldSelf.a + 1", a=NUMBER),
    on_spec("self.a >", a=NUMBER),
    on_spec("self.a > 1 &&\n self.b", a=NUMBER),
    on_spec(rule("self.a > 1 &&\n self.b", message="m"), a=NUMBER),
    on_spec(rule(" "), rule("self.a > 1", message=" "), rule("self.a > 1", message="a\nb"), a=NUMBER),
    on_spec(rule("self.a > 1", messageExpression=" "), a=NUMBER),
    on_spec(
        rule("self.a > 1", messageExpression="self.a"),
        rule("self.a > 1", messageExpression="self.z"),
        a=NUMBER,
    ),
    on_spec(rule("self.a > 1", reason="FieldValueOther"), a=NUMBER),
    on_spec(
        *(
            rule("self.a > 1", fieldPath=path)
            for path in (".b", "a", " ", ".a\n", ".a.b", "['a'", "[a]", ".m.x", ".m['x'].y", ".l[0]", "")
        ),
        a=NUMBER,
        m=map_to(TEXT),
        l=array(TEXT),
    ),
    on_spec(
        rule("self.a > 1", optionalOldSelf=True),
        rule("self.a > oldSelf.a", optionalOldSelf=True),
        rule("self.a > 2", optionalOldSelf=False),
        a=NUMBER,
    ),
    objects(spec=objects(l=array(with_rules({**NUMBER}, "self > oldSelf"), maxItems=3))),
    objects(
        spec=objects(
            l=array(
                with_rules({**NUMBER}, rule("oldSelf.hasValue()", optionalOldSelf=True)), maxItems=3, **SET
            )
        )
    ),
    objects(spec=objects(l=array(with_rules(TEXT, "self.contains('x')")))),
    objects(spec=objects(l=array(with_rules({**TEXT, "maxLength": 20}, "self.contains('x')")))),
    objects(spec=objects(l=with_rules(array(TEXT), "self.all(x, self.all(y, x == y))"))),
    objects(spec=objects(l=with_rules(array(TEXT, maxItems=100), "self.all(x, self.all(y, x == y))"))),
    objects(
        spec=objects(
            l=with_rules(
                array({**TEXT, "maxLength": 30}, maxItems=100), "self.all(x, self.exists_one(y, x == y))"
            )
        )
    ),
    objects(
        spec=objects(
            t=with_rules(TEXT, "self.matches('^a+$')", "self.contains('abc')", "self.startsWith('x')")
        )
    ),
    objects(spec=objects(t=with_rules(BIG, "self.matches('^a+$')"))),
    objects(
        spec=objects(
            m=map_to(
                map_to(with_rules({**TEXT, "maxLength": 90}, "self.contains('abc')"), maxProperties=1000)
            )
        )
    ),
    objects(
        spec=objects(
            m=map_to(
                with_rules(
                    map_to({**TEXT, "maxLength": 90}, maxProperties=1000), "self.all(k, self[k].contains(k))"
                ),
                maxProperties=300,
            )
        )
    ),
    objects(
        spec=objects(
            l=with_rules(
                array(objects(a=TEXT, b=NUMBER), maxItems=300), "self.map(x, x.a).all(x, x.size() > 3)"
            )
        )
    ),
    objects(
        spec=objects(
            l=with_rules(array(NUMBER, maxItems=10_000), *["self.all(x, self.exists(y, x < y))"] * 3)
        )
    ),
    objects(
        spec=objects(
            **{
                f"t{n}": with_rules(array(NUMBER, maxItems=1_700 + n), "self.all(x, self.exists(y, x < y))")
                for n in range(14)
            }
        )
    ),
    objects(
        spec=objects(
            l=array(
                with_rules(
                    {
                        "type": "object",
                        "required": ["a", "b"],
                        "properties": {"a": TEXT, "b": {**TEXT, "enum": ["x", "yy"]}},
                    },
                    "self.a == self.b",
                )
            )
        )
    ),
    objects(
        spec=objects(
            e=with_rules(EITHER, "self == 5", "self.matches('a')"),
            d=with_rules({**TEXT, "format": "date-time"}, "self > self", "string(self).matches('a+')"),
        )
    ),
    objects(
        spec=objects(
            t=with_rules(
                {**TEXT, "maxLength": 10},
                rule("self != ''", messageExpression="self + self"),
                rule(
                    "self != ''",
                    messageExpression="self.split('').map(x, self.split('').map(y, x + y).join('')).join('')",
                ),
            )
        )
    ),
    objects(spec=objects(p=with_rules(ANYTHING, "self == self"))),
    objects(
        spec=objects(
            p=with_rules({"type": "object", **ANYTHING}, "self.a == 1"),
            q=with_rules({"type": "object"}, "has(self.a)"),
        )
    ),
    objects(spec=objects(l=with_rules(array(ANYTHING), "self.size() > 1"))),
    objects(
        spec=objects(
            r=with_rules(
                {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "self.metadata.labels.size() > 1",
            )
        )
    ),
    with_rules(
        objects(spec=objects(a=NUMBER)),
        "self.metadata.namespace == ''",
        "self.status.a == 1",
        "self.spec.a == 'x'",
    ),
    on_spec("self.a-b == 1", "self.__in__ == 1", **{"a-b": NUMBER, "in": NUMBER, "a b": NUMBER}),
    on_spec(
        "has(self.a) && has(a)",
        "self.l.exists(x, y, x == y)",
        "[1, 'a'].size() > 0",
        "self.l == [1]",
        "duration('x') > duration('1s')",
        "'a'.matches('(')",
        l=array(TEXT),
    ),
    on_spec(
        "cel.bind(n, self.a, n < 5)",
        "self.a.lowerAscii() == ''",
        "self.a + 1u > 0",
        "size(self.a) > 1",
        "self.all(x, true)",
        "self.a[0] == 1",
        "self[0] == 1",
        a=NUMBER,
    ),
    on_spec("authorizer.path('/').check('get').allowed()", "object.a == 1", "variables.x == 1", a=NUMBER),
    on_spec(*[rule("self.a > 1", message="m" * 2048 + "m"), rule("self.a > 2")], a=NUMBER),
    {**objects(spec=objects(a={**TEXT, "allOf": [{"x-kubernetes-validations": [rule("self == ''")]}]}))},
    objects(spec=objects(a=with_rules({**TEXT, "type": "foo"}, "self.x"))),
    objects(spec=objects(a={**NUMBER, "default": 5, "x-kubernetes-validations": [rule("self > 6")]})),
    objects(spec=objects(a={**with_rules(objects(b={**NUMBER, "default": 3}), "self.b > 5"), "default": {}})),
]


def refused() -> Iterator[Step]:
    """Definitions whose rules do not compile, or cost too much."""
    for number, schema in enumerate(REFUSED):
        yield Step("POST", DEFINITIONS, definition(f"Refused{number}", schema))
