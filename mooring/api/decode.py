"""From JSON and YAML to objects.

`from_dict` decodes what an API server sends. `load_manifests` reads files that people write: it also does
what an API server would have done to them on the way (defaults, priorities, uids), and it goes on after a
bad object, so that all problems of a file are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from mooring.api.complaints import key_of, malformed, text_or_empty
from mooring.api.defaults import defaulted, identified, prioritised
from mooring.api.documents import DocumentError, read_objects
from mooring.api.errors import MalformedObject, ObjectError, UnknownKind, show
from mooring.api.kinds import (
    POD_GROUPS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    WATCHED,
    WORKLOADS,
    ApiResource,
)
from mooring.api.meta import KubeObject, Tree
from mooring.api.objects import Pod
from mooring.api.quantity import INT64_MAX, INT64_MIN
from mooring.api.validation import validate
from mooring.api.workloads import PriorityClass

__all__ = [
    "KINDS",
    "DocumentError",
    "Ignored",
    "MalformedObject",
    "Manifests",
    "ObjectError",
    "Problem",
    "UnknownKind",
    "from_dict",
    "is_known",
    "load_manifests",
    "load_sources",
    "load_trees",
    "read_trees",
    "strip_nulls",
    "validate",
]

_LARGEST = 10**600  # Python writes no more than 4,300 digits, and a quantity has fewer anyway
_READ: tuple[ApiResource[Any], ...] = (
    *WATCHED,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    POD_GROUPS,
    WORKLOADS,
)
KINDS = {resource.kind: resource for resource in _READ}
"""The kinds that the scheduler reads from manifests."""


def is_known(kind: str, api_version: str) -> bool:
    """Whether the scheduler reads this kind. A `Service` of another API group is another thing altogether."""
    return kind in KINDS and (not api_version or api_version.rpartition("/")[0] == KINDS[kind].group)


def is_namespaced(kind: str) -> bool:
    return kind in KINDS and KINDS[kind].namespaced


def from_dict(obj: dict[str, Any]) -> KubeObject:
    """Decode one object by its kind. Raises MalformedObject, or UnknownKind for what scheduling ignores."""
    kind, api_version = text_or_empty(obj.get("kind")), text_or_empty(obj.get("apiVersion"))
    if not is_known(kind, api_version):
        raise UnknownKind(kind, key_of(obj), api_version)
    stripped = strip_nulls(obj)
    try:
        return cast(KubeObject, msgspec.convert(stripped, KINDS[kind].model))
    except msgspec.ValidationError as error:
        raise malformed(kind, stripped, str(error)) from None


def with_namespace(tree: Tree) -> Tree:
    """The tree of a namespaced object with the namespace "default" if it has a name and no namespace."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name") or metadata.get("namespace"):
        return tree
    return {**tree, "metadata": {**metadata, "namespace": "default"}}


def strip_nulls(tree: Any) -> Any:
    """The tree without its nulls, which Kubernetes reads as absent fields.

    An integer of more than 64 bits becomes text: a quantity may be that large, no other field may.
    """
    if isinstance(tree, dict):
        return {name: strip_nulls(member) for name, member in tree.items() if member is not None}
    if isinstance(tree, list):
        return [strip_nulls(item) for item in tree if item is not None]
    if isinstance(tree, int) and not INT64_MIN <= tree <= INT64_MAX:
        return str(tree) if abs(tree) < _LARGEST else repr(float("inf"))
    return tree


# ---- manifests ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Why something in a source could not be used."""

    source: str
    error: ValueError

    def __str__(self) -> str:
        return f"{self.source}: {self.error}"


@dataclass(frozen=True)
class Ignored:
    """An object of a kind that the scheduler does not read."""

    source: str
    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.source}: {self.kind} {self.key}"


@dataclass
class Manifests:
    """What was found: usable objects, problems with others, and objects that scheduling has no use for."""

    objects: list[KubeObject] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)


def load_manifests(text: str, source: str) -> Manifests:
    """Read the objects of one manifest; `source` names it in problems."""
    return load_sources([(text, source)])


def load_sources(sources: Iterable[tuple[str, str]]) -> Manifests:
    """Read several (text, source) together, so that pods find the priority classes of other files."""
    return load_trees(read_trees(sources))


def read_trees(sources: Iterable[tuple[str, str]]) -> Iterator[tuple[Any, str]]:
    """The (tree, source) of each object; in the place of one that cannot be read is what is wrong with it."""
    for text, source in sources:
        for tree in read_objects(text):
            yield tree, source


def load_trees(trees: Iterable[tuple[Any, str]]) -> Manifests:
    """What `read_trees` read, decoded."""
    result = Manifests()
    sources: dict[tuple[str, str], tuple[KubeObject, str]] = {}
    for tree, source in trees:
        try:
            _collect(tree, source, sources)
        except UnknownKind as error:
            result.ignored.append(Ignored(source, error.kind, error.key))
        except ValueError as error:
            result.problems.append(Problem(source, error))
    classes = {obj.name: obj for obj, _ in sources.values() if isinstance(obj, PriorityClass)}
    for obj, source in sources.values():
        try:
            result.objects.append(prioritised(obj, classes) if isinstance(obj, Pod) else obj)
        except MalformedObject as error:
            result.problems.append(Problem(source, error))
    return result


def _collect(tree: Any, source: str, sources: dict[tuple[str, str], tuple[KubeObject, str]]) -> None:
    """Decode, check and default one object into `found`. Raises what is wrong with it."""
    if isinstance(tree, ValueError):
        raise tree
    if not isinstance(tree, dict) or not isinstance(tree.get("kind"), str):
        raise DocumentError(f"found {show(tree)}, expected an object with apiVersion and kind")
    obj = from_dict(with_namespace(tree) if is_namespaced(tree["kind"]) else tree)
    if obj.metadata.name:
        obj = identified(obj, namespaced=KINDS[obj.kind].namespaced)
    validate(obj)
    obj = defaulted(obj)
    other, where = sources.setdefault((obj.kind, obj.key), (obj, source))
    if other != obj:
        raise ObjectError(obj.kind, obj.key, f"defined twice with different content (first in {where})")
