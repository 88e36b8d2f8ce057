"""The metadata of objects: what the server fills in, keeps and checks, whatever the kind."""

from __future__ import annotations

from mooring.embedded.errors import Cause, bad_request, invalid_value, required
from mooring.embedded.objects import Tree
from mooring.embedded.validation.names import label_value, path_segment, qualified_name
from mooring.embedded.verbs.write import Write

_ANNOTATION_BYTES = 256 * 1024
_SYSTEM = ("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid")


def metadata_of(obj: Tree) -> Tree:
    """The object's metadata, made where there is none."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    found: Tree = metadata
    return found


def settle_namespace(write: Write, metadata: Tree) -> None:
    """The namespace is that of the request. Raises 400 where the object says otherwise."""
    found = metadata.get("namespace", "")
    if found and found != write.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if write.namespace:
        metadata["namespace"] = write.namespace
    else:
        metadata.pop("namespace", None)


def fill_new(write: Write, metadata: Tree) -> None:
    """What only the server says about a new object."""
    for name in _SYSTEM:
        metadata.pop(name, None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = write.api.random_name(metadata["generateName"])
    metadata["uid"] = write.api.new_uid()
    metadata["creationTimestamp"] = write.api.now()


def keep_old(metadata: Tree, old: Tree) -> None:
    """What an update cannot change."""
    metadata.setdefault("uid", old["uid"])
    metadata["creationTimestamp"] = old["creationTimestamp"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)
    metadata.pop("selfLink", None)


def validate_metadata(metadata: Tree) -> list[Cause]:
    """What is wrong with the metadata of any kind of object, at its creation and later."""
    causes = []
    name = metadata.get("name", "")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    causes += [invalid_value("metadata.name", name, problem) for problem in path_segment(name)]
    causes += _label_problems(metadata.get("labels") or {})
    causes += _annotation_problems(metadata.get("annotations") or {})
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        field = f"metadata.finalizers[{index}]"
        causes += [invalid_value(field, finalizer, problem) for problem in qualified_name(finalizer)]
    causes += _owner_problems(metadata.get("ownerReferences") or [])
    return causes


def validate_metadata_update(metadata: Tree, old: Tree) -> list[Cause]:
    """What an update changed that it may not."""
    causes = []
    for name in ("name", "namespace", "uid"):
        if metadata.get(name, "") != old.get(name, ""):
            field = f"metadata.{name}"
            causes.append(invalid_value(field, metadata.get(name, ""), "field is immutable"))
    if "deletionTimestamp" in old:
        added = [one for one in metadata.get("finalizers") or () if one not in (old.get("finalizers") or ())]
        if added:
            why = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                + _listed(added)
            )
            causes.append(Cause("FieldValueForbidden", "metadata.finalizers", f"Forbidden: {why}"))
    return causes


def _listed(names: list[str]) -> str:
    return "[]string{" + ", ".join(f'"{name}"' for name in names) + "}"


def _label_problems(labels: Tree) -> list[Cause]:
    field = "metadata.labels"
    causes = []
    for key, value in labels.items():
        causes += [invalid_value(field, key, problem) for problem in qualified_name(key)]
        causes += [invalid_value(field, value, problem) for problem in label_value(value)]
    return causes


def _annotation_problems(annotations: Tree) -> list[Cause]:
    field = "metadata.annotations"
    causes = [invalid_value(field, key, why) for key in annotations for why in qualified_name(key.lower())]
    total = sum(len(key) + len(value) for key, value in annotations.items())
    if total > _ANNOTATION_BYTES:
        problem = f"Too long: may not be more than {_ANNOTATION_BYTES} bytes"
        causes.append(Cause("FieldValueTooLong", field, problem))
    return causes


def _owner_problems(owners: list[Tree]) -> list[Cause]:
    causes = []
    for index, owner in enumerate(owners):
        at = f"metadata.ownerReferences[{index}]"
        if not owner.get("apiVersion"):
            causes.append(
                invalid_value(f"{at}.apiVersion", owner.get("apiVersion", ""), "version must not be empty")
            )
        empty = [name for name in ("kind", "name", "uid") if not owner.get(name)]
        causes += [invalid_value(f"{at}.{name}", "", f"{name} must not be empty") for name in empty]
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        first, second = controllers[0], controllers[1]
        why = (
            "Only one reference can have Controller set to true. Found "
            f'"true" in references for {first.get("kind")}/{first.get("name")} and '
            f"{second.get('kind')}/{second.get('name')}"
        )
        causes.append(invalid_value("metadata.ownerReferences", owners, why))
    return causes
