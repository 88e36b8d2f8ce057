"""Roles that are made of others: an aggregated ClusterRole has the rules of all that its selectors match."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject, LabelSelector, Value
from mooring.api.selectors import compile_selector
from mooring.client.controller import Context, Controller

Rule = dict[str, Any]
_TURN = 1000  # rules that are looked at before others on the event loop have their turn
_encode = msgspec.json.Encoder(order="deterministic").encode


class AggregationRule(Value, frozen=True):
    cluster_role_selectors: list[LabelSelector] = []


class ClusterRole(KubeObject):
    aggregation_rule: AggregationRule | None = None
    rules: list[Rule] | None = None


CLUSTER_ROLES = ApiResource("rbac.authorization.k8s.io", "v1", "clusterroles", False, ClusterRole)


class RoleAggregation(Controller):
    name = "clusterrole-aggregation-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._aggregated: set[str] = set()
        self._encoded: dict[str, dict[bytes, Rule]] = {}  # the rules of a role by what they say
        self._roles = self.cache.follow(CLUSTER_ROLES)
        self._roles.subscribe(self._changed)

    def _changed(self, old: ClusterRole | None, new: ClusterRole | None) -> None:
        if new is not None and new.aggregation_rule is not None:
            self._aggregated.add(new.name)
        elif old is not None:
            self._aggregated.discard(old.name)
        if old is not None:
            self._encoded.pop(old.name, None)
        for name in self._aggregated:
            self.enqueue(name)

    async def sync(self, key: str) -> None:
        role = self._roles.get(key)
        if role is None or role.aggregation_rule is None:
            return
        merged: dict[bytes, Rule] = {}
        count, roles = 0, sorted(self._roles, key=lambda one: one.name)
        for selector in map(compile_selector, role.aggregation_rule.cluster_role_selectors):
            for other in roles:
                if other.name != key and selector.matches(other.metadata.labels):
                    encoded = self._encode(other)
                    merged.update(encoded)  # those that are there keep their places
                    count += len(encoded)
            count += len(roles)
            if count > _TURN:
                count = 0
                await asyncio.sleep(0)
        rules = list(merged.values())
        if rules != (role.rules or []):
            seen = {"uid": role.uid, "resourceVersion": role.metadata.resource_version}
            patch = {"metadata": seen, "rules": rules}
            self._roles.wrote(await self.cluster.patch(CLUSTER_ROLES, key, patch))

    def _encode(self, role: ClusterRole) -> dict[bytes, Rule]:
        encoded = self._encoded.get(role.name)
        if encoded is None:
            encoded = self._encoded[role.name] = {_encode(rule): rule for rule in role.rules or ()}
        return encoded
