"""Manifests into a cluster, as `kubectl apply` brings them there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from mooring.api.documents import DocumentError, creatable_metadata, read_objects
from mooring.api.errors import show
from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject, Tree
from mooring.client.api_errors import ApiError
from mooring.client.port import PatchType
from mooring.sandbox.apiserver.context.resource import Registry
from mooring.sandbox.apiserver.port import EmbeddedCluster


class ManifestError(ValueError):
    """An object that cannot be applied; the message says which, of which file, and why."""


def read_trees(text: str, source: str) -> Iterator[Tree]:
    """The objects of a manifest, those of Lists one by one. Raises ManifestError."""
    for tree in read_objects(text):
        if isinstance(tree, DocumentError):
            raise ManifestError(f"{source}: {tree}")
        if not isinstance(tree, dict):
            raise ManifestError(f"{source}: found {show(tree)}, expected an object with apiVersion and kind")
        yield tree


def tree_of(obj: KubeObject) -> Tree:
    """An object of `mooring.api` as its manifest."""
    tree: Tree = msgspec.to_builtins(obj)
    return tree


class Applier:
    """Creates objects, and changes those that are there already by server-side apply."""

    def __init__(self, cluster: EmbeddedCluster, strict: EmbeddedCluster, registry: Registry) -> None:
        self._cluster = cluster
        self._strict = strict
        self._registry = registry
        self.unknown_fields: list[str] = []  # of the objects so far, each with its source

    async def apply_all(self, trees: Iterable[Tree], source: str) -> list[str]:
        """Apply objects in order; "deployment.apps/web created" for each. Raises ManifestError."""
        return [await self.apply(tree, source) for tree in trees]

    async def apply(self, tree: Mapping[str, Any], source: str) -> str:
        resource, body = self._resource(tree, source), _cleaned(tree)
        metadata = body["metadata"]
        name, namespace = metadata.get("name", ""), ""
        called = _singular(tree, resource)
        if resource.namespaced:
            namespace = metadata.setdefault("namespace", "default")
        try:
            try:
                created = await self._create(resource, body, namespace, f"{source}: {called} {name!r}")
                return f"{called}/{created.name} created"
            except ApiError as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
            body.pop("status", None)
            await self._cluster.patch(resource, name, body, namespace, kind=PatchType.APPLY)
            return f"{called}/{name} configured"
        except ApiError as refusal:
            raise ManifestError(f"{source}: {resource.name} {name!r}: {refusal.message}") from None

    async def _create(
        self, resource: ApiResource[KubeObject], body: Tree, namespace: str, where: str
    ) -> KubeObject:
        """Create an object; fields that its kind does not have are noted and left out."""
        try:
            return await self._strict.create(resource, body, namespace)
        except ApiError as refusal:
            _, separator, fields = refusal.message.partition("strict decoding error: ")
            if not separator:
                raise
            self.unknown_fields.append(f"{where}: {fields}")
            return await self._cluster.create(resource, body, namespace)

    def _resource(self, tree: Mapping[str, Any], source: str) -> ApiResource[KubeObject]:
        api_version, kind = tree.get("apiVersion"), tree.get("kind")
        if not isinstance(kind, str) or not isinstance(api_version, str) or not kind or not api_version:
            raise ManifestError(f"{source}: object without kind or apiVersion: {tree!s:.80}")
        resource = self._registry.of_kind(api_version, kind)
        if resource is None:
            raise ManifestError(
                f'{source}: no kind "{kind}" is served in {api_version}; `kubectl api-resources` lists them'
            )
        return ApiResource(resource.group, resource.version, resource.plural, resource.namespaced, KubeObject)


def _singular(tree: Mapping[str, Any], resource: ApiResource[KubeObject]) -> str:
    """As kubectl names a resource: "pod", "deployment.apps"."""
    kind = str(tree["kind"]).lower()
    return f"{kind}.{resource.group}" if resource.group else kind


def _cleaned(tree: Mapping[str, Any]) -> Tree:
    """A copy without the metadata that an API server sets."""
    metadata = tree.get("metadata")
    return {**tree, "metadata": creatable_metadata(metadata) if isinstance(metadata, dict) else {}}
