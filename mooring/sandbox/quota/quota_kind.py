"""What one object of a kind uses up, of which resources; and which quotas look at it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from mooring.api.meta import KubeObject
from mooring.api.quotas import ScopeRequirement
from mooring.sandbox.quota.amounts import ONE

Obj = TypeVar("Obj", bound=KubeObject)

_OTHER_NAMES = {"configmaps", "replicationcontrollers", "resourcequotas", "secrets"}
"""Kinds that are also counted under their plain names, as they were before all kinds could be."""


class QuotaKind(Generic[Obj]):
    """Objects of one kind. `name` is "pods" or "deployments.apps"."""

    model: type[Obj]
    parts: frozenset[str] = frozenset()
    """Which writes to an object that is there may use more: by subresource, empty for the object itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = f"count/{name}"

    def restricted(self, names: Collection[str]) -> list[str]:
        """Those of the resources that such objects use."""
        return [name for name in names if self.uses(name)]

    def uses(self, resource: str) -> bool:
        return resource == self.count

    def usage(self, obj: Obj, now: float) -> dict[str, str]:
        """What an object uses at a time, in seconds since the epoch."""
        return {self.count: ONE}

    def in_scope(self, scope: ScopeRequirement, obj: Obj) -> bool:
        return False

    def missing(self, resources: Iterable[str], obj: Obj) -> str:
        """What an object has to say of these resources and does not; empty where nothing is missing."""
        return ""

    def may_need_more(self, old: Obj, new: Obj, subresource: str) -> bool:
        """Whether a write to one of its `parts` may use more of a quota."""
        return False

    def counts_anew(self, old: Obj, new: Obj, now: float) -> bool:
        """Whether a change of an object may have set something free, or put it under another quota."""
        return False


class Objects(QuotaKind[KubeObject]):
    """Objects of which nothing but their number counts."""

    model = KubeObject

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._names = (self.count, name) if name in _OTHER_NAMES else (self.count,)

    def restricted(self, names: Collection[str]) -> list[str]:
        return [name for name in self._names if name in names]

    def uses(self, resource: str) -> bool:
        return resource in self._names

    def usage(self, obj: Any, now: float) -> dict[str, str]:
        return dict.fromkeys(self._names, ONE)
