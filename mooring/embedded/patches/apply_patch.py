"""From a patch and an object to the object that results."""

from __future__ import annotations

from typing import Any

from mooring.api.patches import merge_patch
from mooring.cluster.port import PatchType
from mooring.embedded.errors import bad_request, unsupported_media_type
from mooring.embedded.kinds.resource import Resource
from mooring.embedded.objects import Tree

SUPPORTED = tuple(kind.value for kind in PatchType)


def apply_patch(resource: Resource, kind: PatchType, patch: Any, tree: Tree) -> Tree:
    """The tree with the patch applied; `tree` itself stays as it is. Raises ApiError."""
    if kind is PatchType.MERGE:
        if not isinstance(patch, dict):
            raise bad_request("error decoding patch: expected a JSON object")
        merged: Tree = merge_patch(tree, patch)
        return merged
    raise unsupported_media_type(SUPPORTED)
