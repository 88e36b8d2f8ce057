"""The port of `mooring.client` to the embedded API server: the same requests, without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.errors import MalformedObject
from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.client.decoding import Reader, reader_of
from mooring.client.port import Change, Page, PatchType, ServedKind
from mooring.sandbox.apiserver.answering import answer_request
from mooring.sandbox.apiserver.authorization.users import IN_PROCESS, User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.drafting import has_threads
from mooring.sandbox.apiserver.context.options import WriteOptions
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.discovery import version_priority
from mooring.sandbox.apiserver.errors import bad_request, internal, no_such_resource
from mooring.sandbox.apiserver.fields.managers import manager_name
from mooring.sandbox.apiserver.http.negotiation import PLAIN
from mooring.sandbox.apiserver.kinds.codec import FieldValidation
from mooring.sandbox.apiserver.objects import encode_json
from mooring.sandbox.apiserver.store.record import EventType, Record
from mooring.sandbox.apiserver.store.store import StoreFailedError
from mooring.sandbox.apiserver.verbs.options import Params
from mooring.sandbox.apiserver.verbs.request import (
    Answer,
    ListAnswer,
    ObjectAnswer,
    Request,
    TreeAnswer,
    WatchAnswer,
)

Obj = TypeVar("Obj", bound=KubeObject)

_NO_PARAMS: Final[Params] = {}
_MERGES: Final = (PatchType.MERGE, PatchType.STRATEGIC)
_APPLY: Final = PatchType.APPLY  # access to enum members is slow
_CONTENT_TYPES: Final[dict[PatchType | None, str]] = {None: "", **{kind: kind.value for kind in PatchType}}
_MOST_READ: Final = 2048  # objects in one generation
_MOST_BYTES: Final = 16 << 20  # of their JSON


class _Recent:
    """A cache of two generations: the older one is dropped as a whole, so that nothing is searched."""

    __slots__ = ("_before", "_now", "_size")

    def __init__(self) -> None:
        self._now: dict[object, Any] = {}
        self._before: dict[object, Any] = {}
        self._size = 0  # of what is in `_now`

    def get(self, key: object) -> Any:
        value = self._now.get(key)
        return self._before.get(key) if value is None else value

    def put(self, key: object, value: object, size: int) -> None:
        if len(self._now) >= _MOST_READ or self._size > _MOST_BYTES:
            self._before, self._now, self._size = self._now, {}, 0
        self._now[key] = value
        self._size += size


class EmbeddedCluster:
    """Implements `mooring.client.port.Cluster`, and `Delivering`.

    Writes are recorded in managedFields like those over HTTP; `tracked=False` saves that cost for clients
    that write a lot. Fields that other managers own stay theirs. `strict` rejects unknown fields.
    """

    def __init__(
        self,
        api: Api,
        user: User = IN_PROCESS,
        user_agent: str = "mooring",
        *,
        tracked: bool = True,
        strict: bool = False,
    ) -> None:
        self._api = api
        self._user = user
        self._user_agent = user_agent
        self._tracked = tracked
        self._options = WriteOptions(
            # Warnings are not read here.
            field_validation=FieldValidation.STRICT if strict else FieldValidation.IGNORE,
            field_manager=manager_name(user_agent),
        )
        self._read = _Recent()
        """Recently read objects, from the answers to writes or from watches, by their record: watches with
        selectors see other content at the same version."""

    def for_writer(self, user_agent: str) -> EmbeddedCluster:
        """Return the same port for another writer; both share their cache."""
        other = EmbeddedCluster(self._api, self._user, user_agent, tracked=self._tracked)
        other._read = self._read
        return other

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
    ) -> Page[Obj]:
        params = _params(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit or ""),
            resourceVersion=resource_version,
            **{"continue": continue_token},
        )
        answer = await self._ask("list", resource, namespace, "", params)
        assert isinstance(answer, ListAnswer)
        listing = answer.listing
        page: Page[Obj] = Page([], str(listing.version), listing.continue_token, [])
        reader = reader_of(resource.model)
        for record in listing.records:
            try:
                page.items.append(reader.kept(PLAIN.single(answer.resource, record), resource.keep))
            except MalformedObject as error:
                page.malformed.append(error)
        return page

    async def watch(
        self,
        resource: ApiResource[Obj],
        resource_version: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 0,
    ) -> AsyncIterator[Change[Obj]]:
        params = _params(
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=str(timeout_seconds or ""),
            allowWatchBookmarks="true",
        )
        answer = await self._ask("watch", resource, namespace, "", params)
        assert isinstance(answer, WatchAnswer)
        async for batch in answer.watching.batches():
            for type, record in batch.changes:
                yield self._change(resource, answer.resource, type, record)
            if batch.bookmark:
                yield Change("BOOKMARK", str(batch.bookmark))

    async def deliver(
        self,
        resource: ApiResource[Obj],
        resource_version: str,
        listener: Callable[[Change[Obj]], None],
        field_selector: str = "",
    ) -> None:
        params = _params(resourceVersion=resource_version, fieldSelector=field_selector)
        answer = await self._ask("watch", resource, "", "", params)
        assert isinstance(answer, WatchAnswer)
        served = answer.resource
        await answer.watching.deliver(
            lambda type, record: listener(self._change(resource, served, type, record))
        )

    def _change(
        self, resource: ApiResource[Obj], served: Resource, type: EventType, record: Record
    ) -> Change[Obj]:
        version = str(record.version)
        try:
            if resource.keep is None:
                obj = self._shared(resource, served, record)
            else:
                obj = reader_of(resource.model).kept(PLAIN.single(served, record), resource.keep)
        except MalformedObject as error:
            return Change(type, version, malformed=error)
        return Change(type, version, obj)

    async def get(
        self, resource: ApiResource[Obj], name: str, namespace: str = "", subresource: str = ""
    ) -> Obj:
        answer = await self._ask("get", resource, namespace, name, subresource=subresource)
        return self._object(resource, answer)

    async def create(self, resource: ApiResource[Obj], body: Any, namespace: str = "") -> Obj:
        answer = await self._ask("create", resource, namespace, "", body=body)
        return self._remembered(resource, answer)

    async def post(
        self, resource: ApiResource[Any], name: str, subresource: str, body: Any, namespace: str = ""
    ) -> None:
        await self._ask("create", resource, namespace, name, body=body, subresource=subresource)

    async def update(
        self, resource: ApiResource[Obj], name: str, body: Any, namespace: str = "", subresource: str = ""
    ) -> Obj:
        answer = await self._ask("update", resource, namespace, name, body=body, subresource=subresource)
        return self._remembered(resource, answer)

    async def patch(
        self,
        resource: ApiResource[Obj],
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        kind: PatchType = PatchType.MERGE,
    ) -> Obj:
        answer = await self._ask(
            "patch", resource, namespace, name, body=patch, subresource=subresource, patch_type=kind
        )
        return self._remembered(resource, answer)

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
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        conditions = {"uid": uid, "resourceVersion": resource_version}
        if uid or resource_version:
            options["preconditions"] = {name: value for name, value in conditions.items() if value}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy:
            options["propagationPolicy"] = propagation_policy
        await self._ask("delete", resource, namespace, name, body=options)

    async def served_kinds(self) -> Sequence[ServedKind]:
        preferred: dict[tuple[str, str], Resource] = {}
        for one in self._api.registry:
            best = preferred.get((one.group, one.plural))
            if best is None or version_priority(best.version) < version_priority(one.version):
                preferred[one.group, one.plural] = one
        return [
            ServedKind(
                ApiResource(one.group, one.version, one.plural, one.namespaced, KubeObject),
                one.kind,
                frozenset(one.verbs),
            )
            for one in preferred.values()
        ]

    async def close(self) -> None:
        """Nothing to close: the server owns the store."""

    async def _ask(
        self,
        verb: str,
        resource: ApiResource[Any],
        namespace: str,
        name: str,
        params: Params = _NO_PARAMS,
        body: Any = None,
        subresource: str = "",
        patch_type: PatchType | None = None,
    ) -> Answer:
        served, options, patch = self._served(resource), self._options, None
        part = None
        if subresource:
            part = served.subresources.get(subresource)
            if part is None:
                raise no_such_resource()
        if patch_type in _MERGES:
            # a copy, since the caller may change its own
            patch, body = msgspec.to_builtins(body), None
        elif patch_type is _APPLY:
            options = msgspec.structs.replace(options, force=True)
        try:
            answer = await answer_request(
                Request(
                    self._api,
                    verb,
                    served,
                    namespace if served.namespaced else "",
                    name,
                    self._user,
                    part,
                    params,
                    b"" if body is None else encode_json(body),
                    _CONTENT_TYPES[patch_type],
                    self._user_agent,
                    self._tracked,
                    options,
                    patch,
                )
            )
        except UnicodeEncodeError as error:  # of the caller: bodies that clients send are valid
            raise bad_request(f"the body cannot be encoded: {error}") from None
        store = self._api.store
        try:
            await store.settled()
        except StoreFailedError as error:
            raise internal(str(error)) from error
        if store.is_turn_over() and has_threads():  # a controller may write thousands of objects in a row
            await asyncio.sleep(0)
        return answer

    def _served(self, resource: ApiResource[Any]) -> Resource:
        served = self._api.registry.find(resource.group, resource.version, resource.plural)
        if served is None:
            raise no_such_resource()
        return served

    def _remembered(self, resource: ApiResource[Obj], answer: Answer) -> Obj:
        """Return the object in the answer to a write, and cache it for watches."""
        if isinstance(answer, ObjectAnswer):
            return self._shared(resource, answer.resource, answer.record)
        return self._object(resource, answer)

    def _shared(self, resource: ApiResource[Obj], served: Resource, record: Record) -> Obj:
        """Decode an object, or return it from the cache; objects are values, so they can be shared. Raises
        MalformedObject."""
        key = record, served, resource.model
        obj: Obj | None = self._read.get(key)
        if obj is None:
            obj = reader_of(resource.model).object(PLAIN.single(served, record))
            self._read.put(key, obj, len(record.tail))
        return obj

    def _object(self, resource: ApiResource[Obj], answer: Answer) -> Obj:
        reader: Reader[Obj] = reader_of(resource.model)
        if isinstance(answer, ObjectAnswer):
            return reader.object(PLAIN.single(answer.resource, answer.record))
        assert isinstance(answer, TreeAnswer)
        return reader.object(encode_json(answer.tree))


def _params(**texts: str) -> dict[str, list[str]]:
    return {name: [text] for name, text in texts.items() if text}
