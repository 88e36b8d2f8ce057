"""ResourceQuota and its scopes."""

from __future__ import annotations

import msgspec

from mooring.api.meta import KubeObject, Struct, Value


class ScopeRequirement(Value, frozen=True):
    scope_name: str
    operator: str = "Exists"
    values: list[str] = []

    def matches(self, *names: str) -> bool:
        """Whether something that has one of these names, or none, is as asked."""
        if self.operator == "Exists":
            return bool(names)
        if self.operator == "DoesNotExist":
            return not names
        if self.operator == "In":
            return any(name in self.values for name in names)
        return not names or any(name not in self.values for name in names)


class ScopeSelector(Value, frozen=True):
    match_expressions: list[ScopeRequirement] = []


class ResourceQuotaSpec(Struct):
    hard: dict[str, str] = {}
    scopes: list[str] = []
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class ResourceQuota(KubeObject):
    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = msgspec.field(default_factory=ResourceQuotaStatus)

    @property
    def scopes(self) -> list[ScopeRequirement]:
        """All that an object has to be to count."""
        selector = self.spec.scope_selector
        more = selector.match_expressions if selector is not None else []
        return [*map(ScopeRequirement, dict.fromkeys(self.spec.scopes)), *more]
