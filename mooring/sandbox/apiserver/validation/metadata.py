"""The metadata of objects of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mooring.sandbox.apiserver.errors import Cause, forbidden_value, invalid_value, required, too_long
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes, immutable, nonnegative, text
from mooring.sandbox.apiserver.validation.labels import labels, sound_labels
from mooring.sandbox.apiserver.validation.names import qualified_name

MOST_ANNOTATION_BYTES = 256 * 1024
_MOST_REPEATED = 10  # errors that show all owners; there may be tens of thousands
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_UNQUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"


def validate_metadata(
    metadata: Tree, rule: Callable[[str], Sequence[str]], *, any_finalizer: bool = False
) -> list[Cause]:
    """Validate the metadata of an object; `rule` is that for the names of its kind. With `any_finalizer`,
    finalizers need no domain."""
    get = metadata.get
    if not (
        get("generateName")
        or get("annotations")
        or get("finalizers")
        or get("ownerReferences")
        or not get("name")
        or rule(get("name", ""))
        or not sound_labels(get("labels"))
    ):  # just a name and labels: most objects by far
        return []
    return [*_names(metadata, rule), *_rest(metadata, any_finalizer)]


def _names(metadata: Tree, rule: Callable[[str], Sequence[str]]) -> Causes:
    prefix, name = metadata.get("generateName", ""), metadata.get("name", "")
    if prefix:  # a suffix follows the dash
        for problem in rule(prefix[:-1] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix):
            yield invalid_value("metadata.generateName", prefix, problem)
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from text("metadata.name", name, rule)


def _rest(metadata: Tree, any_finalizer: bool) -> Causes:
    yield from nonnegative("metadata.generation", metadata.get("generation"))
    yield from labels("metadata.labels", metadata.get("labels"))
    yield from validate_annotations("metadata.annotations", metadata.get("annotations"))
    yield from _owners("metadata.ownerReferences", metadata.get("ownerReferences") or ())
    yield from _finalizers("metadata.finalizers", metadata.get("finalizers") or [], any_finalizer)


def validate_annotations(path: str, annotations: Tree | None) -> Causes:
    if not annotations:
        return
    for key in annotations:
        for problem in qualified_name(key.lower()):  # case does not matter
            yield invalid_value(path, key, problem)
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        > MOST_ANNOTATION_BYTES
    ):
        yield too_long(path, MOST_ANNOTATION_BYTES)


def _owners(path: str, owners: Sequence[Tree]) -> Causes:
    controller, repeated = "", 0
    for owner in owners:
        version = owner.get("apiVersion", "")
        if not version.rpartition("/")[2]:
            yield invalid_value(f"{path}.apiVersion", version, "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield invalid_value(f"{path}.{name}", "", "must not be empty")
        if (version, owner.get("kind")) == ("v1", "Event"):
            yield invalid_value(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            this = f"{owner.get('kind')}/{owner.get('name')}"
            if controller and repeated < _MOST_REPEATED:
                repeated += 1
                why = f'Found "true" in references for {controller} and {this}'
                why = f"Only one reference can have Controller set to true. {why}"
                yield invalid_value(path, list(owners), why)
            controller = controller or this


def _finalizers(path: str, finalizers: list[str], any_finalizer: bool) -> Causes:
    for name in finalizers:
        yield from text(path, name, qualified_name)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        yield invalid_value(path, finalizers, why)
    for index, name in enumerate(finalizers):
        if not (any_finalizer or "/" in name or name in _STANDARD_FINALIZERS):
            yield invalid_value(f"{path}[{index}]", name, _UNQUALIFIED)


def validate_metadata_update(metadata: Tree, old: Tree, *, any_finalizer: bool = False) -> Causes:
    """Validate the metadata after an update, and what the update may not change."""
    if metadata == old:  # it was valid before
        return
    if "deletionTimestamp" in old:
        added = sorted({*(metadata.get("finalizers") or ())}.difference(old.get("finalizers") or ()))
        if added:
            listed = "[]string{" + ", ".join(f'"{name}"' for name in added) + "}"
            why = "no new finalizers can be added if the object is being deleted, found new finalizers "
            yield forbidden_value("metadata.finalizers", why + listed)
    for name in ("name", "namespace", "uid"):
        yield from immutable(f"metadata.{name}", metadata.get(name, ""), old.get(name, ""))
    yield from _rest(metadata, any_finalizer)


def finalizer(path: str, name: str) -> Causes:
    """Validate a finalizer in the spec of a namespace."""
    yield from text(path, name, qualified_name)
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        yield invalid_value(path, name, _UNQUALIFIED)
