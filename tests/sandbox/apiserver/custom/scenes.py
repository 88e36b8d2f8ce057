"""Requests about custom resources that a real API server has answered; data/answers.json has what it said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON, MERGE, APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
Tree = dict[str, Any]


class Step(NamedTuple):
    """One request. WAIT is none: it waits for a definition to be established, or gone."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON

    @property
    def data(self) -> bytes | None:
        if self.body is None:
            return None
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


def definition(kind: str, schema: Tree | None, /, **version: Any) -> Tree:
    """A definition with one version."""
    plural = kind.lower() + "s"
    first: Tree = {"name": "v1", "served": True, "storage": True, **version}
    if schema is not None:
        first["schema"] = {"openAPIV3Schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [first],
        },
    }


def objects(**properties: Any) -> Tree:
    return {"type": "object", "properties": properties}


def spec(**properties: Any) -> Tree:
    """The schema of a kind whose spec has some members."""
    return objects(spec=objects(**properties))


STICKY_JOB = definition(
    "StickyJob",
    objects(spec=objects(template={"type": "object"}), status=objects(lastNode={"type": "string"})),
    subresources={"status": {}},
)

# ---- values ---------------------------------------------------------------------------------------

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
FREE = {"x-kubernetes-preserve-unknown-fields": True}
A_OR_B = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}

WIDGET = definition(
    "Widget",
    objects(
        spec={
            "type": "object",
            "required": ["need"],
            "properties": {
                "need": TEXT,
                "text": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a[^$]*$"},
                "whole": {"type": "integer", "minimum": 1, "maximum": 5},
                "number": {"type": "number", "exclusiveMinimum": True, "minimum": 0, "multipleOf": 0.5},
                "below": {"type": "number", "exclusiveMaximum": True, "maximum": 1.5},
                "flag": {"type": "boolean"},
                "one": {"type": "string", "enum": ["x", "y"]},
                "digit": {"type": "integer", "enum": [1, 2]},
                "list": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 2},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "keyed": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": TEXT, "v": NUMBER}},
                },
                "map": {
                    "type": "object",
                    "additionalProperties": NUMBER,
                    "minProperties": 1,
                    "maxProperties": 2,
                },
                "either": {"x-kubernetes-int-or-string": True},
                "nullable": {"type": "string", "nullable": True},
                "defaults": {
                    "type": "object",
                    "default": {"a": 1},
                    "properties": {
                        "a": {"type": "integer", "default": 7},
                        "c": {"type": "string", "default": "cc"},
                    },
                },
                "default": {"type": "string", "default": "dd"},
                "any": FREE,
                "free": {"type": "object", **FREE, "properties": {"in": objects(x=TEXT)}},
                "embedded": {"type": "object", **FREE, "x-kubernetes-embedded-resource": True},
                "time": {"type": "string", "format": "date-time"},
                "date": {"type": "string", "format": "date"},
                "ipv4": {"type": "string", "format": "ipv4"},
                "ipv6": {"type": "string", "format": "ipv6"},
                "cidr": {"type": "string", "format": "cidr"},
                "uuid": {"type": "string", "format": "uuid"},
                "email": {"type": "string", "format": "email"},
                "uri": {"type": "string", "format": "uri"},
                "host": {"type": "string", "format": "hostname"},
                "bytes": {"type": "string", "format": "byte"},
                "duration": {"type": "string", "format": "duration"},
                "small": {"type": "integer", "format": "int32"},
                "oneOf": {**A_OR_B, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
                "anyOf": {**A_OR_B, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
                "allOf": {"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^z"}]},
                "not": {"type": "string", "not": {"enum": ["bad"]}},
            },
        },
        status=objects(lastNode=TEXT),
    ),
)
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"

_POD = {"apiVersion": "v1", "kind": "Pod"}
VALUES: list[tuple[str, Any]] = [
    ("text", "a"), ("text", "abcde"), ("text", "bb"), ("text", "é"), ("text", 5), ("text", ["a"]),
    ("text", {"a": 1}), ("text", True), ("text", None), ("text", "ab\n"), ("text", "ab"),
    ("whole", 0), ("whole", 6), ("whole", 1.0), ("whole", 1.5), ("whole", "1"), ("whole", 2),
    ("number", 0), ("number", 0.3), ("number", 0.5), ("number", 1), ("below", 1.5), ("below", 1),
    ("flag", "true"), ("flag", 1), ("flag", False), ("one", "z"), ("one", 1), ("one", "x"), ("digit", 3),
    ("digit", True), ("list", []), ("list", ["a", "b", "c"]), ("list", [1]), ("list", "a"), ("list", [None]),
    ("list", ["a"]), ("set", ["a", "a", "a"]), ("set", ["a", "b"]), ("keyed", [{"k": "a"}, {"k": "a"}]),
    ("keyed", [{}]), ("keyed", [{"k": "a", "v": "x"}]), ("keyed", [{"k": "a", "z": 1}]), ("keyed", ["a"]),
    ("keyed", [{"k": "a", "v": 1}, {"k": "b"}]), ("map", {}), ("map", {"a": 1, "b": 2, "c": 3}),
    ("map", {"a": "x"}), ("map", {"a": None}), ("map", {"a": 1}), ("either", 1), ("either", "a"),
    ("either", 1.5), ("either", True), ("either", None), ("nullable", None), ("nullable", 1),
    ("defaults", {}), ("defaults", {"zz": 1}), ("defaults", None), ("defaults", {"a": None}),
    ("default", None), ("default", "x"), ("any", 5), ("any", {"a": {"b": [1, {"c": None}]}}), ("any", None),
    ("free", {"a": {"b": 1}, "in": {"x": "y", "q": 1}}), ("free", {"a": {"b": 1}, "in": {"x": "y"}}),
    ("embedded", {}), ("embedded", {**_POD, "metadata": {"name": "x", "zz": 1}}),
    ("embedded", {**_POD, "metadata": {"name": "X_", "labels": {"a": "b"}}, "spec": {"a": [1]}}),
    ("embedded", {**_POD, "metadata": {"labels": 5}}), ("embedded", {**_POD, "metadata": {"name": "a/b"}}),
    ("embedded", {"apiVersion": "a/b/c", "kind": "Po_d"}), ("embedded", {"apiVersion": "", "kind": 5}),
    ("time", "now"), ("time", "2020-01-01T00:00:00Z"), ("time", "2020-01-01T00:00:00.5+02:00"),
    ("time", "2020-13-01T00:00:00Z"), ("time", "2020-01-01"), ("date", "x"), ("date", "2020-02-30"),
    ("date", "2020-02-28"), ("ipv4", "x"), ("ipv4", "10.0.0.1"), ("ipv4", "::1"), ("ipv6", "10.0.0.1"),
    ("ipv6", "fe80::1"), ("cidr", "10.0.0.0"), ("cidr", "10.0.0.1/8"), ("cidr", "10.0.0.1/33"),
    ("uuid", "x"), ("uuid", "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"), ("email", "x"), ("email", "a@b"),
    ("uri", "x"), ("uri", "https://example.com/a?b"), ("uri", "/a"), ("host", "a_b"),
    ("host", "a-b.example.com"),
    ("bytes", "%"), ("bytes", "YWJj"), ("duration", "x"), ("duration", "1h30m"), ("duration", "3 days"),
    ("small", 2**40), ("small", -5), ("oneOf", {}), ("oneOf", {"a": "1", "b": "2"}), ("oneOf", {"a": "1"}),
    ("anyOf", {}), ("anyOf", {"b": "1"}), ("allOf", "a"), ("allOf", "zz"), ("allOf", "az"), ("not", "bad"),
    ("not", "good"), ("unknown", 1),
]  # fmt: skip


def widget(name: str, **members: Any) -> Tree:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, **members}


def values() -> Iterator[Step]:
    """Values of all kinds in a custom object."""
    yield Step("POST", DEFINITIONS, WIDGET)
    yield Step("WAIT", f"{DEFINITIONS}/widgets.example.com", "Established")
    strict = f"{WIDGETS}?fieldValidation=Strict"
    for index, (name, value) in enumerate(VALUES):
        yield Step("POST", strict, widget(f"w{index}", spec={"need": "a", name: value}))
    specs: list[Any] = [{}, None, "x", [], {"need": 1}, {"need": None}]
    for index, found in enumerate(specs):
        yield Step("POST", strict, widget(f"s{index}", spec=found))
    yield Step("POST", strict, widget("status", spec={"need": "a"}, other=1, status={"x": 1}))
    yield Step("POST", WIDGETS, widget("warned", spec={"need": "a", "z": {"x": 1}, "defaults": {"q": 2}}))
    ignored = f"{WIDGETS}?fieldValidation=Ignore"
    yield Step("POST", ignored, widget("ignored", spec={"need": "a", "z": 1}))
    twice = '"metadata":{"name":"%s","name":"%s","foo":1},"spec":{"need":"a","need":"b"}}'
    for name, path in (("strict", strict), ("warn", WIDGETS)):
        body = '{"apiVersion":"example.com/v1","kind":"Widget",' + twice % (name, name)
        yield Step("POST", path, body)
    yield Step("POST", WIDGETS, {"kind": "Widget"})
    yield Step("POST", WIDGETS, {"kind": "Pod", "apiVersion": "v1"})
    yield Step("POST", WIDGETS, {"kind": "Widgets", "apiVersion": "example.com/v1"})
    yield Step("POST", WIDGETS, {"kind": "Widget", "apiVersion": "example.com/v2"})
    this = {"kind": "Widget", "apiVersion": "example.com/v1"}
    yield Step("POST", WIDGETS, this)
    for metadata in (5, {"name": 5}, {"name": "a", "labels": {"a": 1}}, {"name": "A"}):
        yield Step("POST", WIDGETS, {**this, "metadata": metadata, "spec": {"need": 1}})
    yield Step(
        "POST",
        WIDGETS,
        "kind: Widget\napiVersion: example.com/v1\nmetadata: {name: yaml}\n",
        "application/yaml",
    )
    yield from _changes()


def _changes() -> Iterator[Step]:
    """What an update leaves as it was is not complained of again."""
    old = f"{WIDGETS}/old"
    yield Step(
        "POST", WIDGETS, widget("old", spec={"need": "a", "text": "ab", "keyed": [{"k": "a", "v": 1}]})
    )
    tighter = json.loads(json.dumps(WIDGET["spec"]["versions"]))
    properties = tighter[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["text"]["minLength"] = 3
    properties["keyed"]["items"]["properties"]["v"]["minimum"] = 5
    properties["late"] = {"type": "string", "default": "later"}
    yield Step("PATCH", f"{DEFINITIONS}/widgets.example.com", {"spec": {"versions": tighter}}, MERGE)
    yield Step("WAIT", f"{DEFINITIONS}/widgets.example.com", "Established")
    yield Step("PATCH", old, {"spec": {"need": "b"}}, MERGE)
    yield Step("PATCH", old, {"spec": {"keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]}}, MERGE)
    yield Step("PATCH", old, {"spec": {"keyed": [{"k": "a", "v": 2}]}}, MERGE)
    yield Step("PATCH", old, {"spec": {"text": "ac"}}, MERGE)
    yield Step("DELETE", f"{DEFINITIONS}/widgets.example.com")
    yield Step("WAIT", f"{DEFINITIONS}/widgets.example.com", "gone")


# ---- definitions ----------------------------------------------------------------------------------

SCHEMAS: list[Tree] = [
    {"type": "string"}, {"properties": {"a": {}}}, spec(a={}), spec(a={"type": "array"}),
    spec(a={"type": "array", "items": {}}), spec(a={"type": "foo"}),
    spec(a={**objects(x=TEXT), "additionalProperties": TEXT}),
    {"type": "object", "additionalProperties": TEXT}, spec(a={**TEXT, "anyOf": [TEXT]}),
    spec(a={"type": "object", "anyOf": [{"properties": {"q": {"minLength": 1}}}]}),
    {**spec(a=TEXT), "anyOf": [{"properties": {"spec": {"properties": {"b": {"minLength": 1}}}}}]},
    spec(a={**TEXT, "default": 5}), spec(a={"type": "object", "default": {"x": 1}}),
    spec(a={**TEXT, "default": "x"}), spec(a={"type": "array", "uniqueItems": True, "items": TEXT}),
    spec(a={"type": "array", "x-kubernetes-list-type": "map", "items": TEXT}),
    spec(a={**TEXT, "x-kubernetes-list-type": "foo"}), spec(a={**TEXT, "x-kubernetes-map-type": "foo"}),
    spec(
        a={
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": objects(k=TEXT),
        }
    ),
    spec(a={"type": "array", "x-kubernetes-list-map-keys": ["k"], "items": objects(k=TEXT)}),
    spec(a={"type": "array", "x-kubernetes-list-type": "set", "items": objects(k=TEXT)}),
    spec(a={"x-kubernetes-preserve-unknown-fields": False}), spec(a={**TEXT, "$ref": "x"}),
    {"type": "object", "nullable": True}, objects(metadata=objects(labels={"type": "object"})),
    objects(metadata=objects(name={"type": "string", "maxLength": 3})), objects(kind=NUMBER),
    spec(a={**TEXT, "format": "weird"}), spec(a={"type": "object", "x-kubernetes-embedded-resource": True}),
    spec(a={**TEXT, "x-kubernetes-embedded-resource": True}),
    spec(a={"x-kubernetes-int-or-string": True, "anyOf": [NUMBER, TEXT]}),
    spec(a={"x-kubernetes-int-or-string": True, **FREE}),
    spec(a={**TEXT, "x-kubernetes-validations": [{"rule": ""}]}),
]  # fmt: skip


def _changed(path: tuple[str | int, ...], value: Any) -> Tree:
    tree = definition("Bad", spec(a=TEXT))
    found: Any = tree
    for name in path[:-1]:
        found = found[name]
    if value is None:
        del found[path[-1]]
    else:
        found[path[-1]] = value
    return tree


VERSION = definition("Bad", spec(a=TEXT))["spec"]["versions"][0]
BAD: list[Tree] = [
    _changed(("metadata", "name"), "foo"), _changed(("spec", "group"), "nodots"),
    _changed(("spec", "scope"), "Foo"), _changed(("spec", "scope"), None),
    _changed(("spec", "names"), {"plural": "bads", "kind": ""}),
    _changed(("spec", "names", "listKind"), "Bad"),
    _changed(
        ("spec", "names"), {"plural": "Bads", "kind": "bad_x", "shortNames": ["B"], "categories": ["C"]}
    ),
    _changed(("spec", "versions"), []), _changed(("spec", "versions", 0, "name"), "V1"),
    _changed(("spec", "versions", 0, "storage"), False), _changed(("spec", "versions", 0, "schema"), None),
    _changed(("spec", "versions"), [{**VERSION, "storage": index == 0} for index in range(2)]),
    _changed(("spec", "conversion"), {"strategy": "Foo"}),
    _changed(("spec", "conversion"), {"strategy": "Webhook"}),
    _changed(("spec", "preserveUnknownFields"), True),
    definition("Bad", spec(a=TEXT), deprecationWarning="x"),
    definition(
        "Bad", spec(a=TEXT),
        additionalPrinterColumns=[
            {"name": "", "type": "foo", "jsonPath": "x", "format": "q"},
            {"name": "a", "type": "string", "jsonPath": ".spec["},
        ],
    ),
    definition(
        "Bad", spec(a=TEXT), subresources={"scale": {"specReplicasPath": "", "statusReplicasPath": ""}}
    ),
    definition(
        "Bad", spec(a=TEXT),
        subresources={
            "scale": {"specReplicasPath": ".foo", "statusReplicasPath": ".spec.x", "labelSelectorPath": ".q"}
        },
    ),
    definition(
        "Bad", spec(a=TEXT, o={"type": "object"}),
        selectableFields=[
            {"jsonPath": ".spec.b"}, {"jsonPath": ""}, {"jsonPath": ".metadata.name"},
            {"jsonPath": ".spec.o"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"},
        ],
    ),
    {**definition("Bad", spec(a=TEXT)), "metadata": {"name": "bads.foo.k8s.io"}},
]  # fmt: skip
BAD[-1]["spec"]["group"] = "foo.k8s.io"
TWO_SCHEMAS = definition("Bad", spec(a={}))
TWO_SCHEMAS["spec"]["versions"].append(
    {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": spec(b={})}}
)


def definitions() -> Iterator[Step]:
    """Definitions that are refused, or nearly; nothing of it stays."""
    dry = f"{DEFINITIONS}?dryRun=All"
    for schema in SCHEMAS:
        yield Step("POST", dry, definition("Bad", schema))
    for tree in [*BAD, TWO_SCHEMAS]:
        yield Step("POST", dry, tree)


# ---- the life of a definition ----------------------------------------------------------------------

CREW = definition(
    "Crew",
    objects(
        spec=objects(size=NUMBER, color=TEXT),
        status=objects(size=NUMBER, selector=TEXT, lastNode=TEXT),
    ),
    subresources={
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.size",
            "labelSelectorPath": ".status.selector",
        },
    },
    selectableFields=[{"jsonPath": ".spec.color"}],
    additionalPrinterColumns=[{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
)
CREW["spec"]["names"] |= {"shortNames": ["cw"], "categories": ["all"]}
CREW["spec"]["versions"].append(
    {
        "name": "v1beta1",
        "deprecated": True,
        "served": True,
        "storage": False,
        "schema": {"openAPIV3Schema": spec(color=TEXT, extra={"type": "string", "default": "e"})},
    }
)
RIVAL = definition("Rival", {"type": "object"})
RIVAL["spec"]["names"] = {"plural": "rivals", "kind": "Crew", "shortNames": ["cw", "ri"], "singular": "crew"}


def crew(name: str, **members: Any) -> Tree:
    return {"apiVersion": "example.com/v1", "kind": "Crew", "metadata": {"name": name}, **members}


def life() -> Iterator[Step]:
    """A definition with two versions, status, scale and selectable fields, from its beginning to its end."""
    one, crews = f"{DEFINITIONS}/crews.example.com", "/apis/example.com/v1/namespaces/default/crews"
    beta = crews.replace("v1/", "v1beta1/", 1)
    a = f"{crews}/a"
    yield Step("POST", DEFINITIONS, CREW)
    yield Step("WAIT", one, "Established")
    yield Step("GET", one)
    yield Step("POST", crews, crew("a", spec={"color": "red"}, status={"lastNode": "x"}))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
    yield Step("PUT", f"{a}/scale", {**scale, "spec": {"replicas": 3}})
    yield Step("PATCH", f"{a}/scale", {"spec": {"replicas": 4}}, MERGE)
    yield Step("PATCH", f"{a}/scale", {"spec": {"replicas": -4}}, MERGE)
    status = {"lastNode": "n1", "size": 2, "selector": "a=b", "zz": 1}
    noise = {"metadata": {"labels": {"x": "y"}}, "spec": {"color": "blue"}}
    yield Step("PATCH", f"{a}/status", {**noise, "status": status}, MERGE)
    yield Step("PATCH", f"{a}/status", {"status": {"lastNode": 5}}, MERGE)
    yield Step("GET", f"{a}/status")
    yield Step("GET", f"{a}/scale")
    yield Step("PATCH", a, {"spec": {"color": "red", "unknown": 1}, "status": {"lastNode": "n2"}}, MERGE)
    yield Step("PATCH", a, {"spec": {"color": 5}}, MERGE)
    yield Step(
        "PATCH", a, [{"op": "replace", "path": "/spec/size", "value": -1}], "application/json-patch+json"
    )
    yield Step("GET", beta + "/a")
    yield Step("PATCH", beta + "/a", {"spec": {"color": "green"}}, MERGE)
    yield Step("GET", a)
    yield Step("GET", f"{crews}?fieldSelector=spec.color%3Dgreen")
    yield Step("GET", f"{crews}?fieldSelector=spec.color%3Dred")
    yield Step("GET", f"{crews}?fieldSelector=spec.size%3D1")
    yield Step("PUT", a, crew("a", spec={}))
    yield Step("PUT", f"{crews}/b", crew("b", spec={}))
    yield Step("PATCH", f"{crews}/b?fieldManager=m", crew("b", spec={"color": "green"}), APPLY)
    yield from _end(one, crews)


def _end(one: str, crews: str) -> Iterator[Step]:
    rival = f"{DEFINITIONS}/rivals.example.com"
    yield Step("POST", DEFINITIONS, RIVAL)
    yield Step("WAIT", rival, "NamesAccepted")
    yield Step("GET", rival)
    names = {**CREW["spec"]["names"], "kind": "Gang"}
    yield Step("PATCH", one, {"spec": {"names": names}}, MERGE)
    yield Step("PATCH", one, {"spec": {"scope": "Cluster"}}, MERGE)
    only = [{**CREW["spec"]["versions"][1], "storage": True}]
    yield Step("PATCH", one, {"spec": {"versions": only}}, MERGE)
    yield Step(
        "PATCH", f"{crews}/a", {"metadata": {"finalizers": ["example.com/hold", "mine", "my.own"]}}, MERGE
    )
    yield Step("DELETE", one)
    yield Step("WAIT", one, "Terminating")
    yield Step("GET", one)
    yield Step("GET", crews)
    yield Step("POST", crews, crew("late"))
    yield Step("PATCH", f"{crews}/a", {"metadata": {"finalizers": None}}, MERGE)
    yield Step("WAIT", one, "gone")
    yield Step("GET", one)
    yield Step("WAIT", rival, "Established")
    yield Step("GET", rival)
    yield Step("DELETE", rival)
    yield Step("WAIT", rival, "gone")


Scenes = Mapping[str, Callable[[], Iterator[Step]]]
"""Requests by the name of what they are about."""
SCENES: Scenes = {"values": values, "definitions": definitions, "life": life}
