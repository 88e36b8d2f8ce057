"""Server-side apply: a manager sets fields, and owns exactly those afterwards."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.resource import GroupVersionKind
from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.fields.configuration_errors import problems
from mooring.sandbox.apiserver.fields.managers import Managed, Manager, Owned, decode, encode, updater
from mooring.sandbox.apiserver.fields.merging import merge, remove, with_named_members
from mooring.sandbox.apiserver.fields.ownership import Change, fields_of_new
from mooring.sandbox.apiserver.fields.sets import (
    LEAF,
    SELF,
    Fields,
    difference,
    has,
    intersection,
    path_text,
    paths,
    union,
)
from mooring.sandbox.apiserver.fields.shapes import Struct
from mooring.sandbox.apiserver.fields.versions import Versions
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.patches.patch_errors import malformed

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_ANNOTATED: Final = 256 * 1024
_KUBECTL: Final = "kubectl"
_BEFORE: Final = "before-first-apply"
_deterministic = msgspec.json.Encoder(order="deterministic").encode


class Applying(NamedTuple):
    """Who applies to what, and how."""

    versions: Versions
    kind: GroupVersionKind
    manager: Manager
    force: bool
    now: str


class _ConflictsError(Exception):
    def __init__(self, taken: dict[Manager, Fields]) -> None:
        conflicts = [(manager, path) for manager in sorted(taken) for path in paths(taken[manager])]
        super().__init__(conflicts)
        self.conflicts = conflicts


def apply_configuration(applying: Applying, config: Any, live: Tree) -> Tree:
    """Apply a configuration to the live object, and update its managedFields. Raises ApiError.

    `live` is in the version of the request, and empty if there is no object yet. Neither is changed.
    """
    shape = applying.versions.shape(applying.kind.api_version)
    assert shape is not None
    check_configuration(shape, applying.kind, config)
    live = {**live, "metadata": dict(live.get("metadata") or {})}
    managed = decode(live["metadata"].pop("managedFields", None)) or _before_first(applying, shape, live)
    try:
        tree, managed = _apply_or_migrate(applying, shape, config, live, managed)
    except _ConflictsError as error:
        raise _refusal(error.conflicts) from None
    metadata = tree["metadata"] = dict(tree["metadata"] or {})
    if managed:
        metadata["managedFields"] = encode(managed)
    if applying.manager.name == _KUBECTL and (metadata.get("annotations") or {}).get(LAST_APPLIED):
        _renew_last_applied(metadata, config)
    return tree


def check_configuration(shape: Struct, kind: GroupVersionKind, config: Any) -> None:
    """Check a configuration before anything is merged. Raises ApiError."""
    config = config if isinstance(config, dict) else {}
    group, _, version = str(config.get("apiVersion") or "").rpartition("/")
    named = str(config.get("kind") or "")
    if (named, config.get("apiVersion")) != (kind.kind, kind.api_version):
        raise bad_request(f"invalid object type: {group}/{version}, Kind={named}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    errors = list(problems(shape, config))
    if errors:
        message = errors[0] if len(errors) == 1 else "\n  ".join(["errors:", *errors])
        raise malformed(f"failed to create typed patch object ({describe(kind, config)}): {message}")


def describe(kind: GroupVersionKind, config: Tree) -> str:
    """Return the object of a configuration, as messages name it."""
    metadata = config.get("metadata")
    members = metadata if isinstance(metadata, dict) else {}
    where = f"{members.get('namespace') or ''}/{members.get('name') or ''}"
    return f"{where}; {kind.group}/{kind.version}, Kind={kind.kind}"


def _before_first(applying: Applying, shape: Struct, live: Tree) -> Managed:
    """For an object without managers, return one that owns all its fields."""
    fields = applying.versions.reset(fields_of_new(shape, live))
    if not fields:
        return {}
    version = applying.kind.api_version
    return {updater(_BEFORE, version, applying.manager.subresource): Owned(version, fields, applying.now)}


def _apply_or_migrate(
    applying: Applying, shape: Struct, config: Tree, live: Tree, managed: Managed
) -> tuple[Tree, Managed]:
    """Apply. kubectl takes over its client-side applied fields without force, if they are unchanged."""
    try:
        return _apply(applying, shape, config, live, managed)
    except _ConflictsError as error:
        if applying.manager.name != _KUBECTL:
            raise
        own = _last_applied(applying, shape, live)
        if not own:
            raise
        error.conflicts = [(manager, path) for manager, path in error.conflicts if not has(own, path)]
        if error.conflicts:
            raise
        return _apply(applying._replace(force=True), shape, config, live, managed)


def _apply(
    applying: Applying, shape: Struct, config: Tree, live: Tree, managed: Managed
) -> tuple[Tree, Managed]:
    versions, manager, version = applying.versions, applying.manager, applying.kind.api_version
    last = managed.get(manager)
    fields = versions.reset(_named(shape, config))
    present = {**managed, manager: Owned(version, fields, last.time if last is not None else "")}
    tree: Tree = merge(shape, live, config)
    if last is not None:
        tree = _prune(versions, tree, version, present, last)
    outcome = Change(versions, live, tree, version).outcome(present, manager)
    if outcome.taken and not applying.force:
        raise _ConflictsError(outcome.taken)
    left = outcome.left
    if not fields:
        del left[manager]
    elif tree != live:
        left[manager] = left[manager]._replace(time=applying.now)
    return tree, left


def _named(shape: Struct, config: Tree) -> Fields:
    """Return the fields that a configuration names; its metadata alone is none."""
    fields = shape.named(config)
    if fields.get("f:metadata") == {}:
        del fields["f:metadata"]
    return fields


def _prune(versions: Versions, merged: Tree, version: str, managed: Managed, last: Owned) -> Tree:
    """Remove what the manager applied last time and does not now, if it has no other owner."""
    then = last.api_version
    shape = versions.shape(then)
    if shape is None:
        return merged
    named = _all_of(shape, last.fields)
    tree = versions.convert(merged, version, then)
    pruned: Tree = remove(shape, tree, named) or {}
    for other in sorted(
        {owned.api_version for owned in managed.values()}, key=lambda one: (one != then, one)
    ):
        pruned = _with_owned(versions, tree, pruned, then, other, managed)
    left = _all_of(shape, _named(shape, pruned))
    gone = intersection(difference(_all_of(shape, _named(shape, tree)), left), named)
    return versions.convert(remove(shape, tree, gone) or {}, then, version)


def _with_owned(
    versions: Versions, merged: Tree, pruned: Tree, form: str, version: str, managed: Managed
) -> Tree:
    """Return the pruned object with what the managers of a version own; both objects are in `form`."""
    shape = versions.shape(version)
    if shape is None:
        return pruned
    merged, pruned = versions.convert(merged, form, version), versions.convert(pruned, form, version)
    kept = _all_of(shape, _named(shape, pruned))
    for owned in managed.values():
        if owned.api_version == version:
            kept = union(kept, _all_of(shape, owned.fields))
    gone = difference(_all_of(shape, _named(shape, merged)), kept)
    return versions.convert(remove(shape, merged, gone) or {}, version, form)


def _all_of(shape: Struct, fields: Fields) -> Fields:
    """Return a set with the members that it passes through. The metadata stays: a name is always in it."""
    result = with_named_members(shape, fields)
    metadata = {element: node for element, node in result.pop("f:metadata", LEAF).items() if element != SELF}
    return {**result, "f:metadata": metadata} if metadata else result


# ---- conflicts ------------------------------------------------------------------------------------


def _refusal(conflicts: list[tuple[Manager, tuple[str, ...]]]) -> ApiError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path_text(path)}
        for manager, path in conflicts
    ]
    if len(conflicts) == 1:
        message = f"Apply failed with 1 conflict: conflict with {conflicts[0][0]}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for index, (manager, path) in enumerate(conflicts):
            if index == 0 or manager != conflicts[index - 1][0]:
                lines.append(f"conflicts with {manager}:")
            lines.append(f"- {path_text(path)}")
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", message, details={"causes": causes})


# ---- from client-side apply -----------------------------------------------------------------------


def _last_applied(applying: Applying, shape: Struct, live: Tree) -> Fields:
    """Return what kubectl applied client-side, as far as it is unchanged."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        config = msgspec.json.decode(text or "")
    except (msgspec.DecodeError, RecursionError):
        return {}
    if not isinstance(config, dict) or config.get("apiVersion") != applying.kind.api_version:
        return {}
    if any(problems(shape, config)):
        return {}
    changes = shape.difference(config, live)
    return difference(_named(shape, config), union(union(changes.removed, changes.modified), changes.added))


def _renew_last_applied(metadata: Tree, config: Tree) -> None:
    """Update the annotation of client-side apply, for clients that go back to it."""
    applied = dict(config.get("metadata") or {})
    if applied.get("annotations"):
        others = {name: text for name, text in applied["annotations"].items() if name != LAST_APPLIED}
        applied["annotations"] = others
    text = _deterministic({**config, "metadata": applied}).decode() + "\n"
    annotations = {**metadata["annotations"], LAST_APPLIED: text}
    if sum(len(name) + len(value) for name, value in annotations.items()) > _MOST_ANNOTATED:
        del annotations[LAST_APPLIED]
    metadata["annotations"] = annotations
