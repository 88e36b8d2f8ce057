"""An object in the versions in which its managers wrote it, and its changes in each of them."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.sandbox.apiserver.context.resource import Conversion, Registry, Resource
from mooring.sandbox.apiserver.fields.kind_shapes import shape_of
from mooring.sandbox.apiserver.fields.resets import reset_of
from mooring.sandbox.apiserver.fields.shapes import Changes, Struct
from mooring.sandbox.apiserver.objects import Tree, encode_json

STORED: Final = ""
"""Stands for a version: an object in its stored form."""


class Versions:
    """The versions of one resource, for a write to it or to a subresource."""

    def __init__(self, registry: Registry, resource: Resource, subresource: str) -> None:
        self._registry = registry
        self._resource = resource
        self.reset = reset_of(resource, subresource)

    def _served(self, api_version: str) -> Resource | None:
        """Return a version of the resource; None for other groups, even if they serve the same objects."""
        if api_version == self._resource.api_version:
            return self._resource
        resource = self._registry.of_kind(api_version, self._resource.kind)
        return resource if resource is not None and resource.group == self._resource.group else None

    def shape(self, api_version: str) -> Struct | None:
        """Return the shape of objects in a version; None if it is not served any more."""
        served = self._served(api_version)
        return None if served is None else shape_of(served)

    def convert(self, tree: Tree, source: str, target: str) -> Tree:
        """Convert a copy of a tree to another version."""
        conversion = self._resource.conversion
        if conversion is not None and conversion.is_remote:
            return self._convert_remotely(conversion, tree, source, target)
        if source == target:
            return tree
        before, after = self._served(source), self._served(target)
        leave = None if before is None else before.conversion
        enter = None if after is None else after.conversion
        if leave is None and enter is None:
            return tree
        tree = msgspec.json.decode(encode_json(tree))
        if leave is not None:
            leave.to_storage(tree)
        if enter is not None:
            enter.from_storage(tree)
        return tree

    def _convert_remotely(self, conversion: Conversion, tree: Tree, source: str, target: str) -> Tree:
        """Convert by a webhook. Objects are in the version of the request where others are in their stored
        form; empty ones are not converted."""
        own = self._resource
        source, target = source or own.api_version, target or own.api_version
        if source == target or not tree.get("metadata"):
            return tree
        copied: Tree = msgspec.json.decode(encode_json({**tree, "kind": own.kind, "apiVersion": source}))
        return conversion.convert([copied], target)[0]

    def compare(self, old: Tree, new: Tree, form: str, api_version: str) -> Changes | None:
        """Return how an object changes, seen in a version; None if that is not served. `form` is the version
        of the trees."""
        shape = self.shape(api_version)
        if shape is None:
            return None
        before, after = self.convert(old, form, api_version), self.convert(new, form, api_version)
        return Changes(*map(self.reset, shape.difference(before, after)))
