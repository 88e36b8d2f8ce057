"""attach, exec and portforward: admitted like writes, and then rejected, since containers do not run."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.options import WriteOptions
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.verbs.options import boolean_param, text_param
from mooring.sandbox.apiserver.verbs.reading import get
from mooring.sandbox.apiserver.verbs.request import Answer, Request

_NODE_NAME: Final = 0  # index into the selectable fields of pods
_STREAMS: Final = ("stdin", "stdout", "stderr", "tty")


def connect(request: Request) -> Answer:
    """Reject: there is no container to connect to. Policies and webhooks may reject before."""
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
    raise bad_request(
        f"nothing to connect to in pod {request.name}: containers do not run in a sandbox cluster; "
        "kubectl logs shows what known commands print"
    )


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
