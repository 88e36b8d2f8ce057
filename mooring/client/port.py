"""The port: what Mooring asks of a cluster, whichever it is.

Adapters implement `Cluster`: a real API server over HTTP, and the embedded store in this process. Nothing
above the port knows which it has. Objects come back as the structs of `mooring.api`; bodies that are sent
are plain JSON-like trees or structs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from mooring.api.errors import ObjectError
from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject

Obj = TypeVar("Obj", bound=KubeObject)


class PatchType(StrEnum):
    """How a patch is to be understood; the values are the content types of HTTP."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Page(msgspec.Struct, Generic[Obj]):
    """A page of a list. Invalid objects are listed separately, so that they do not affect the others."""

    items: list[Obj]
    resource_version: str
    continue_token: str = ""
    malformed: list[ObjectError] = []


class Change(msgspec.Struct, Generic[Obj]):
    """One event of a watch. A BOOKMARK carries nothing but its resource version; `malformed` replaces an
    object that is invalid."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    resource_version: str
    object: Obj | None = None
    malformed: ObjectError | None = None


class ServedKind(NamedTuple):
    """A kind from discovery. Its resource decodes only metadata."""

    resource: ApiResource[KubeObject]
    kind: str
    verbs: frozenset[str]


class Cluster(Protocol):
    """A Kubernetes API. Every method raises ApiError, or Unreachable where there was no answer
    (see `mooring.client.api_errors`)."""

    async def list(
        self,
        resource: ApiResource[Obj],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[Obj]: ...

    def watch(
        self,
        resource: ApiResource[Obj],
        resource_version: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 0,
    ) -> AsyncIterator[Change[Obj]]:
        """Changes since a resource version, with bookmarks, until the server ends the watch.

        Raises ApiError with code 410 where the version is too old; ending the iteration ends the request.
        """
        ...

    async def get(
        self, resource: ApiResource[Obj], name: str, namespace: str = "", subresource: str = ""
    ) -> Obj: ...

    async def create(self, resource: ApiResource[Obj], body: Any, namespace: str = "") -> Obj:
        """Create an object; for reviews (TokenReview, SubjectAccessReview) the answer."""
        ...

    async def post(
        self, resource: ApiResource[Any], name: str, subresource: str, body: Any, namespace: str = ""
    ) -> None:
        """Create a subresource (binding, eviction), or without a name and a subresource an object (an event),
        and ignore the response body."""
        ...

    async def update(
        self, resource: ApiResource[Obj], name: str, body: Any, namespace: str = "", subresource: str = ""
    ) -> Obj: ...

    async def patch(
        self,
        resource: ApiResource[Obj],
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        kind: PatchType = PatchType.MERGE,
    ) -> Obj: ...

    async def delete(
        self,
        resource: ApiResource[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        """Delete an object; with `uid`, only that very one, with `resource_version`, only as it was then."""
        ...

    async def served_kinds(self) -> Sequence[ServedKind]:
        """What is served at present, each kind in the version that the server prefers."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Delivering(Protocol):
    """A port to a server in this process, which cannot fall silent."""

    async def deliver(
        self,
        resource: ApiResource[Obj],
        resource_version: str,
        listener: Callable[[Change[Obj]], None],
        field_selector: str = "",
    ) -> None:
        """Call a function with every change since a resource version, as soon as it is visible to watches,
        until this is cancelled or the server stops. Raises like `Cluster.watch`."""
        ...
