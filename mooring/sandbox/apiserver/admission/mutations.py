"""Putting a changed object in the place of the one that is written."""

from __future__ import annotations

from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.objects import Tree


def replace_object(write: Write, resource: Resource, obj: Tree, changed: Tree) -> None:
    """Make `obj`, in the version that is stored, what `changed` is in the version of a resource."""
    if resource.conversion is not None:
        resource.conversion.to_storage(changed)
    if not write.subresource or write.subresource == "status":
        resource.strategy.default(changed)
    kind: Tree = {name: obj[name] for name in ("kind", "apiVersion") if name in obj}
    obj.clear()
    obj.update(changed)
    obj.update(kind)
