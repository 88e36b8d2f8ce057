"""The versions of groups that other API servers serve."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.discovery import GROUP_PRIORITIES, RemoteVersion
from mooring.sandbox.apiserver.objects import Tree, decode_record
from mooring.sandbox.apiserver.store.record import Event, Record

API_SERVICES: Final = "apiservices.apiregistration.k8s.io"


class Remote:
    """A version of a group behind an APIService, and what is known of it: which resources it has, and where
    its OpenAPI document is."""

    def __init__(self, name: str, spec: Tree) -> None:
        self.name = name
        self.spec = spec
        self.group: str = spec["group"]
        self.version: str = spec["version"]
        self.is_available = False
        self.resources: Sequence[Tree] = ()
        self.openapi: Tree | None = None
        """Its entry in the index of OpenAPI documents."""

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}"

    @property
    def service(self) -> tuple[str, str, int]:
        """The namespace, name and port of its Service."""
        service = self.spec["service"]
        return service["namespace"], service["name"], service.get("port", 443)

    @property
    def server_name(self) -> str:
        """The name that its certificate must have."""
        namespace, name, _ = self.service
        return f"{name}.{namespace}.svc"


class Remotes:
    """Follows the APIServices, see `discovery.Remotes`. Groups of this server cannot be taken over. `changed`
    is set when availability may be another."""

    def __init__(self, api: Api) -> None:
        self.generation = 0
        self.changed = asyncio.Event()
        self._by_path: dict[str, Remote] = {}
        services = api.store.table(API_SERVICES)
        for record in services.records.values():
            self._register(record)
        services.listeners.append(self._follow)
        for storage in ("services", "endpoints"):
            api.store.table(storage).listeners.append(self._follow_service)

    def find(self, path: str) -> Remote | None:
        """Return what serves a path of the API, None if this server does."""
        return self._by_path.get("/".join(path.split("/", 4)[:4])) if self._by_path else None

    def all(self) -> list[Remote]:
        return list(self._by_path.values())

    def __iter__(self) -> Iterator[RemoteVersion]:
        for one in self.all():
            resources = one.resources if one.is_available else None
            yield RemoteVersion(
                one.group,
                one.version,
                one.spec["groupPriorityMinimum"],
                one.spec["versionPriority"],
                resources,
            )

    def learn(
        self,
        remote: Remote,
        *,
        is_available: bool,
        resources: Sequence[Tree] = (),
        openapi: Tree | None = None,
    ) -> None:
        """Keep what a check has found."""
        if (remote.is_available, remote.resources, remote.openapi) != (is_available, resources, openapi):
            remote.is_available, remote.resources, remote.openapi = is_available, resources, openapi
            self.generation += 1

    def _follow(self, event: Event) -> None:
        version, _, group = event.record.name.partition(".")
        if event.type == "DELETED":
            self.generation += self._by_path.pop(f"/apis/{group}/{version}", None) is not None
        else:
            self._register(event.record)

    def _follow_service(self, event: Event) -> None:
        if any(one.service[:2] == (event.record.namespace, event.record.name) for one in self.all()):
            self.changed.set()

    def _register(self, record: Record) -> None:
        spec = decode_record(record, "", "")["spec"]
        path = f"/apis/{spec.get('group', '')}/{spec['version']}"
        known = self._by_path.get(path)
        if not spec.get("service") or spec.get("group", "") in GROUP_PRIORITIES:
            self.generation += self._by_path.pop(path, None) is not None
        elif known is None:
            self._by_path[path] = Remote(record.name, spec)
            self.generation += 1
            self.changed.set()
        elif known.spec != spec:  # what the last check has found counts until the next one
            known.spec = spec
            self.generation += 1
            self.changed.set()
