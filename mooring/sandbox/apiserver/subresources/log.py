"""log: what there is to see of containers that do not run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from mooring.api.times import parse_time
from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.verbs.options import boolean_param, integer_param, text_param
from mooring.sandbox.apiserver.verbs.reading import get
from mooring.sandbox.apiserver.verbs.request import Answer, Request, TextAnswer, TextStreamAnswer
from mooring.sandbox.programs.logs import (
    ContainerLog,
    LogError,
    LogOptions,
    find_container_log,
    find_log_of_run,
)
from mooring.sandbox.programs.specs import LoggedPod

_NODE_NAME = 0  # index into the selectable fields of pods
POLL: Final = 0.5  # seconds until a container whose log is followed is looked at again
_PODS: msgspec.json.Decoder[LoggedPod] = msgspec.json.Decoder(LoggedPod)


def read_log(request: Request) -> Answer:
    """Return what a container has printed as far as its command says so; empty for a pod without a node."""
    record = get(request.api, request.resource, request.namespace, request.name)
    if not record.fields[_NODE_NAME]:
        return TextAnswer("")
    now = request.api.clock()
    options = _log_options(request, now)
    try:
        log = find_container_log(_PODS.decode(record.body), options, request.api.runs)
    except LogError as error:
        raise bad_request(str(error)) from None
    if boolean_param(request.params, "follow"):
        return TextStreamAnswer(_follow(request, options, log))
    return TextAnswer(log.read(options, now))


async def _follow(request: Request, options: LogOptions, log: ContainerLog) -> AsyncIterator[str]:
    """Yield what a container prints until that run of it ends, and empty texts while it prints nothing."""
    seen = request.api.clock()
    text, left = log.read(options, seen), options.limit_bytes
    pod: LoggedPod | None = None
    before: Record | None = None
    while True:
        if left is not None:
            text = text.encode()[:left].decode(errors="ignore")
            left -= len(text.encode())
        yield text
        if log.end is not None or left == 0:
            return
        due = log.next_output(seen)
        await asyncio.sleep(POLL if due is None else max(0.0, min(due - request.api.clock(), POLL)))
        record = request.api.record(request.resource.storage, request.name, request.namespace)
        if record is None:
            return
        same = log if record is before else None
        if pod is None or same is None:
            pod, before = _PODS.decode(record.body), record
        current = find_log_of_run(pod, options.container, log.started_at, request.api.runs, same)
        if current is None:
            return
        log, now = current, request.api.clock()
        text, seen = log.read_more(options, seen, now), now


def _log_options(request: Request, now: float) -> LogOptions:
    params = request.params
    seconds, moment = integer_param(params, "sinceSeconds"), text_param(params, "sinceTime")
    since = None if seconds is None else now - seconds
    if moment:
        try:
            since = parse_time(moment)
        except ValueError as error:
            raise bad_request(str(error)) from None
    return LogOptions(
        text_param(params, "container"),
        bool(boolean_param(params, "previous")),
        bool(boolean_param(params, "timestamps")),
        _positive(integer_param(params, "tailLines")),
        _positive(integer_param(params, "limitBytes")),
        since,
    )


def _positive(number: int | None) -> int | None:
    return None if number is None or number < 0 else number
