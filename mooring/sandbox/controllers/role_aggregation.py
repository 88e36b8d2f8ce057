"""Roles that are made of others: an aggregated ClusterRole has the rules of all that its selectors match."""

from __future__ import annotations

from typing import Any

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject, LabelSelector, Value
from mooring.api.selectors import compile_selector
from mooring.client.controller import Context, Controller


class AggregationRule(Value, frozen=True):
    cluster_role_selectors: list[LabelSelector] = []


class ClusterRole(KubeObject):
    aggregation_rule: AggregationRule | None = None
    rules: list[dict[str, Any]] | None = None


CLUSTER_ROLES = ApiResource("rbac.authorization.k8s.io", "v1", "clusterroles", False, ClusterRole)


class RoleAggregation(Controller):
    name = "clusterrole-aggregation-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._aggregated: set[str] = set()
        self._roles = self.cache.follow(CLUSTER_ROLES)
        self._roles.subscribe(self._changed)

    def _changed(self, old: ClusterRole | None, new: ClusterRole | None) -> None:
        if new is not None and new.aggregation_rule is not None:
            self._aggregated.add(new.name)
        elif old is not None:
            self._aggregated.discard(old.name)
        for name in self._aggregated:
            self.enqueue(name)

    async def sync(self, key: str) -> None:
        role = self._roles.get(key)
        if role is None or role.aggregation_rule is None:
            return
        rules: list[dict[str, Any]] = []
        for selector in map(compile_selector, role.aggregation_rule.cluster_role_selectors):
            for other in sorted(self._roles, key=lambda one: one.name):
                if other.name != key and selector.matches(other.metadata.labels):
                    rules += [rule for rule in other.rules or () if rule not in rules]
        if rules != (role.rules or []):
            seen = {"uid": role.uid, "resourceVersion": role.metadata.resource_version}
            patch = {"metadata": seen, "rules": rules}
            self._roles.wrote(await self.cluster.patch(CLUSTER_ROLES, key, patch))
