"""Answering requests with the calls to webhooks that they need."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.admission.webhook_client import call_webhook
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.calls import Call, Calls, CallsNeeded
from mooring.sandbox.apiserver.context.namespaces import has_webhooks
from mooring.sandbox.apiserver.dispatch import begin_deletion, handle
from mooring.sandbox.apiserver.verbs.request import Answer, Request

_READS: Final = frozenset({"get", "list", "watch"})
_MOST_CALLS: Final = 100
"""Per request: an object that changes faster than webhooks answer is given up."""
_SECONDS: Final = 60
_DELETIONS_PER_TURN: Final = 64


async def answer_request(request: Request) -> Answer:
    """Answer a request; one that deletes many objects takes several turns of the loop. Raises ApiError."""
    if request.verb == "deletecollection" and request.verb in request.resource.verbs:
        return await _delete_collection(request)
    return await _answer_one(request)


async def _delete_collection(request: Request) -> Answer:
    answer, deletions = begin_deletion(request)
    if has_webhooks(request.api):
        deletions.close()
        for record in answer.listing.records:
            one = replace(request, verb="delete", name=record.name, namespace=record.namespace)
            try:
                await _answer_one(one)
            except ApiError as error:
                if not error.not_found:
                    raise
        return answer
    for count, _ in enumerate(deletions, 1):
        if count % _DELETIONS_PER_TURN == 0:
            await asyncio.sleep(0)
    return answer


async def _answer_one(request: Request) -> Answer:
    """Answer a request.

    Without webhooks it is handled at once. With some, each attempt ends at the next call that is needed, and
    nothing is written before the last attempt.
    """
    if request.verb in _READS or not has_webhooks(request.api):
        return handle(request)
    calls = request.api.new_calls()
    try:
        async with asyncio.timeout(_SECONDS):
            while True:
                try:
                    with request.api.attempt(calls):
                        return handle(request)
                except CallsNeeded as needed:
                    await _make(request.api, calls, needed.calls)
    except TimeoutError:
        message = "Timeout: request did not complete within requested timeout"
        raise ApiError(504, "Timeout", message) from None


async def _make(api: Api, calls: Calls, needed: Sequence[Call]) -> None:
    """Make calls at the same time, and keep the replies."""
    if len(calls.replies) + len(needed) > _MOST_CALLS:
        raise ApiError(504, "Timeout", f"Timeout: more than {_MOST_CALLS} calls to webhooks for one request")

    async def make(call: Call) -> None:
        async with api.webhook_slots:
            calls.replies[call] = await call_webhook(api, call)

    async with asyncio.TaskGroup() as group:
        for call in dict.fromkeys(needed):
            group.create_task(make(call))
