"""Objects that pass or violate rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.sandbox.apiserver.custom.rule_scenes.schemas import (
    ANYTHING,
    BOOLEAN,
    DOUBLE,
    EITHER,
    SET,
    array,
    keyed,
    kind_of,
    map_to,
    object_of,
    on_spec,
    path_of,
    rule,
    with_rules,
)
from tests.sandbox.apiserver.custom.scenes import (
    DEFINITIONS,
    MERGE,
    NUMBER,
    TEXT,
    Step,
    Tree,
    definition,
    objects,
)


class Case(NamedTuple):
    """A definition, and what is done with its objects: each entry is the spec of a new object, or a patch of
    the newest one with its content type, or `("status", patch)`."""

    schema: Tree
    writes: list[Any]
    version: Tree = {}


CASES = [
    # messages, reasons and fields
    Case(on_spec("self.a < self.b", a=NUMBER, b=NUMBER), [{"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 1}, {}]),
    Case(
        on_spec(
            rule("self.a > 0", message="  a must be positive  "),
            rule("self.a > 1", messageExpression="'t is ' + self.t"),
            rule("self.a > 2", messageExpression="10 / self.a > 1 ? 'more' : 'less'", message="fallback"),
            rule("self.a > 3", messageExpression="'a\\nb'", message="one line"),
            rule("self.a > 4", messageExpression="'  '"),
            a=NUMBER,
            t={**TEXT, "maxLength": 10},
        ),
        [{"a": 0, "t": "x"}, {"a": 1, "t": " "}, {"a": 1}, {"a": 3}, {"a": 5}],
    ),
    Case(
        on_spec(
            *(
                rule("self.a > 0", reason=reason, fieldPath=path, message=reason)
                for reason in ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired")
                for path in (".a", ".m['x-y']", "['a']")
            ),
            rule("self.a > 0", reason="FieldValueDuplicate"),
            a=NUMBER,
            m=map_to(TEXT),
        ),
        [{"a": 0}, {"a": 1}],
    ),
    Case(objects(spec=objects(a=with_rules(NUMBER, "self > 3"))), [{"a": 3}, {"a": 4}]),
    Case(
        objects(spec=objects(a=with_rules(TEXT, rule("self != 'no'", reason="FieldValueDuplicate")))),
        [{"a": "no"}],
    ),
    Case(
        objects(
            spec=objects(
                a=with_rules(
                    array(with_rules({**TEXT, "maxLength": 9}, "self.size() > 2"), maxItems=5),
                    "self.size() > 1",
                )
            )
        ),
        [{"a": ["x"]}, {"a": ["abc", "d"]}, {"a": ["abc", "def"]}],
    ),
    Case(
        objects(spec=objects(m=map_to(with_rules(objects(v=NUMBER), "self.v > 1"), maxProperties=5))),
        [{"m": {"a": {"v": 1}, "b.c/d": {"v": 2}}}, {"m": {"a": {}}}],
    ),
    # the root, metadata, embedded resources
    Case(
        with_rules(
            objects(spec=objects(a=NUMBER)),
            "self.metadata.name.startsWith('c')",
            "self.kind != ''",
            "self.apiVersion == 'example.com/v1'",
            rule("has(self.spec)", fieldPath=".spec"),
            "!has(self.metadata.generateName)",
        ),
        [{"a": 1}, None],
    ),
    Case(
        objects(
            spec=objects(
                r=with_rules(
                    {
                        "type": "object",
                        "x-kubernetes-embedded-resource": True,
                        "x-kubernetes-preserve-unknown-fields": True,
                    },
                    "self.metadata.name != 'no' && self.kind == 'Pod'",
                )
            )
        ),
        [
            {"r": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "no"}}},
            {"r": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "yes"}, "x": 1}},
            {"r": {"apiVersion": "v1", "kind": "Po"}},
        ],
    ),
    # types
    Case(
        on_spec(
            "!has(self.date) || self.date > timestamp('2020-01-01T00:00:00Z')",
            "!has(self.time) || self.time.getFullYear() == 2021",
            "!has(self.long) || self.long <= duration('1h')",
            "!has(self.data) || self.data == b'abc'",
            "!has(self.d) || self.d < 1.5",
            "!has(self.d) || type(self.d) == double",
            "!has(self.i) || type(self.i) == int",
            "!has(self.b) || self.b",
            date={**TEXT, "format": "date"},
            time={**TEXT, "format": "date-time"},
            long={**TEXT, "format": "duration"},
            data={**TEXT, "format": "byte"},
            d=DOUBLE,
            i=NUMBER,
            b=BOOLEAN,
        ),
        [
            {"date": "2019-01-01"},
            {"date": "2021-01-01"},
            {"time": "2020-12-31T23:59:59Z"},
            {"time": "2021-01-01T00:00:00.5+00:00"},
            {"long": "2h"},
            {"long": "59m59s"},
            {"long": "1 hour"},
            {"long": "2 days"},
            {"data": "YWJj"},
            {"data": "YWJk"},
            {"d": 1},
            {"d": 2},
            {"d": 1.25},
            {"i": 3},
            {"b": False},
            {"b": True},
            {"i": "x", "d": "y"},
            {"long": "soon"},
        ],
    ),
    Case(
        on_spec(
            "!has(self.e) || (type(self.e) == int ? self.e < 5 : self.e.endsWith('%'))",
            rule("!has(self.f) || self.f > 1"),
            e=EITHER,
            f=EITHER,
        ),
        [{"e": 1}, {"e": 7}, {"e": "5%"}, {"e": "5"}, {"f": 2}, {"f": 1}, {"f": "x"}],
    ),
    Case(
        on_spec("!has(self.n) || self.n > 2", n={**NUMBER, "nullable": True}),
        [{"n": None}, {"n": 3}, {}],
    ),
    Case(
        objects(
            spec=objects(
                l=with_rules(array({**TEXT, "nullable": True}, maxItems=5), "self.all(x, dyn(x) != null)"),
                m=with_rules(
                    map_to({**NUMBER, "nullable": True}, maxProperties=5), "self.all(k, dyn(self[k]) != null)"
                ),
            )
        ),
        [{"l": ["a", None]}, {"l": ["a"]}, {"m": {"a": None}}, {"m": {"a": 1}}],
    ),
    Case(
        on_spec(
            "!has(self.p.x) || self.p.x == 1",
            p={**objects(x=NUMBER), "x-kubernetes-preserve-unknown-fields": True},
            q=ANYTHING,
        ),
        [{"p": {"x": 1, "y": 2}, "q": 5}, {"p": {"x": 2}}],
    ),
    # names that are escaped
    Case(
        on_spec(
            "self.a__dash__b + self.c__dot__d + self.e__slash__f + self.g__underscores__h "
            "+ self.__namespace__ + self.__in__ == 6",
            **{
                "a-b": NUMBER,
                "c.d": NUMBER,
                "e/f": NUMBER,
                "g__h": NUMBER,
                "namespace": NUMBER,
                "in": NUMBER,
                "a b": NUMBER,
                "9": NUMBER,
            },
        ),
        [
            {"a-b": 1, "c.d": 1, "e/f": 1, "g__h": 1, "namespace": 1, "in": 1},
            {"a-b": 1, "c.d": 1, "e/f": 1, "g__h": 1, "namespace": 1, "in": 2},
            {"a-b": 1},
        ],
    ),
    Case(
        objects(
            spec=objects(**{"a b": with_rules(NUMBER, "self > 1"), "x-y": with_rules(NUMBER, "self > 1")})
        ),
        [{"a b": 1}, {"x-y": 1}, {"x-y": 2, "a b": 2}],
    ),
    # sets and maps
    Case(
        on_spec(
            "self.s == ['b', 'a']",
            "self.s + ['a', 'c'] == ['a', 'b', 'c']",
            "(self.s + ['a', 'd']).size() == 3",
            s=array(TEXT, maxItems=5, **SET),
        ),
        [{"s": ["a", "b"]}, {"s": ["b", "a"]}, {"s": ["a", "c"]}],
    ),
    Case(
        objects(
            spec=objects(
                l=with_rules(
                    {**keyed("k", k=TEXT, v=NUMBER), "maxItems": 5},
                    "self == oldSelf",
                    "self + oldSelf == oldSelf",
                    "(oldSelf + self).size() == oldSelf.size()",
                    "(oldSelf + self)[0].v < 9",
                )
            )
        ),
        [
            {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]},
            (MERGE, {"spec": {"l": [{"k": "b", "v": 2}, {"k": "a", "v": 1}]}}),
            (MERGE, {"spec": {"l": [{"k": "b", "v": 9}, {"k": "a", "v": 1}]}}),
            (MERGE, {"spec": {"l": [{"k": "b", "v": 2}]}}),
            (MERGE, {"spec": {"l": [{"k": "c", "v": 2}, {"k": "d"}]}}),
        ],
    ),
    Case(
        objects(
            spec=objects(
                l=with_rules(
                    {**keyed("k", "x-y", **{"k": TEXT, "x-y": NUMBER, "v": NUMBER}), "maxItems": 5},
                    "self == oldSelf",
                )
            )
        ),
        [
            {"l": [{"k": "a", "x-y": 1, "v": 1}, {"k": "a", "x-y": 2, "v": 2}]},
            (MERGE, {"spec": {"l": [{"k": "a", "x-y": 2, "v": 2}, {"k": "a", "x-y": 1, "v": 1}]}}),
        ],
    ),
    Case(
        on_spec(
            "self.l == ['a', 'b']",
            "self.l + ['a'] == ['a', 'b', 'a']",
            "['c'] + self.l == ['c', 'a', 'b']",
            l=array(TEXT, maxItems=5),
        ),
        [{"l": ["a", "b"]}, {"l": ["b", "a"]}],
    ),
    Case(
        objects(
            spec=with_rules(
                {
                    **objects(a=NUMBER, b={**TEXT, "nullable": True}, c=objects(d=NUMBER), q=ANYTHING),
                    **ANYTHING,
                },
                "self == oldSelf",
            )
        ),
        [
            {"a": 1, "b": None, "c": {"d": 1}, "q": [1], "x": 1},
            (MERGE, {"spec": {"x": 2}}),
            (MERGE, {"spec": {"x": None, "y": 1}}),
            (MERGE, {"spec": {"q": [2]}}),
            (MERGE, {"spec": {"b": "x"}}),
            (MERGE, {"spec": {"c": {"d": 2}}}),
            (MERGE, {"spec": {"c": {"d": 1}}}),
        ],
    ),
    # functions of the libraries
    Case(
        on_spec(
            "self.l.all(x, self.l.exists_one(y, x == y))",
            "self.l.isSorted()",
            "self.l.sum() < 10",
            "self.l.map(x, x * 2).filter(x, x > 4).size() < 3",
            "self.t.matches('^[a-z]+$')",
            "self.t.split('').size() < 5",
            "'%s-%d'.format([self.t, self.l.size()]).size() < 8",
            "quantity(self.q).isLessThan(quantity('2Gi'))",
            "self.l.indexOf(3) != 0",
            "self.?q.orValue('0') != '1'",
            "!ip.isCanonical('127.0.0.1') || isIP('::1')",
            "format.dns1123Label().validate(self.t).value().size() > 0 || true",
            l=array(NUMBER, maxItems=10),
            t={**TEXT, "maxLength": 20},
            q={**TEXT, "maxLength": 10},
        ),
        [
            {"l": [1, 2, 3], "t": "abc", "q": "1Gi"},
            {"l": [3, 2], "t": "ABC", "q": "3Gi"},
            {"l": [1, 1, 4, 5, 6], "t": "abcdefgh", "q": "x"},
            {"l": [], "t": "", "q": "1"},
        ],
    ),
    # transitions
    Case(
        on_spec(rule("self.a >= oldSelf.a", message="a cannot decrease"), a=NUMBER, b=TEXT),
        [
            {"a": 2},
            (MERGE, {"spec": {"a": 3}}),
            (MERGE, {"spec": {"a": 1}}),
            (MERGE, {"spec": {"a": 3, "b": "x"}}),
        ],
    ),
    Case(
        objects(spec=objects(a=with_rules(TEXT, rule("self == oldSelf", message="immutable")))),
        [
            {"a": "x"},
            (MERGE, {"spec": {"a": "y"}}),
            (MERGE, {"spec": {"a": None}}),
            (MERGE, {"spec": {"a": "z"}}),
        ],
    ),
    Case(
        objects(
            spec=objects(
                a=with_rules(
                    NUMBER,
                    rule(
                        "oldSelf.hasValue() ? self > oldSelf.value() : self < 5",
                        optionalOldSelf=True,
                        messageExpression="self < 2 ? 'too small' : 'no'",
                    ),
                )
            )
        ),
        [
            {"a": 7},
            {"a": 2},
            (MERGE, {"spec": {"a": 2}, "metadata": {"labels": {"x": "y"}}}),
            (MERGE, {"spec": {"a": 1}}),
            (MERGE, {"spec": {"a": 9}}),
        ],
    ),
    Case(
        objects(
            spec=objects(
                l={
                    **keyed("k", rules=[rule("self.v >= oldSelf.v"), rule("self.v != 7")], k=TEXT, v=NUMBER),
                    "maxItems": 9,
                }
            )
        ),
        [
            {"l": [{"k": "a", "v": 5}, {"k": "b", "v": 5}]},
            (MERGE, {"spec": {"l": [{"k": "b", "v": 4}, {"k": "c", "v": 1}, {"k": "a", "v": 5}]}}),
            (MERGE, {"spec": {"l": [{"k": "b", "v": 6}, {"k": "c", "v": 7}]}}),
            (MERGE, {"spec": {"l": [{"k": "b", "v": 6}, {"k": "c", "v": 1}]}}),
        ],
    ),
    Case(
        objects(
            spec=objects(
                l={
                    **keyed("k", "n", rules=[rule("self.v >= oldSelf.v")], k=TEXT, n=NUMBER, v=NUMBER),
                    "maxItems": 9,
                }
            )
        ),
        [
            {"l": [{"k": "a", "n": 1, "v": 5}, {"k": "a", "n": 2, "v": 5}]},
            (MERGE, {"spec": {"l": [{"k": "a", "n": 2, "v": 4}, {"k": "a", "n": 3, "v": 1}]}}),
        ],
    ),
    Case(
        objects(spec=objects(m=map_to(with_rules(NUMBER, "self > oldSelf"), maxProperties=9))),
        [
            {"m": {"a": 1}},
            (MERGE, {"spec": {"m": {"a": 1, "b": 1}}}),
            (MERGE, {"spec": {"m": {"a": 2, "b": 1}}}),
        ],
    ),
    # status
    Case(
        {
            **with_rules(
                objects(spec=objects(n=NUMBER), status=with_rules(objects(n=NUMBER), "self.n > 0")),
                rule("!has(self.status) || self.status.n >= self.spec.n", message="not there yet"),
            )
        },
        [
            {"n": 2},
            ("status", {"status": {"n": 1}}),
            ("status", {"status": {"n": 0}}),
            ("status", {"status": {"n": 3}}),
            ("status", {"status": {"n": "x"}}),
            (MERGE, {"spec": {"n": 4}}),
        ],
        {"subresources": {"status": {}}},
    ),
    # what keeps rules from being evaluated, and what they cost
    Case(
        on_spec(
            "self.a > 1",
            a={**NUMBER, "maximum": 5},
            t={**TEXT, "maxLength": 2},
            e={**TEXT, "enum": ["x"]},
            r=TEXT,
        ),
        [{"a": 1, "t": "abc"}, {"a": 1, "e": "y"}, {"a": 9}, {"a": 0, "t": "a"}, {"a": "x"}],
    ),
    Case(
        on_spec(
            "self.l.all(x, self.l.all(y, x == y || x != y))",
            "self.l.size() > 0",
            l=array(NUMBER, maxItems=1000),
        ),
        [{"l": list(range(30))}, {"l": list(range(700))}],
    ),
    Case(
        objects(
            spec=objects(
                l=array(
                    with_rules({**TEXT, "maxLength": 1000}, "self.matches('^(a|b|c|d)+$')"), maxItems=1000
                )
            )
        ),
        [{"l": ["abcd" * 20] * 50}, {"l": ["abcd" * 250] * 900}],
    ),
    Case(
        on_spec(
            rule("self.a > 100", messageExpression="self.l.join('')"),
            a=NUMBER,
            l=array({**TEXT, "maxLength": 2000}, maxItems=10),
        ),
        [{"a": 1, "l": ["x"] * 5}, {"a": 1, "l": ["x" * 1000] * 6}],
    ),
]


def rules() -> Iterator[Step]:
    """All definitions first, so that the real server has to be waited for only once."""
    for number, case in enumerate(CASES):
        yield Step("POST", DEFINITIONS, definition(kind_of(number), case.schema, **case.version))
    yield Step("WAIT", f"{DEFINITIONS}/{kind_of(len(CASES) - 1).lower()}s.example.com", "Established")
    for number, case in enumerate(CASES):
        yield from _writes(kind_of(number), case.writes)


def _writes(kind: str, writes: list[Any]) -> Iterator[Step]:
    newest = ""
    for number, write in enumerate(writes):
        if not isinstance(write, tuple):
            newest = f"c{number}" if number % 2 == 0 else f"d{number}"
            body = object_of(kind, newest, write)
            if write is None:
                del body["spec"]
            yield Step("POST", path_of(kind), body)
        elif write[0] == "status":
            yield Step("PATCH", f"{path_of(kind)}/{newest}/status", write[1], MERGE)
        else:
            yield Step("PATCH", f"{path_of(kind)}/{newest}", write[1], write[0])
