"""Resources: everything that request handlers need to know about one kind in one version."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.kinds.codec import Codec
from mooring.sandbox.apiserver.kinds.types import ObjectType
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.printing.columns import DEFAULT, Printer


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Subresource(NamedTuple):
    """A part of an object with its own path; `kind` is the kind of its bodies and answers."""

    name: str
    kind: GroupVersionKind
    verbs: tuple[str, ...]
    codec: Codec


class Conversion:
    """Converts between a version and the stored one, in place and without changing the kind."""

    is_remote = False
    """Whether others convert. Then objects keep the version that they are stored in, and are converted as
    late as possible."""
    storage = ""
    """The stored version, if others convert."""

    def to_storage(self, tree: Tree) -> None:
        raise NotImplementedError

    def from_storage(self, tree: Tree) -> None:
        raise NotImplementedError

    def convert(self, trees: Sequence[Tree], target: str = "") -> list[Tree]:
        """Return stored objects in the version of the resource."""
        raise NotImplementedError


class LocalConversion(Conversion):
    """Conversion by two functions."""

    def __init__(self, to_storage: Callable[[Tree], None], from_storage: Callable[[Tree], None]) -> None:
        self._to_storage = to_storage
        self._from_storage = from_storage

    def to_storage(self, tree: Tree) -> None:
        self._to_storage(tree)

    def from_storage(self, tree: Tree) -> None:
        self._from_storage(tree)


class Resource:
    """One kind in one version. Versions of a kind share `storage`, the table they are stored in, and may have
    a conversion to the stored version."""

    def __init__(
        self,
        kind: GroupVersionKind,
        plural: str,
        *,
        namespaced: bool,
        verbs: Iterable[str],
        codec: Codec,
        strategy: Strategy,
        singular: str = "",
        list_kind: str = "",
        short_names: Iterable[str] = (),
        categories: Iterable[str] = (),
        subresources: Iterable[Subresource] = (),
        storage: str = "",
        conversion: Conversion | None = None,
        field_aliases: Mapping[str, str] | None = None,
        type: ObjectType | None = None,
        custom: bool = False,
        printer: Printer = DEFAULT,
        schema: Tree | None = None,
        deprecation: str | None = None,
    ) -> None:
        self.group, self.version, self.kind = kind
        self.gvk = kind
        self.api_version = kind.api_version
        self.plural = plural
        self.singular = singular or kind.kind.lower()
        self.list_kind = list_kind or kind.kind + "List"
        self.namespaced = namespaced
        self.verbs = tuple(sorted(verbs))
        self.short_names = tuple(short_names)
        self.categories = tuple(categories)
        self.subresources = {sub.name: sub for sub in sorted(subresources)}
        self.storage = storage or (f"{plural}.{kind.group}" if kind.group else plural)
        self.codec = codec
        self.strategy = strategy
        self.conversion = conversion
        self.field_aliases = field_aliases or {}
        """Alternative names of selectable fields."""
        self.type = type
        self.custom = custom
        self.printer = printer
        """Makes the rows of tables."""
        self.schema = schema
        """The OpenAPI v3 schema of a custom kind; schemas of built-in kinds are derived from their types."""
        self.deprecation = deprecation
        """The deprecation warning for clients of this version of a custom kind."""
        self.opening = encode_json({"kind": self.kind, "apiVersion": self.api_version})[:-1] + b","
        """The bytes that make a stored object one of this kind when put before its members."""

    @property
    def converts_remotely(self) -> bool:
        return self.conversion is not None and self.conversion.is_remote

    def converted(self) -> Resource:
        """Return this resource for objects that are converted already."""
        resource = copy.copy(self)
        resource.conversion = None
        return resource

    def __repr__(self) -> str:
        return f"Resource({self.plural}, {self.api_version})"


class Registry:
    """The resources that are served. They may change at runtime; `generation` counts the changes."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.generation = 0
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a resource, replacing one of the same name."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.api_version, resource.kind] = resource
        self.generation += 1

    def remove(self, resource: Resource) -> None:
        """Stop serving a resource."""
        del self._by_path[resource.group, resource.version, resource.plural]
        del self._by_kind[resource.api_version, resource.kind]
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        return self._by_kind.get((api_version, kind))

    def serves(self, group: str, version: str) -> bool:
        """Whether any resource of a group and version is served."""
        return any(key[:2] == (group, version) for key in list(self._by_path))

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._by_path.values()))  # threads may iterate while definitions come and go
