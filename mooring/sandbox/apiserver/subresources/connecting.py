"""attach, exec and portforward: admitted like writes. Known commands can be executed, and ports are forwarded
to what containers serve in the network of the cluster."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Final

import msgspec

from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.context.options import WriteOptions
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import bad_request, internal
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.verbs.options import boolean_param, text_param
from mooring.sandbox.apiserver.verbs.reading import get
from mooring.sandbox.apiserver.verbs.request import (
    Answer,
    AttachAnswer,
    CommandAnswer,
    ForwardError,
    PortsAnswer,
    ReplyAnswer,
    Request,
    Streams,
)
from mooring.sandbox.network.messages import NetworkError, Reply
from mooring.sandbox.network.network import dial_error
from mooring.sandbox.network.services import Source
from mooring.sandbox.programs.command_lines import runs_shell
from mooring.sandbox.programs.conversations import Conversation
from mooring.sandbox.programs.conversations import connect as connect_to_port
from mooring.sandbox.programs.executing import NotRunningError
from mooring.sandbox.programs.logs import LogError, choose_container
from mooring.sandbox.programs.program import Outcome
from mooring.sandbox.programs.specs import ContainerSpec, LoggedPod

_LOOPBACK: Final = "127.0.0.1"
_MOST_PORTS: Final = 50  # of one request
_NODE_NAME: Final = 0  # index into the selectable fields of pods
_STREAMS: Final = ("stdin", "stdout", "stderr", "tty")
_PODS: Final[msgspec.json.Decoder[LoggedPod]] = msgspec.json.Decoder(LoggedPod)


def connect(request: Request) -> Answer:
    """Return what the client is connected to. Policies and webhooks may reject before."""
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
    if request.verb != "create":  # a WebSocket is asked for with GET, and does as much
        resource = f"{request.resource.plural}/{subresource.name}"
        attributes = Attributes("create", request.resource.group, resource, request.namespace, request.name)
        request.api.rbac.check(request.user, attributes)
    record = get(request.api, request.resource, request.namespace, request.name)
    if not record.fields[_NODE_NAME]:
        raise bad_request(f"pod {request.name} does not have a host assigned")
    if subresource.name == "exec":
        return _command(request, record)
    if subresource.name == "attach":
        return _attachment(request, record)
    return _ports(request, record)


def _ports(request: Request, record: Record) -> PortsAnswer:
    """Return the ports of a pod."""
    api, pod = request.api, _PODS.decode(record.body)
    sandbox = sha256(pod.metadata.uid.encode()).hexdigest()  # as container runtimes name them

    def address() -> str:
        tree = api.read("pods", request.name, request.namespace)
        if tree is None or tree["metadata"]["uid"] != pod.metadata.uid:
            return ""
        status = tree.get("status") or {}
        return str(status.get("podIP") or "") if status.get("phase") == "Running" else ""

    def open(port: int) -> Conversation:
        problem = f"error forwarding port {port} to pod {sandbox}, uid "
        source = Source(address(), record.fields[_NODE_NAME])
        try:
            if not source.address or api.network is None:
                raise ForwardError(f'{problem}: failed to find sandbox "{sandbox}" in store: not found')
            return connect_to_port(api.network, source, _LOOPBACK, port)
        except NetworkError as error:
            why = (
                f'{problem}: failed to execute portforward in network namespace "/var/run/netns/{sandbox}": '
                f'failed to connect to localhost:{port} inside namespace "{sandbox}", '
                f"IPv4: {dial_error(error, _LOOPBACK, port, 'tcp4')} "
                "IPv6 dial tcp6: address localhost: no suitable address found "
            )
            raise ForwardError(why) from None

    return PortsAnswer(_requested_ports(request), open, lambda: bool(address()))


def _requested_ports(request: Request) -> list[int]:
    """Return the ports that a request names; those of clients that speak SPDY are named later. Raises
    ApiError."""
    ports = []
    for text in request.params.get("ports") or ():
        for port in text.split(","):
            if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536):
                raise bad_request(f'unable to parse "{text}" as a port')
            ports.append(int(port))
    if len(ports) > _MOST_PORTS:
        raise bad_request(f"more than {_MOST_PORTS} ports")
    return ports


def _command(request: Request, record: Record) -> CommandAnswer | ReplyAnswer:
    """Return the command that a client wants to have executed, or the error of a kubelet."""
    command = list(request.params.get("command") or ())
    if not command:
        raise bad_request("you must specify at least one command for the container")
    pod, spec, streams = _target(request, record)
    containers, uid, container = request.api.containers, pod.metadata.uid, spec.name
    if not containers.is_running(uid, container):
        return _kubelet_error(f'container not found ("{container}")')

    def run(stdin: str | None, is_dry: bool) -> Outcome | None:
        try:
            return containers.execute(uid, container, command, stdin, is_dry=is_dry)
        except NotRunningError:
            raise internal(f'container not found ("{container}")') from None

    unknown = bad_request(
        f'cannot execute "{command[0]}" in container {container} of pod {request.name}: containers do not '
        "run in a sandbox cluster, and this command cannot be emulated"
    )
    return CommandAnswer(
        run,
        partial(containers.open_shell, uid, container),
        partial(containers.is_running, uid, container),
        unknown,
        command,
        streams,
    )


def _attachment(request: Request, record: Record) -> AttachAnswer | ReplyAnswer:
    """Return the container that a client wants to attach to, or the error of a kubelet."""
    pod, spec, streams = _target(request, record)
    containers, uid, name = request.api.containers, pod.metadata.uid, spec.name
    missing = f"container {name} not found in pod {request.name}_{request.namespace}"
    if not containers.is_running(uid, name):
        return _kubelet_error(missing)
    shell = CommandAnswer(
        lambda stdin, is_dry: None,
        partial(containers.open_shell, uid, name),
        partial(containers.is_running, uid, name),
        internal(missing),
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


def _kubelet_error(message: str) -> ReplyAnswer:
    """Return an error of a kubelet, which the API server passes on unchanged: as text, not as a Status."""
    return ReplyAnswer(Reply(500, message.encode()))


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
