"""The documents that are served, built on first request and kept until the registry changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from mooring.sandbox.apiserver.context.resource import Registry, Resource
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.openapi.v2 import BuilderV2
from mooring.sandbox.apiserver.openapi.v2_protobuf import encode_document
from mooring.sandbox.apiserver.openapi.v3 import BuilderV3


class Document(NamedTuple):
    """An encoded document, and a hash of its content."""

    body: bytes
    hash: str


class _Made(NamedTuple):
    resources: tuple[Resource, ...]
    document: Document


class _Swagger:
    """The v2 document of one generation of the registry; as protobuf only if a client asks for it."""

    def __init__(self, generation: int, tree: Tree, json: Document) -> None:
        self.generation = generation
        self.json = json
        self._tree = tree

    @cached_property
    def protobuf(self) -> Document:
        return Document(encode_document(self._tree), self.json.hash)


class OpenAPI:
    """Describes the current content of a registry."""

    def __init__(self, registry: Registry, version: str) -> None:
        self._registry = registry
        self._version = version
        self._made: dict[str, _Made] = {}
        """Return the resources of each v3 document, by its path."""
        self._swagger: _Swagger | None = None

    def index(self, remote: Mapping[str, Tree] = MappingProxyType({})) -> bytes:
        """Return the index of v3 documents, with those of other servers; their addresses change with their
        content."""
        paths: Tree = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._document(path, resources).hash}"}
            for path, resources in sorted(self._by_path().items())
        }
        return encode_json({"paths": dict(sorted({**paths, **remote}.items()))})

    def v3(self, path: str) -> Document | None:
        """Return the document of "api/v1" or "apis/GROUP/VERSION"; None if there is none."""
        resources = self._by_path().get(path)
        return None if resources is None else self._document(path, resources)

    def v2(self, *, protobuf: bool) -> Document:
        """Return the v2 document."""
        generation = self._registry.generation  # it may change meanwhile: this runs in a thread
        if self._swagger is None or self._swagger.generation != generation:
            builder = BuilderV2()
            for resource in self._registry:
                builder.add(resource)
            tree = builder.document(self._version)
            body = encode_json(tree)
            self._swagger = _Swagger(generation, tree, Document(body, _hash(body)))
        return self._swagger.protobuf if protobuf else self._swagger.json

    def _by_path(self) -> dict[str, tuple[Resource, ...]]:
        by_path: dict[str, list[Resource]] = {}
        for resource in self._registry:
            path = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
            by_path.setdefault(path, []).append(resource)
        return {path: tuple(resources) for path, resources in by_path.items()}

    def _document(self, path: str, resources: tuple[Resource, ...]) -> Document:
        made = self._made.get(path)
        if made is None or made.resources != resources:
            builder = BuilderV3()
            for resource in resources:
                builder.add(resource)
            body = encode_json(builder.document(self._version))
            made = self._made[path] = _Made(resources, Document(body, _hash(body)))
        return made.document


def _hash(body: bytes) -> str:
    return hashlib.sha512(body).hexdigest().upper()
