"""Which FlowSchema and priority level a request belongs to. Requests are classified, and none has to wait."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from math import ceil
from typing import Final, NamedTuple

from mooring.sandbox.apiserver.authorization.rules import ALL, Attributes, Rule
from mooring.sandbox.apiserver.authorization.users import ACCOUNT, User
from mooring.sandbox.apiserver.mirror import Mirror
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.store.store import Store

_GROUP: Final = "flowcontrol.apiserver.k8s.io"
_SEATS: Final = 600  # kube-apiserver's --max-requests-inflight and --max-mutating-requests-inflight
_SHARES: Final = 30  # of a level that does not say
_MOST: Final = 2_000  # results to remember


class Flow(NamedTuple):
    """The uids of the FlowSchema and the PriorityLevelConfiguration of a request."""

    schema: str
    level: str


class _Rules:
    """One rule of a FlowSchema. What it says about requests is read once a user is concerned."""

    def __init__(self, tree: Tree) -> None:
        subjects: list[Tree] = tree.get("subjects") or []
        accounts = (one["serviceAccount"] for one in subjects if one["kind"] == "ServiceAccount")
        self.users = frozenset(one["user"]["name"] for one in subjects if one["kind"] == "User")
        self.groups = frozenset(one["group"]["name"] for one in subjects if one["kind"] == "Group")
        self.accounts = frozenset(f"{one['namespace']}:{one['name']}" for one in accounts)
        self._tree = tree

    @cached_property
    def namespaces(self) -> list[tuple[Rule, bool, frozenset[str]]]:
        """Rules about resources: whether they are about cluster-scoped ones, and in which namespaces."""
        return [
            (
                Rule(one["verbs"], one["apiGroups"], one["resources"]),
                bool(one.get("clusterScope")),
                frozenset(one.get("namespaces") or ()),
            )
            for one in self._tree.get("resourceRules") or ()
        ]

    @cached_property
    def paths(self) -> list[Rule]:
        return [
            Rule(one["verbs"], non_resource_urls=one["nonResourceURLs"])
            for one in self._tree.get("nonResourceRules") or ()
        ]

    def match(self, user: User, attributes: Attributes) -> bool:
        return self._concern(user) and self._apply(attributes)

    def _concern(self, user: User) -> bool:
        if user.name in self.users or ALL in self.users or ALL in self.groups:
            return True
        if not self.groups.isdisjoint(user.groups):
            return True
        account = user.name.removeprefix(ACCOUNT)
        if not self.accounts or account == user.name:
            return False
        return not self.accounts.isdisjoint((account, f"{account.partition(':')[0]}:{ALL}"))

    def _apply(self, attributes: Attributes) -> bool:
        if attributes.path:
            return any(rule.allows(attributes) for rule in self.paths)
        namespace = attributes.namespace
        return any(
            (cluster if not namespace else namespace in namespaces or ALL in namespaces)
            and rule.allows(attributes)
            for rule, cluster, namespaces in self.namespaces
        )


class _Schema(NamedTuple):
    precedence: int
    name: str
    uid: str
    level: str
    rules: tuple[_Rules, ...]


class _Level(NamedTuple):
    uid: str
    shares: int


class Flows:
    """Classifies requests by the FlowSchemas in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._schemas = Mirror(f"flowschemas.{_GROUP}", _sort, _read_schema)
        self._levels = Mirror(f"prioritylevelconfigurations.{_GROUP}", _read_levels)
        self._recent: dict[tuple[User, Attributes], Flow | None] = {}
        self._source: tuple[object, object] = (None, None)  # that these were computed from

    def classify(self, user: User, attributes: Attributes) -> Flow | None:
        """Return the first that matches; None without any. Those that lack their level do not count."""
        schemas, levels = self._schemas.get(self._store), self._levels.get(self._store)
        if not schemas:
            return None
        if self._source[0] is not schemas or self._source[1] is not levels or len(self._recent) >= _MOST:
            self._source = schemas, levels
            self._recent.clear()
        key = user, attributes._replace(name="")  # by which no rule selects
        if key not in self._recent:
            self._recent[key] = self._find(schemas, levels, user, attributes)
        return self._recent[key]

    def _find(
        self, schemas: list[_Schema], levels: dict[str, _Level], user: User, attributes: Attributes
    ) -> Flow | None:
        for schema in schemas:
            level = levels.get(schema.level)
            if level is not None and any(rules.match(user, attributes) for rules in schema.rules):
                return Flow(schema.uid, level.uid)
        return None

    def seats(self) -> dict[str, int]:
        """Return how many requests at a time each priority level stands for, by its name."""
        levels = self._levels.get(self._store)
        total = sum(level.shares for level in levels.values()) or 1
        return {name: ceil(_SEATS * level.shares / total) for name, level in levels.items()}


def _read_levels(trees: Iterable[Tree]) -> dict[str, _Level]:
    return {tree["metadata"]["name"]: _read_level(tree["metadata"], tree["spec"]) for tree in trees}


def _read_level(metadata: Tree, spec: Tree) -> _Level:
    exempt = spec["type"] == "Exempt"
    shares = (spec.get("exempt" if exempt else "limited") or {}).get("nominalConcurrencyShares")
    return _Level(metadata["uid"], shares if shares is not None else 0 if exempt else _SHARES)


def _sort(schemas: Iterable[_Schema]) -> list[_Schema]:
    return sorted(schemas, key=lambda schema: (schema.precedence, schema.name))


def _read_schema(tree: Tree) -> _Schema:
    metadata, spec = tree["metadata"], tree["spec"]
    rules = tuple(_Rules(one) for one in spec.get("rules") or ())
    level = spec["priorityLevelConfiguration"]["name"]
    return _Schema(spec["matchingPrecedence"], metadata["name"], metadata["uid"], level, rules)
