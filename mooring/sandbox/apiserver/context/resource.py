"""A resource: everything that the rest of the server needs to know about one kind in one version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """A part of an object with a path of its own; `kind` is what its bodies and answers are."""

    name: str
    kind: GroupVersionKind
    verbs: tuple[str, ...]
    codec: Codec


class Conversion(NamedTuple):
    """Between a version and the one that is stored. Both change the tree's members in place, not its kind."""

    to_storage: Callable[[Tree], None]
    from_storage: Callable[[Tree], None]


class Resource:
    """One kind in one version. Several versions of a kind share `storage`, the table they live in, and may
    have a conversion to the stored version."""

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
        """Other names of selectable fields."""
        self.type = type
        self.custom = custom
        self.printer = printer
        """Makes the rows of tables."""
        self.schema = schema
        """The OpenAPI v3 schema of a custom kind; those of built-in ones follow from their types."""
        self.deprecation = deprecation
        """What clients of a custom kind in this version are warned of."""
        self.opening = encode_json({"kind": self.kind, "apiVersion": self.api_version})[:-1] + b","
        """What stands before the members of a stored object to make it one of this kind."""

    def __repr__(self) -> str:
        return f"Resource({self.plural}, {self.api_version})"


class Registry:
    """The resources that are served. They may come and go while the server runs; `generation` counts that."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.generation = 0
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a resource, in the place of a former one of its name."""
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
        """Whether there is anything under a group and version."""
        return any(key[:2] == (group, version) for key in self._by_path)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_path.values())
