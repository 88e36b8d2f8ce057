"""Whether the servers behind APIServices can be used, and what they serve: the condition `Available`."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

import msgspec

from mooring.sandbox.apiserver.aggregation.remotes import API_SERVICES, Remote, Remotes
from mooring.sandbox.apiserver.aggregation.upstream import Identity, Question, UpstreamError, ask
from mooring.sandbox.apiserver.authorization.users import MASTERS, User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.objects import Tree, encode_tail
from mooring.sandbox.apiserver.store.record import key_of

PERIOD: Final = 30.0
"""Seconds after which a server is checked again, or earlier if something has changed."""
_RETRY: Final = 5.0
_DELAY: Final = 0.2  # several changes are checked together
_TIMEOUT: Final = 5.0
_USER: Final = User("system:kube-aggregator", (MASTERS,))
_PASSED: Final = ("True", "Passed", "all checks passed")


class _Finding(NamedTuple):
    status: str
    reason: str
    message: str


class _Resource(msgspec.Struct, rename="camel"):
    """An entry of an APIResourceList."""

    name: str
    kind: str
    verbs: list[str]
    namespaced: bool = False
    singular_name: str = ""
    group: str = ""
    version: str = ""
    short_names: list[str] = []
    categories: list[str] = []


class _CheckError(Exception):
    """A server cannot be used; `args` are the reason and the message of its condition."""


class Availability:
    """Checks the servers again and again."""

    def __init__(self, api: Api, remotes: Remotes, identity: Identity | None = None) -> None:
        self._api = api
        self._remotes = remotes
        self._identity = identity

    async def run(self) -> None:
        while True:
            self._remotes.changed.clear()
            passed = await asyncio.gather(*(self.check(one) for one in self._remotes.all()))
            period = PERIOD if all(passed) else _RETRY
            try:
                async with asyncio.timeout(period if passed else None):
                    await self._remotes.changed.wait()
                await asyncio.sleep(_DELAY)
            except TimeoutError:
                pass

    async def check(self, remote: Remote) -> bool:
        """Check a server, and write what was found to the status of its APIService; return whether it is
        available."""
        resources, openapi = list[Tree](), None
        try:
            self._check_service(remote)
            resources = self._read_resources(remote, await self._get(remote, remote.path))
            openapi = await self._find_openapi(remote)
            finding = _Finding(*_PASSED)
        except _CheckError as error:
            finding = _Finding("False", *error.args)
        is_available = finding.status == "True"
        self._remotes.learn(remote, is_available=is_available, resources=resources, openapi=openapi)
        self._write(remote, finding)
        return is_available

    def _check_service(self, remote: Remote) -> None:
        namespace, name, port = remote.service
        where = f'service/{name} in "{namespace}"'
        service = self._api.read("services", name, namespace)
        if service is None:
            raise _CheckError("ServiceNotFound", f"{where} is not present")
        if service["spec"].get("type") != "ClusterIP":
            return
        served = next((one for one in service["spec"].get("ports") or () if one["port"] == port), None)
        if served is None:
            raise _CheckError("ServicePortError", f"{where} is not listening on port {port}")
        endpoints = self._api.read("endpoints", name, namespace)
        if endpoints is None:
            raise _CheckError("EndpointsNotFound", f"cannot find endpointslices for {where}")
        port_name = served.get("name", "")
        subsets = (one for one in endpoints.get("subsets") or () if one.get("addresses"))
        ports = (one for subset in subsets for one in subset.get("ports") or ())
        if not any(one.get("name", "") == port_name for one in ports):
            why = f'endpointslices for {where} have no addresses with port name "{port_name}"'
            raise _CheckError("MissingEndpoints", why)

    def _read_resources(self, remote: Remote, document: Tree) -> list[Tree]:
        """Return the resources of a server. This server's discovery shows them, so they must be well-formed.
        Raises _CheckError."""
        try:
            entries = msgspec.convert(document.get("resources") or [], list[_Resource])
        except msgspec.ValidationError as error:
            why = f"invalid APIResourceList from https://{remote.server_name}{remote.path}: {error}"
            raise _CheckError("FailedDiscoveryCheck", why) from None
        return [msgspec.to_builtins(one) for one in entries]

    async def _get(self, remote: Remote, path: str) -> Tree:
        """Return a document of a server. Raises _CheckError."""
        url = f"https://{remote.server_name}:{remote.service[2]}{path}"
        question = Question("GET", path, [(b"accept", b"application/json")])
        try:
            async with asyncio.timeout(_TIMEOUT):
                answer = await ask(self._api, remote, question, _USER, self._identity)
                body = await answer.read()
        except TimeoutError:
            raise _CheckError("FailedDiscoveryCheck", f"timed out waiting for {url}") from None
        except (UpstreamError, OSError, ValueError) as error:
            why = f'failing or missing response from {url}: Get "{url}": {error}'
            raise _CheckError("FailedDiscoveryCheck", why) from None
        if not 200 <= answer.status < 300:
            bad = f"bad status from {url}: {answer.status}"
            raise _CheckError("FailedDiscoveryCheck", f"failing or missing response from {url}: {bad}")
        try:
            tree: Any = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            tree = None
        return tree if isinstance(tree, dict) else {}

    async def _find_openapi(self, remote: Remote) -> Tree | None:
        """Return the entry of the version in the index of the server's OpenAPI documents, if there is one."""
        try:
            paths = (await self._get(remote, "/openapi/v3")).get("paths")
        except _CheckError:
            return None
        entry = paths.get(remote.path[1:]) if isinstance(paths, dict) else None
        is_valid = isinstance(entry, dict) and isinstance(entry.get("serverRelativeURL"), str)
        return entry if is_valid else None

    def _write(self, remote: Remote, finding: _Finding) -> None:
        obj = self._api.read(API_SERVICES, remote.name)
        if obj is None or obj["spec"] != remote.spec:
            return
        status = obj.setdefault("status", {})
        conditions = status.setdefault("conditions", [])
        before = next((one for one in conditions if one["type"] == "Available"), None)
        condition = {"type": "Available", **finding._asdict(), "lastTransitionTime": self._api.now()}
        if before is None:
            conditions.append(condition)
        else:
            if before["status"] == finding.status:
                condition["lastTransitionTime"] = before.get("lastTransitionTime")
            if before == condition:
                return
            before.update(condition)
        table = self._api.store.table(API_SERVICES)
        record = table.records[key_of("", remote.name)]
        table.put(record.key, encode_tail(obj), record.labels, record.fields)
