"""log, attach, exec and portforward: what there is to see of containers that do not run."""

from __future__ import annotations

import msgspec

from mooring.api.times import parse_time
from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.verbs.options import boolean_param, integer_param, text_param
from mooring.sandbox.apiserver.verbs.reading import get
from mooring.sandbox.apiserver.verbs.request import Answer, Request, TextAnswer
from mooring.sandbox.programs.logs import LogError, LogOptions, read_container_log
from mooring.sandbox.programs.specs import LoggedPod

_NODE_NAME = 0  # index into the selectable fields of pods
_PODS: msgspec.json.Decoder[LoggedPod] = msgspec.json.Decoder(LoggedPod)


def read_log(request: Request) -> Answer:
    """Return what a container has printed as far as its command says so; empty for a pod without a node."""
    record = get(request.api, request.resource, request.namespace, request.name)
    if not record.fields[_NODE_NAME]:
        return TextAnswer("")
    now = request.api.clock()
    pod = _PODS.decode(record.body)
    try:
        return TextAnswer(read_container_log(pod, _log_options(request, now), now))
    except LogError as error:
        raise bad_request(str(error)) from None


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


def connect(request: Request) -> Answer:
    """Reject: there is no container to connect to."""
    record = get(request.api, request.resource, request.namespace, request.name)
    if not record.fields[_NODE_NAME]:
        raise bad_request(f"pod {request.name} does not have a host assigned")
    raise bad_request(
        f"nothing to connect to in pod {request.name}: containers do not run in an embedded cluster"
    )
