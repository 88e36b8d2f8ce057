"""pods/proxy and services/proxy: requests to what containers serve in the network of the cluster."""

from __future__ import annotations

import random
import re
from typing import Final, NamedTuple

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.options import WriteOptions
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import bad_request, not_found
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.verbs.request import Answer, ReplyAnswer, Request
from mooring.sandbox.network.messages import NetworkError, Query, Reply
from mooring.sandbox.network.network import dial_error
from mooring.sandbox.network.services import Source

_SOURCE: Final = Source("10.63.255.254")
"""The address of the API server, in the network of nodes."""
_PORTS: Final = {"": 80, "http": 80, "https": 443}
_LINK: Final = re.compile(rb"""(?i)(<[a-z][^<>]*?\s(?:href|src|action|formaction)\s*=\s*["'])/(?!/)""")


class _Target(NamedTuple):
    scheme: str
    name: str
    port: str


def proxy(request: Request) -> Answer:
    """Forward a request to a pod, or to one behind a Service."""
    query = request.proxied
    if query is None:
        raise bad_request("a proxy answers requests by HTTP only")
    _admit(request, query)
    target = _parse(request)
    find = _find_pod if request.resource.storage == "pods" else _find_endpoint
    address, port = find(request, target)
    prefix = _prefix(request)
    if not query.target.startswith("/"):  # "" or parameters: relative links need a path that ends in a slash
        if query.method in ("GET", "HEAD"):
            return ReplyAnswer(Reply(301, b"", {"location": f"{prefix}/{query.target}"}))
        query = query._replace(target=f"/{query.target}")
    headers = {**query.headers, "host": f"{address}:{port}", "x-forwarded-uri": f"{prefix}{query.path}"}
    query = query._replace(scheme=target.scheme or "http", headers=headers)
    return ReplyAnswer(_rewrite(_ask(request, address, port, query), prefix))


def _admit(request: Request, query: Query) -> None:
    """Run policies and webhooks on the connection."""
    assert request.subresource is not None
    write = Write(
        request.api, request.resource, request.namespace, request.name, request.user, WriteOptions(),
        "CONNECT", request.subresource.name, request.verb, warnings=request.warnings,
    )  # fmt: skip
    options: Tree = {"path": query.path}
    request.api.admission.admit(write, options, None)
    request.api.admission.validate(write, options, None)


def _parse(request: Request) -> _Target:
    """Read "NAME", "NAME:PORT" or "SCHEME:NAME:PORT"; the last two may be without a port."""
    match request.name.split(":"):
        case [name] if name:
            return _Target("", name, "")
        case [name, port] if name:
            return _Target("", name, port)
        case ["" | "http" | "https" as scheme, name, port] if name:
            return _Target(scheme, name, port)
    raise bad_request(f'invalid {request.resource.kind.lower()} request "{request.name}"')


def _find_pod(request: Request, target: _Target) -> tuple[str, int]:
    pod = request.api.read("pods", target.name, request.namespace)
    if pod is None:
        raise not_found("", "pods", target.name)
    address = (pod.get("status") or {}).get("podIP")
    if not address:
        raise bad_request("address not allowed")
    ports = (port["containerPort"] for one in pod["spec"]["containers"] for port in one.get("ports") or ())
    if not target.port:
        return address, next(ports, _PORTS[target.scheme])
    if not (target.port.isascii() and target.port.isdecimal() and 0 < int(target.port[:6]) < 65536):
        raise _unavailable(f"error trying to reach service: dial tcp: lookup tcp/{target.port}: unknown port")
    return address, int(target.port)


def _find_endpoint(request: Request, target: _Target) -> tuple[str, int]:
    """Return one of the pods behind a Service, as its Endpoints have them."""
    api, name, port = request.api, target.name, target.port
    if port.isascii() and port.isdecimal():
        service = api.read("services", name, request.namespace)
        if service is None:
            raise not_found("", "services", name)
        ports = service["spec"].get("ports") or ()
        served = next((one for one in ports if str(one["port"]) == port), None)
        if served is None:
            raise _unavailable(f'no service port {port} found for service "{name}"')
        port = served.get("name", "")
    endpoints = api.read("endpoints", name, request.namespace)
    if endpoints is None:
        raise not_found("", "endpoints", name)
    choices = [
        (address["ip"], one["port"])
        for subset in endpoints.get("subsets") or ()
        for one in subset.get("ports") or ()
        if one.get("name", "") == port
        for address in subset.get("addresses") or ()
        if (address.get("targetRef") or {}).get("kind") == "Pod"
    ]
    if not choices:
        named = name if not endpoints.get("subsets") else request.name
        raise _unavailable(f'no endpoints available for service "{named}"')
    return random.choice(choices)


def _ask(request: Request, address: str, port: int, query: Query) -> Reply:
    network = request.api.network
    if network is None:
        raise _unavailable("error trying to reach service: no containers run in this cluster")
    try:
        reply = network.ask(_SOURCE, address, port, query)
    except NetworkError as error:
        raise _unavailable(f"error trying to reach service: {dial_error(error, address, port)}") from None
    if not reply.status:
        raise _unavailable("error trying to reach service: EOF")
    return reply


def _unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)


def _prefix(request: Request) -> str:
    plural, name = request.resource.plural, request.name
    return f"/api/v1/namespaces/{request.namespace}/{plural}/{name}/proxy"


def _rewrite(reply: Reply, prefix: str) -> Reply:
    """Rewrite links and redirections to other paths of the server, so that they go through the proxy."""
    location = reply.headers.get("location", "")
    if location:
        if location.startswith("/") and not location.startswith(("//", prefix)):
            return reply._replace(headers={**reply.headers, "location": prefix + location})
        return reply
    if not reply.headers.get("content-type", "").startswith("text/html"):
        return reply
    return reply._replace(body=_LINK.sub(lambda match: match.group(1) + prefix.encode() + b"/", reply.body))
