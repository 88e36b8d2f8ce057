"""attach, exec and portforward: admitted like writes. Known commands can be executed; ports are not
forwarded, since containers do not run."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from mooring.sandbox.apiserver.context.options import WriteOptions
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import bad_request, internal
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.verbs.options import boolean_param, text_param
from mooring.sandbox.apiserver.verbs.reading import get
from mooring.sandbox.apiserver.verbs.request import Answer, AttachAnswer, CommandAnswer, Request, Streams
from mooring.sandbox.programs.executing import NotRunningError, runs_shell
from mooring.sandbox.programs.logs import LogError, choose_container
from mooring.sandbox.programs.program import Outcome
from mooring.sandbox.programs.specs import ContainerSpec, LoggedPod

_NODE_NAME: Final = 0  # index into the selectable fields of pods
_STREAMS: Final = ("stdin", "stdout", "stderr", "tty")
_PODS: Final[msgspec.json.Decoder[LoggedPod]] = msgspec.json.Decoder(LoggedPod)


def connect(request: Request) -> Answer:
    """Return the command to execute, or reject: there is no container to connect to. Policies and webhooks
    may reject before."""
    subresource = request.subresource
    assert subresource is not None
    if text_param(request.params, "dryRun"):
        raise bad_request("dryRun is not supported")
    write = Write(
        request.api, request.resource, request.namespace, request.name, request.user, WriteOptions(),
        "CONNECT", subresource.name, request.verb, warnings=request.warnings,
    )  # fmt: skip
    options = _options(request, subresource.name)
    request.api.admission.admit(write, options, None)
    request.api.admission.validate(write, options, None)
    record = get(request.api, request.resource, request.namespace, request.name)
    if not record.fields[_NODE_NAME]:
        raise bad_request(f"pod {request.name} does not have a host assigned")
    if subresource.name == "exec":
        return _command(request, record)
    if subresource.name == "attach":
        return _attachment(request, record)
    raise bad_request(
        f"no ports of pod {request.name} can be forwarded: containers do not run in a sandbox cluster; "
        f"kubectl proxy and /api/v1/namespaces/{request.namespace}/pods/{request.name}:PORT/proxy/ reach "
        "what it serves by HTTP"
    )


def _command(request: Request, record: Record) -> CommandAnswer:
    """Return the command that a client wants to have executed."""
    command = list(request.params.get("command") or ())
    if not command:
        raise bad_request("you must specify at least one command for the container")
    pod, spec, streams = _target(request, record)
    containers, uid, container = request.api.containers, pod.metadata.uid, spec.name

    def run(stdin: str | None, is_dry: bool) -> Outcome | None:
        try:
            return containers.execute(uid, container, command, stdin, is_dry=is_dry)
        except NotRunningError:
            raise internal(f'unable to upgrade connection: container not found ("{container}")') from None

    unknown = bad_request(
        f'cannot execute "{command[0]}" in container {container} of pod {request.name}: what it would do is '
        "not known, and containers do not run in a sandbox cluster"
    )
    return CommandAnswer(
        run,
        partial(containers.open_shell, uid, container),
        partial(containers.is_running, uid, container),
        unknown,
        command,
        streams,
    )


def _attachment(request: Request, record: Record) -> AttachAnswer:
    """Return the container that a client wants to attach to."""
    pod, spec, streams = _target(request, record)
    containers, uid, name = request.api.containers, pod.metadata.uid, spec.name
    missing = internal(
        f"unable to upgrade connection: container {name} not found in pod {request.name}_{request.namespace}"
    )
    if not containers.is_running(uid, name):
        raise missing
    shell = CommandAnswer(
        lambda stdin, is_dry: None,
        partial(containers.open_shell, uid, name),
        partial(containers.is_running, uid, name),
        missing,
        [],
        streams._replace(stdin=streams.stdin and spec.stdin, tty=streams.tty and spec.tty),
    )
    return AttachAnswer(
        shell,
        partial(containers.follow, uid, name),
        partial(containers.enter, uid, name),
        partial(containers.end, uid, name),
        shell.streams.stdin and shell.streams.tty and runs_shell(spec),
        spec.stdin_once,
    )


def _target(request: Request, record: Record) -> tuple[LoggedPod, ContainerSpec, Streams]:
    """Return the container that a request names, and the streams that it asks for."""
    streams = Streams(*(bool(boolean_param(request.params, name)) for name in _STREAMS))
    if not any(streams[:3]):
        raise bad_request("you must specify at least one of stdin, stdout, stderr")
    pod = _PODS.decode(record.body)
    try:
        return pod, choose_container(pod, text_param(request.params, "container")), streams
    except LogError as error:
        raise bad_request(str(error)) from None


def _options(request: Request, subresource: str) -> Tree:
    """Return the options of a connection, without kind, as policies and webhooks see them."""
    params = request.params
    if subresource == "portforward":
        ports = [
            int(port) for text in params.get("ports") or () for port in text.split(",") if port.isdecimal()
        ]
        return {"ports": ports} if ports else {}
    options: Tree = {name: True for name in _STREAMS if boolean_param(params, name)}
    if text_param(params, "container"):
        options["container"] = text_param(params, "container")
    if subresource == "exec":
        options["command"] = list(params.get("command") or ()) or None
    return options
