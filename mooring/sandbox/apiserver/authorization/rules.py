"""What rules of roles allow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

import msgspec

from mooring.api.meta import Value

ALL = "*"


class Asked(NamedTuple):
    """What somebody wants to do: with objects of a resource ("pods/log"), or with a path."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Rule(Value, frozen=True):
    """A PolicyRule."""

    verbs: list[str] = []
    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    non_resource_urls: list[str] = msgspec.field(default_factory=list, name="nonResourceURLs")

    def allows(self, asked: Asked) -> bool:
        if not (asked.verb in self.verbs or ALL in self.verbs):
            return False
        if asked.path:
            return any(_matches_path(pattern, asked.path) for pattern in self.non_resource_urls)
        return (
            (asked.group in self.api_groups or ALL in self.api_groups)
            and self._names(asked.resource)
            and (not self.resource_names or asked.name in self.resource_names)
        )

    def _names(self, resource: str) -> bool:
        if resource in self.resources or ALL in self.resources:
            return True
        part = resource.partition("/")[2]
        return bool(part) and f"*/{part}" in self.resources

    def parts(self) -> Iterator[Rule]:
        """The rule as many that each allow one thing."""
        for group, resource, verb in product(self.api_groups, self.resources, self.verbs):
            for name in self.resource_names or [""]:
                yield Rule([verb], [group], [resource], [name] if name else [])
        for path, verb in product(self.non_resource_urls, self.verbs):
            yield Rule([verb], non_resource_urls=[path])

    def covers(self, part: Rule) -> bool:
        """Whether this allows all that a rule does which is one part."""
        if not (part.verbs[0] in self.verbs or ALL in self.verbs):
            return False
        if part.non_resource_urls:
            return any(_covers_path(pattern, part.non_resource_urls[0]) for pattern in self.non_resource_urls)
        return (
            bool(self.api_groups)
            and (part.api_groups[0] in self.api_groups or ALL in self.api_groups)
            and self._names(part.resources[0])
            and (not self.resource_names or set(part.resource_names or [""]) <= set(self.resource_names))
        )


EVERYTHING: Final = (Rule([ALL], [ALL], [ALL]), Rule([ALL], non_resource_urls=[ALL]))


def _matches_path(pattern: str, path: str) -> bool:
    if pattern in (ALL, path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def _covers_path(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))
