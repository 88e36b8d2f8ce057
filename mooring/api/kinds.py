"""Kinds as API servers serve them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from mooring.api.meta import KubeObject

Obj = TypeVar("Obj", bound=KubeObject)
Keep = Callable[[KubeObject, bytes], None]


class ApiResource(msgspec.Struct, Generic[Obj], frozen=True):
    """A kind as an API server serves it; `model` is the struct its objects are read into.

    `keep` receives the JSON of every listed or watched object, of which the struct holds a part.
    """

    group: str
    version: str
    plural: str
    namespaced: bool
    model: type[Obj]
    keep: Keep | None = None

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """As RBAC and error messages write it: "pods", "leases.coordination.k8s.io"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of all objects, of a namespace's, of one, or of a part of one."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return root + scope + "/" + "/".join(filter(None, (self.plural, name, subresource)))
