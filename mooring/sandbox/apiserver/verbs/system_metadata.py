"""The metadata that the server sets and keeps, for all kinds."""

from __future__ import annotations

from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.objects import Tree

_SYSTEM = frozenset(
    {"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"}
)


def metadata_of(obj: Tree) -> Tree:
    """Return the object's metadata, adding it if there is none."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    result: Tree = metadata
    return result


def settle_namespace(write: Write, metadata: Tree) -> None:
    """Set the namespace of the request, or remove that of a cluster-wide object. Raises 400 if the object has
    another."""
    namespace = metadata.get("namespace", "")
    if namespace and write.namespace and namespace != write.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if write.namespace:
        metadata["namespace"] = write.namespace
    else:
        metadata.pop("namespace", None)


def fill_new(write: Write, metadata: Tree) -> None:
    """Set the members of a new object that only the server sets."""
    if not _SYSTEM.isdisjoint(metadata):
        for name in _SYSTEM:
            metadata.pop(name, None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = write.api.random_name(metadata["generateName"])
    metadata["uid"] = write.api.new_uid()
    metadata["creationTimestamp"] = write.api.now()


def keep_old(metadata: Tree, old: Tree) -> None:
    """Keep the members that an update cannot change."""
    metadata.setdefault("uid", old["uid"])
    metadata["creationTimestamp"] = old["creationTimestamp"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)
    metadata.pop("selfLink", None)
