"""patch."""

from __future__ import annotations

from typing import Any

from mooring.cluster.port import PatchType
from mooring.embedded.kinds.codec import Codec
from mooring.embedded.objects import Tree
from mooring.embedded.patches.apply_patch import apply_patch
from mooring.embedded.store.record import Record
from mooring.embedded.verbs.updating import change
from mooring.embedded.verbs.write import Write


def patch_object(write: Write, kind: PatchType, patch: Any, codec: Codec) -> tuple[Record, bool]:
    """Patch an object; whether it was created (only an apply does that). Raises ApiError."""

    def produce(old: Tree) -> Tree:
        result = apply_patch(write.resource, kind, patch, old)
        decoded = codec.sift(result, write.options.field_validation)
        write.warnings += decoded.warnings
        return decoded.tree

    return change(write, produce), False
