"""Objects from before a definition became stricter: what an update leaves alone may stay invalid."""

from __future__ import annotations

from collections.abc import Iterator

from tests.sandbox.apiserver.custom.rule_scenes.schemas import (
    array,
    keyed,
    map_to,
    object_of,
    path_of,
    rule,
    with_rules,
)
from tests.sandbox.apiserver.custom.scenes import (
    DEFINITIONS,
    JSON,
    MERGE,
    NUMBER,
    TEXT,
    Step,
    Tree,
    definition,
    objects,
)

RATCHETED = objects(
    spec=objects(
        a=NUMBER,
        t=TEXT,
        l={**keyed("k", k=TEXT, v=NUMBER), "maxItems": 9},
        u=array(objects(v=NUMBER), maxItems=9),
        m=map_to(NUMBER, maxProperties=9),
    )
)
_TIGHTER = objects(
    spec=with_rules(
        {
            "type": "object",
            "properties": {
                "need": TEXT,
                "a": with_rules(
                    {**NUMBER, "maximum": 5},
                    rule("self < 4", messageExpression="self > 8 ? 'a is 9' : 'a is less'"),
                ),
                "t": {**TEXT, "minLength": 3},
                "l": {
                    **keyed("k", rules=[rule("self.v < 4")], k=TEXT, v={**NUMBER, "maximum": 5}),
                    "maxItems": 9,
                },
                "u": with_rules(
                    array(with_rules(objects(v={**NUMBER, "maximum": 5}), "self.v < 4"), maxItems=9),
                    "self.all(x, x.v < 3)",
                ),
                "m": map_to(with_rules({**NUMBER, "maximum": 5}, "self < 4"), maxProperties=9),
            },
        },
        rule("!has(self.a) || self.a < 3", message="a of spec"),
    )
)
TIGHTER = {
    "Old": with_rules(_TIGHTER, rule("self.spec.a < 2", message="a of root")),
    "Older": objects(spec={**_TIGHTER["properties"]["spec"], "required": ["need"]}),
    "Oldest": _TIGHTER,
}
CHANGES: tuple[Tree, ...] = (
    {"metadata": {"labels": {"x": "y"}}},
    {"spec": {"a": 8}},
    {"spec": {"t": "y"}},
    {"spec": {"need": "x"}},
    {"spec": {"need": "y", "t": "xyz"}},
    {"spec": {"l": [{"k": "b", "v": 2}, {"k": "a", "v": 9}]}},
    {"spec": {"l": [{"k": "b", "v": 4}, {"k": "a", "v": 9}]}},
    {"spec": {"l": [{"k": "b", "v": 6}, {"k": "a", "v": 9}]}},
    {"spec": {"u": [{"v": 9}, {"v": 2}]}},
    {"spec": {"m": {"x": 9, "y": 2}}},
    {"spec": {"m": {"y": 4}}},
    {"spec": {"m": {"y": 6}}},
    {"spec": {"a": 1, "u": [{"v": 1}], "m": {"x": 1}}},
    {"spec": {"l": []}},
)


def ratcheting() -> Iterator[Step]:
    """Rules and constraints that are added when there are objects that violate them."""
    for kind in TIGHTER:
        yield Step("POST", DEFINITIONS, definition(kind, RATCHETED))
    yield Step("WAIT", f"{DEFINITIONS}/{kind.lower()}s.example.com", "Established")
    spec = {
        "a": 9,
        "t": "x",
        "l": [{"k": "a", "v": 9}, {"k": "b", "v": 1}],
        "u": [{"v": 9}, {"v": 1}],
        "m": {"x": 9, "y": 1},
    }
    for kind, tighter in TIGHTER.items():
        name = f"{DEFINITIONS}/{kind.lower()}s.example.com"
        yield Step("POST", path_of(kind), object_of(kind, "o", spec))
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": tighter}}
        yield Step("PATCH", name, {"spec": {"versions": [version]}}, MERGE)
    yield Step("WAIT", name, "Established")
    for kind in TIGHTER:
        for change in CHANGES:
            yield Step("PATCH", f"{path_of(kind)}/o", change, MERGE)
        yield Step("POST", path_of(kind), object_of(kind, "p", spec), JSON)
