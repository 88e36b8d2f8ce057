"""Answering requests: at once, or in several turns of the loop.

Verbs do not wait, so that writes are atomic. What could keep other clients waiting for more than some
milliseconds is handled in a thread, as a draft that is committed afterwards; and a write that webhooks must
see begins again for every call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.admission.webhook_client import call_webhook
from mooring.sandbox.apiserver.context.calls import Call, Calls, CallsNeeded, TooLongError
from mooring.sandbox.apiserver.context.drafting import LARGE, run_drafted
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.dispatch import begin_deletion, handle
from mooring.sandbox.apiserver.errors import MODIFIED, conflict, no_such_resource
from mooring.sandbox.apiserver.objects import Tree, decode_record, encode_tail
from mooring.sandbox.apiserver.store.draft import OutdatedError
from mooring.sandbox.apiserver.store.record import Record, key_of
from mooring.sandbox.apiserver.verbs.request import (
    Answer,
    ListAnswer,
    ObjectAnswer,
    Request,
    TreeAnswer,
    WatchAnswer,
)
from mooring.sandbox.apiserver.verbs.watching import ConvertedWatching

_READS: Final = frozenset({"get", "list", "watch"})
_MOST_CALLS: Final = 100
"""Per request: an object that changes faster than webhooks answer is given up."""
_SECONDS: Final = 60
_SCHEMA_BYTES: Final = 16
"""Bytes of a definition that cost about as much as one byte of an object."""
_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_DELETIONS_PER_TURN: Final = 64
_SCALE: Final = "Scale"
_DRAFTED: Final = (_SCALE, "Eviction")
"""Kinds of subresources that write, and answer with what they have written or a Status."""
_OBJECTS_PER_REVIEW: Final = 100
T = TypeVar("T")


async def answer_request(request: Request) -> Answer:
    """Answer a request; one that deletes many objects takes several turns of the loop. Raises ApiError."""
    conversion = request.resource.conversion
    if conversion is not None and conversion.is_remote:
        return await _answer_converted(request)
    verb = request.verb
    if verb == "deletecollection" and verb in request.resource.verbs:
        return await _delete_collection(request)
    if _is_read(request) or not (request.api.policies.any or _is_large(request)):
        try:
            return await _evaluate(request, partial(handle, request))
        except TooLongError:
            pass
    return await _answer_in_attempts(request)


async def _evaluate(request: Request, act: Callable[[], Answer]) -> Answer:
    """Answer a request; programs that answer one that is proxied take turns."""
    if request.proxied is None:
        return act()
    return await request.api.evaluations.run(request.user.name, act)


async def _delete_collection(request: Request) -> Answer:
    answer, deletions = begin_deletion(request)
    if request.api.policies.any or any(len(record.tail) >= LARGE for record in answer.listing.records):
        deletions.close()
        await _delete_one_by_one(request, answer)
        return answer
    for count, _ in enumerate(deletions, 1):
        if count % _DELETIONS_PER_TURN == 0:
            await asyncio.sleep(0)
    return answer


async def _delete_one_by_one(request: Request, answer: ListAnswer) -> None:
    for record in answer.listing.records:
        one = replace(request, verb="delete", name=record.name, namespace=record.namespace)
        try:
            await answer_request(one)
        except ApiError as error:
            if not error.not_found:
                raise
        await asyncio.sleep(0)


async def _answer_in_attempts(request: Request, *, converts: bool = False) -> Answer:
    calls = request.api.new_calls() if converts or request.api.webhooks.any else None
    return await _with_calls(request, calls, partial(_attempt, request, calls))


async def _with_calls(request: Request, calls: Calls | None, attempt: Callable[[], Awaitable[T]]) -> T:
    """Make an attempt again and again, until it needs no more calls to webhooks."""
    try:
        async with asyncio.timeout(_SECONDS):
            while True:
                try:
                    return await attempt()
                except CallsNeeded as needed:
                    assert calls is not None
                    await _make(request, calls, needed.calls)
    except TimeoutError:
        message = "Timeout: request did not complete within requested timeout"
        raise ApiError(504, "Timeout", message) from None


def _is_read(request: Request) -> bool:
    """Whether nothing is admitted. Connections are, though clients get them."""
    is_connection = request.subresource is not None and request.subresource.kind.kind.endswith("Options")
    return request.verb in _READS and not is_connection


def _is_large(request: Request) -> bool:
    size = len(request.body)
    if request.name and size < LARGE:
        record = request.api.table(request.resource).get(key_of(request.namespace, request.name))
        size += 0 if record is None else len(record.tail)
    if request.resource.custom and size < LARGE:  # a small object may be compared with all of a large schema
        definition = request.api.record(_DEFINITIONS, request.resource.storage)
        size += 0 if definition is None else len(definition.tail) // _SCHEMA_BYTES
    return size >= LARGE


# ---- in a thread ----------------------------------------------------------------------------------


async def _attempt(request: Request, calls: Calls | None) -> Answer:
    """Handle a request in a thread. Raises CallsNeeded at the next call that is needed: nothing is written
    before the last attempt."""
    subresource = request.subresource
    if subresource is not None and subresource.kind.kind not in (request.resource.kind, *_DRAFTED):
        # the answer may be a stream
        unhurried = replace(request, api=request.api.unhurried())
        return await _evaluate(request, partial(_handle, unhurried, calls))
    try:
        answer, stored = await run_drafted(
            request.api,
            request.user.name,
            lambda api: _handle(_refreshed(replace(request, api=api)), calls),
        )
    except OutdatedError:
        raise conflict(request.resource.group, request.resource.plural, request.name, MODIFIED) from None
    if isinstance(answer, ObjectAnswer):
        answer.record = stored.get(answer.record, answer.record)
        if request.resource.storage == _DEFINITIONS and (
            following := request.api.following.get(answer.record.name)
        ):
            await asyncio.wait({following})  # the client may use it at once
    elif isinstance(answer, TreeAnswer) and answer.tree.get("kind") == _SCALE:
        for record in stored.values():
            answer.tree["metadata"]["resourceVersion"] = str(record.version)
    return answer


def _refreshed(request: Request) -> Request:
    """Return a request for what is served now: a definition may have changed meanwhile. Raises 404."""
    old = request.resource
    if old.custom:
        request.api.record(_DEFINITIONS, old.storage)  # the draft depends on it
    resource = request.api.registry.find(old.group, old.version, old.plural)
    if resource is old:
        return request
    name = "" if request.subresource is None else request.subresource.name
    if resource is None or (name and name not in resource.subresources):
        raise no_such_resource()
    return replace(request, resource=resource, subresource=resource.subresources.get(name))


def _handle(request: Request, calls: Calls | None) -> Answer:
    if calls is None:
        return handle(request)
    with request.api.attempt(calls):
        return handle(request)


# ---- webhooks -------------------------------------------------------------------------------------


async def _make(request: Request, calls: Calls, needed: Sequence[Call]) -> None:
    """Make calls at the same time, and keep the replies."""
    api, user = request.api, request.user.name
    if len(calls.replies) + len(needed) > _MOST_CALLS:
        raise ApiError(504, "Timeout", f"Timeout: more than {_MOST_CALLS} calls to webhooks for one request")

    async def make(call: Call) -> None:
        async with api.webhook_turns.turn(user):
            calls.replies[call] = await call_webhook(api, call)

    async with asyncio.TaskGroup() as group:
        for call in dict.fromkeys(needed):
            group.create_task(make(call))


# ---- conversion by webhooks -----------------------------------------------------------------------


async def _answer_converted(request: Request) -> Answer:
    """Answer a request about objects that a webhook converts."""
    if request.verb == "deletecollection" and request.verb in request.resource.verbs:
        return await _converted(request, await _delete_collection(request))
    if _is_read(request):
        try:
            return await _converted(request, handle(request))
        except TooLongError:  # a Scale, which has to be converted to be read
            pass
    return await _converted(request, await _answer_in_attempts(request, converts=True))


async def _converted(request: Request, answer: Answer) -> Answer:
    """Return an answer with objects in the version of their resource, which a webhook converts."""
    if isinstance(answer, ObjectAnswer):
        (answer.record,) = await _convert(request, answer.resource, [answer.record])
        answer.resource = answer.resource.converted()
    elif isinstance(answer, ListAnswer):
        records = await _convert(request, answer.resource, answer.listing.records)
        return ListAnswer(answer.listing._replace(records=records), answer.resource.converted())
    elif isinstance(answer, WatchAnswer):
        convert = partial(_convert, request, answer.resource)
        return WatchAnswer(ConvertedWatching(answer.watching, convert), answer.resource.converted())
    return answer


async def _convert(request: Request, resource: Resource, records: Sequence[Record]) -> list[Record]:
    """Return records in the version of a resource."""
    api = request.api
    conversion, calls = resource.conversion, api.new_calls()
    assert conversion is not None
    trees = [decode_record(record, resource.api_version, resource.kind) for record in records]
    converted: list[Tree] = []
    for start in range(0, len(trees), _OBJECTS_PER_REVIEW):
        some = trees[start : start + _OBJECTS_PER_REVIEW]

        async def attempt(some: Sequence[Tree] = some) -> list[Tree]:
            with api.attempt(calls):
                return conversion.convert(some)

        converted += await _with_calls(request, calls, attempt)
    return [
        Record(record.key, record.version, encode_tail(tree), tree["metadata"].get("labels"), record.fields)
        for record, tree in zip(records, converted, strict=True)
    ]
