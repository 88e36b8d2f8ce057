"""OpenAPI documents: compared with those of a real API server, and consistent in themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.sandbox.apiserver.builtin import builtin_registry
from mooring.sandbox.apiserver.context.resource import GroupVersionKind, Registry, Resource
from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.kinds.codec import Decoded, FieldValidation
from mooring.sandbox.apiserver.kinds.types import ObjectType
from mooring.sandbox.apiserver.openapi.documents import OpenAPI
from mooring.sandbox.apiserver.strategies.builtin_traits import traits_of
from tests.sandbox.apiserver.openapi_digest import digest
from tests.sandbox.apiserver.scene import DATA, Tree

PODS = "/api/v1/namespaces/{namespace}/pods"
DISCOVERY = {
    f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}"
    for name in (
        "APIGroup", "APIResource", "APIResourceList", "GroupVersionForDiscovery", "ServerAddressByClientCIDR",
        "WatchEvent",
    )
}  # fmt: skip
"""Definitions of answers that are of no kind; our documents do not speak of them."""
UNNAMED = {
    "CustomResourceSubresourceStatus": "RawExtension",
    "JSONSchemaPropsOrArray": "JSON",
    "JSONSchemaPropsOrBool": "JSON",
    "JSONSchemaPropsOrStringArray": "JSON",
}
"""Types that no model describes, and what we call them."""


@pytest.fixture(scope="module")
def openapi() -> OpenAPI:
    return OpenAPI(builtin_registry(), "v1.36.0")


@pytest.fixture(scope="module")
def swagger(openapi: OpenAPI) -> Tree:
    return tree(openapi.v2(protobuf=False).body)


def tree(body: bytes) -> Tree:
    found: Tree = json.loads(body)
    return found


def documents(openapi: OpenAPI) -> dict[str, Tree]:
    found = {}
    for path in tree(openapi.index())["paths"]:
        document = openapi.v3(path)
        assert document is not None
        found[path] = tree(document.body)
    return found


def recorded() -> dict[str, dict[str, str]]:
    found = {}
    for line in (DATA / "openapi.txt").read_text().splitlines():
        name, *members = line.split("\t")
        found[name] = dict(member.split(": ", 1) for member in members)
    return found


# ---- compared with a real server ------------------------------------------------------------------


def test_definitions_are_those_of_a_real_server(openapi: OpenAPI) -> None:
    """Exactly its fields are there: with their types, values, merge keys and list types."""
    definitions: Tree = {}
    for document in documents(openapi).values():
        definitions |= document["components"]["schemas"]
    for name, members in recorded().items():
        if name not in DISCOVERY:
            expected = {member: _ours(text) for member, text in members.items()}
            assert digest(definitions[name]) == expected, name


def _ours(text: str) -> str:
    for theirs, name in UNNAMED.items():
        text = text.replace(theirs, name)
    return text


def test_fields_tell_what_they_mean(openapi: OpenAPI) -> None:
    pod = documents(openapi)["api/v1"]["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    assert pod["description"] == "PodSpec is a description of a pod."
    assert pod["properties"]["nodeName"]["description"].startswith(
        "NodeName indicates in which node this pod"
    )
    assert pod["required"] == ["containers"]


# ---- consistent in themselves ---------------------------------------------------------------------


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "$ref" and isinstance(member, str):
                yield member
            else:
                yield from references(member)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_documents_hold_all_that_they_mention(openapi: OpenAPI, swagger: Tree) -> None:
    for document in documents(openapi).values():
        names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(references(document)) <= names
    assert set(references(swagger)) <= {f"#/definitions/{name}" for name in swagger["definitions"]}


def test_there_is_a_document_for_every_version_that_is_served(openapi: OpenAPI) -> None:
    registry = builtin_registry()
    served = {f"apis/{one.api_version}" if one.group else f"api/{one.version}" for one in registry}
    assert documents(openapi).keys() == served
    assert openapi.v3("apis/nothing/v1") is None


def test_kubectl_finds_what_it_looks_for_before_it_validates(openapi: OpenAPI) -> None:
    operation = documents(openapi)["api/v1"]["paths"][f"{PODS}/{{name}}"]["patch"]
    assert operation["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert "fieldValidation" in {parameter["name"] for parameter in operation["parameters"]}
    assert "application/strategic-merge-patch+json" in operation["requestBody"]["content"]


@pytest.mark.parametrize(
    ("path", "method", "id", "description"),
    [
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces", "list or watch objects of kind Pod"),
        (PODS, "post", "createCoreV1NamespacedPod", "create a Pod"),
        (PODS, "delete", "deleteCoreV1CollectionNamespacedPod", "delete collection of Pod"),
        (
            f"{PODS}/{{name}}/status",
            "put",
            "replaceCoreV1NamespacedPodStatus",
            "replace status of the specified Pod",
        ),
        (
            f"{PODS}/{{name}}/eviction",
            "post",
            "createCoreV1NamespacedPodEviction",
            "create eviction of a Pod",
        ),
        (
            "/api/v1/namespaces/{namespace}/endpoints",
            "post",
            "createCoreV1NamespacedEndpoints",
            "create Endpoints",
        ),
        ("/api/v1/nodes/{name}", "get", "readCoreV1Node", "read the specified Node"),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "get",
            "listRbacAuthorizationV1ClusterRole",
            "list or watch objects of kind ClusterRole",
        ),
    ],
)
def test_operations_have_the_names_that_generators_know(
    swagger: Tree, path: str, method: str, id: str, description: str
) -> None:
    operation = swagger["paths"][path][method]
    assert (operation["operationId"], operation["description"]) == (id, description)


def test_operations_are_named_once(openapi: OpenAPI) -> None:
    ids = [
        operation["operationId"]
        for document in documents(openapi).values()
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert len(ids) == len(set(ids))


def test_kinds_of_subresources_are_told(openapi: OpenAPI) -> None:
    document = documents(openapi)["apis/apps/v1"]
    path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert document["paths"][path]["get"]["x-kubernetes-group-version-kind"] == scale
    definition = document["components"]["schemas"]["io.k8s.api.autoscaling.v1.Scale"]
    assert definition["x-kubernetes-group-version-kind"] == [scale]


# ---- protobuf -------------------------------------------------------------------------------------


def fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = 8 if key & 7 == 1 else varint()
            yield key >> 3, data[at : at + size]
            at += size


def entries(data: bytes, number: int) -> dict[str, bytes]:
    """The members of a map in a message."""
    found = {}
    for field, value in fields(data):
        if field == number:
            assert isinstance(value, bytes)
            entry = dict(fields(value))
            assert isinstance(entry[1], bytes)
            assert isinstance(entry[2], bytes)
            found[entry[1].decode()] = entry[2]
    return found


def test_protobuf_says_what_json_says(openapi: OpenAPI, swagger: Tree) -> None:
    document = dict(fields(openapi.v2(protobuf=True).body))
    assert document[1] == b"2.0"
    paths, definitions = document[8], document[9]
    assert isinstance(paths, bytes)
    assert isinstance(definitions, bytes)
    assert entries(paths, 2).keys() == swagger["paths"].keys()
    schemas = entries(definitions, 1)
    assert schemas.keys() == swagger["definitions"].keys()
    priority = schemas["io.k8s.api.scheduling.v1.PriorityClass"]
    json_form = swagger["definitions"]["io.k8s.api.scheduling.v1.PriorityClass"]
    found = dict(fields(priority))
    assert found[4] == json_form["description"].encode()
    properties = found[25]
    assert isinstance(properties, bytes)
    assert entries(properties, 1).keys() == json_form["properties"].keys()
    extension = dict(fields(entries(priority, 31)["x-kubernetes-group-version-kind"]))[2]
    assert isinstance(extension, bytes)
    assert json.loads(extension) == json_form["x-kubernetes-group-version-kind"]


# ---- custom resources -----------------------------------------------------------------------------

SHIP = GroupVersionKind("example.com", "v1", "Ship")
MEMBERS: Tree = {
    "tons": {"type": "integer", "minimum": 1, "maximum": 1e6, "multipleOf": 0.5, "description": "Its weight"},
    "flag": {"type": "string", "nullable": True},
    "berth": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    "cargo": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "crew": {"type": "array", "maxItems": 9, "items": {"type": "string", "enum": ["a", "b"]}},
    "names": {"type": "object", "additionalProperties": {"type": "string"}},
    "rest": {"type": "object", "additionalProperties": True},
}
HULL: Tree = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "properties": {"steel": {"type": "boolean"}},
}
SCHEMA: Tree = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["tons", "flag"],
            "properties": {**MEMBERS, "hull": HULL},
        }
    },
}


class Described(OpenAPI):
    """The documents of a registry with one custom resource."""

    def __init__(self, schema: Tree | None) -> None:
        ship = Resource(
            SHIP,
            "ships",
            namespaced=True,
            verbs=("create", "get", "list", "patch", "delete"),
            codec=_NoCodec(),
            strategy=Strategy(traits_of("ships.example.com", status=False)),
            custom=True,
            schema=schema,
        )
        self.registry = Registry([*builtin_registry(), ship])
        super().__init__(self.registry, "v1.36.0")

    def definition(self, version: int) -> Tree:
        document = self.v2(protobuf=False) if version == 2 else self.v3("apis/example.com/v1")
        assert document is not None
        body = tree(document.body)
        definitions = body["definitions"] if version == 2 else body["components"]["schemas"]
        found: Tree = definitions["com.example.v1.Ship"]
        return found


class _NoCodec:
    """Nothing is written here."""

    type: ObjectType | None = None

    def decode(self, data: bytes, validation: FieldValidation) -> Decoded:
        raise NotImplementedError

    def sift(self, tree: Tree, validation: FieldValidation) -> Decoded:
        raise NotImplementedError


def test_a_custom_resource_has_the_schema_of_its_definition() -> None:
    definition = Described(SCHEMA).definition(3)
    assert definition["x-kubernetes-group-version-kind"] == [SHIP._asdict()]
    assert list(definition["properties"]) == ["apiVersion", "kind", "metadata", "spec"]
    metadata = definition["properties"]["metadata"]
    assert metadata["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    ]
    ours = definition["properties"]["spec"]["properties"]
    assert {name: ours[name] for name in MEMBERS} == MEMBERS
    assert list(ours["hull"]["properties"]) == ["apiVersion", "kind", "metadata", "steel"]


def test_the_old_document_says_only_what_kubectl_understands() -> None:
    spec = Described(SCHEMA).definition(2)["properties"]["spec"]
    assert spec["required"] == ["tons"]
    assert spec["properties"]["flag"] == {}
    assert spec["properties"]["berth"] == {"x-kubernetes-int-or-string": True}
    assert spec["properties"]["cargo"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert spec["properties"]["crew"] == MEMBERS["crew"]


def test_schemas_that_name_nothing_forbid_nothing() -> None:
    labelled = {"type": "object", "x-kubernetes-group-version-kind": [SHIP._asdict()]}
    assert Described(None).definition(3) == Described(None).definition(2) == labelled
    open_ended = {**SCHEMA, "x-kubernetes-preserve-unknown-fields": True}
    assert Described(open_ended).definition(2) == labelled


def test_a_schema_without_bottom_spoils_nothing() -> None:
    schema: Tree = {"type": "string"}
    for _ in range(2000):
        schema = {"type": "object", "properties": {"a": schema}}
    assert "properties" not in Described(schema).definition(3)
    assert "properties" not in Described(schema).definition(2)


def test_custom_resources_are_not_patched_strategically() -> None:
    document = Described(SCHEMA).v3("apis/example.com/v1")
    assert document is not None
    paths = tree(document.body)["paths"]
    content = paths["/apis/example.com/v1/namespaces/{namespace}/ships/{name}"]["patch"]["requestBody"][
        "content"
    ]
    assert "application/merge-patch+json" in content
    assert "application/strategic-merge-patch+json" not in content
    answer = paths["/apis/example.com/v1/ships"]["get"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]
    assert answer == {"$ref": "#/components/schemas/com.example.v1.ShipList"}


def test_documents_follow_the_registry() -> None:
    openapi = Described(SCHEMA)
    before, pods = openapi.v2(protobuf=False), openapi.v3("api/v1")
    ship = openapi.registry.find("example.com", "v1", "ships")
    assert ship is not None
    openapi.registry.remove(ship)
    assert openapi.v3("apis/example.com/v1") is None
    assert "com.example.v1.Ship" not in tree(openapi.v2(protobuf=False).body)["definitions"]
    assert openapi.v2(protobuf=False).hash != before.hash
    assert openapi.v3("api/v1") is pods
