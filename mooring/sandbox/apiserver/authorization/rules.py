"""What the rules of roles allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Final, NamedTuple

import msgspec

from mooring.api.meta import Value

ALL = "*"


class Attributes(NamedTuple):
    """What a user is about to do: a verb on a resource ("pods/log"), or on a path."""

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

    def allows(self, attributes: Attributes) -> bool:
        if not (attributes.verb in self.verbs or ALL in self.verbs):
            return False
        if attributes.path:
            return any(_matches_path(pattern, attributes.path) for pattern in self.non_resource_urls)
        return (
            (attributes.group in self.api_groups or ALL in self.api_groups)
            and self._names(attributes.resource)
            and (not self.resource_names or attributes.name in self.resource_names)
        )

    def _names(self, resource: str) -> bool:
        if resource in self.resources or ALL in self.resources:
            return True
        part = resource.partition("/")[2]
        return bool(part) and f"*/{part}" in self.resources

    def halves(self) -> Iterator[Rule]:
        """Yield the part about resources and the part about paths, as far as each allows anything.

        Where all names are allowed, the first has the name "".
        """
        if self.verbs and self.api_groups and self.resources:
            yield Rule(self.verbs, self.api_groups, self.resources, self.resource_names or [""])
        if self.verbs and self.non_resource_urls:
            yield Rule(self.verbs, non_resource_urls=self.non_resource_urls)

    def minus(self, held: Rule) -> Iterator[Rule]:
        """Yield what one of the `halves` of a rule allows and `held` does not.

        A rule stands for the product of its lists, so what is left is at most one rule per list: the verbs
        that `held` lacks, then of the other verbs the groups it lacks, and so on. The product, which may be
        huge, is never written out.
        """
        rest = self
        covered_by = _covered_paths if self.non_resource_urls else _covered_names
        for field, covers in covered_by(held).items():
            values: list[str] = getattr(rest, field)
            covered = [value for value in values if covers(value)]
            if len(covered) < len(values):
                lacking = [value for value in values if not covers(value)]
                yield msgspec.structs.replace(rest, **{field: lacking})
            if not covered:
                return
            rest = msgspec.structs.replace(rest, **{field: covered})

    def cells(self) -> Iterator[Rule]:
        """Yield one of the `halves` as rules that are about one resource and name, or one path and verb."""
        for path, verb in product(self.non_resource_urls, self.verbs):
            yield Rule([verb], non_resource_urls=[path])
        for group, resource, name in product(self.api_groups, self.resources, self.resource_names):
            yield Rule(self.verbs, [group], [resource], [name] if name else [])


class Rules:
    """The rules of a role, indexed by what they name: there may be tens of thousands."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules
        self._by_resource: dict[str, list[Rule]] = {}
        self._about_paths = [rule for rule in rules if rule.non_resource_urls]
        for rule in rules:
            for resource in rule.resources:
                self._by_resource.setdefault(resource, []).append(rule)

    def allow(self, attributes: Attributes) -> bool:
        if attributes.path:
            return any(rule.allows(attributes) for rule in self._about_paths)
        part = attributes.resource.partition("/")[2]
        names = (attributes.resource, ALL, f"*/{part}") if part else (attributes.resource, ALL)
        return any(rule.allows(attributes) for name in names for rule in self._by_resource.get(name, ()))


Covers = Callable[[str], bool]


def _covered_names(held: Rule) -> dict[str, Covers]:
    """Return which verbs, groups, resources and names a rule covers, by the field that lists them."""
    return {
        "verbs": _members(held.verbs),
        "api_groups": _members(held.api_groups),
        "resources": _covered_resources(held.resources),
        "resource_names": frozenset(held.resource_names).__contains__ if held.resource_names else _anything,
    }


def _covered_paths(held: Rule) -> dict[str, Covers]:
    exact = frozenset(held.non_resource_urls)
    prefixes = tuple(pattern[:-1] for pattern in exact if pattern.endswith("*"))
    return {
        "verbs": _members(held.verbs),
        "non_resource_urls": lambda path: path in exact or path.startswith(prefixes),
    }


def _members(values: list[str]) -> Covers:
    return _anything if ALL in values else frozenset(values).__contains__


def _covered_resources(resources: list[str]) -> Covers:
    if ALL in resources:
        return _anything
    exact = frozenset(resources)
    parts = {resource.removeprefix("*/") for resource in resources if resource.startswith("*/")}
    return lambda resource: resource in exact or resource.partition("/")[2] in parts


def _anything(value: str) -> bool:
    return True


EVERYTHING: Final = (Rule([ALL], [ALL], [ALL]), Rule([ALL], non_resource_urls=[ALL]))


def _matches_path(pattern: str, path: str) -> bool:
    if pattern in (ALL, path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))
