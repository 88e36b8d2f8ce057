"""Calling webhooks over HTTPS. Errors are in the words of kube-apiserver and its HTTP client."""

from __future__ import annotations

import asyncio
import base64
import errno
import socket
import ssl
import uuid
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from mooring.client.http.connection import Connection, Response
from mooring.client.http.route import Route
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.calls import Call, Reply
from mooring.sandbox.apiserver.objects import Tree, dig, encode_json

_LARGEST_ANSWER: Final = 3 * 1024 * 1024
_REFUSED: Final = "connect: connection refused"


class _Connection(Connection):
    """A connection for one call, whose answer is bounded."""

    def on_body(self, chunk: bytes) -> None:
        if self._size + len(chunk) > _LARGEST_ANSWER:
            raise ValueError(f"response body exceeds {_LARGEST_ANSWER} bytes")
        super().on_body(chunk)


class _Target(NamedTuple):
    url: str
    """As messages show it."""
    host: str
    """In the request."""
    path: str
    route: Route


class _CallError(Exception):
    """There is no answer that can be used."""


async def call_webhook(api: Api, call: Call) -> Reply:
    """Make a call within its timeout. Failures are replies, too."""
    uid = str(uuid.uuid4())
    try:
        config = msgspec.json.decode(call.client_config)
        tls = _context(config.get("caBundle") or "")
        target = _target(api, config, call.timeout)
    except (ssl.SSLError, ValueError):
        why = "unable to load root certificates: unable to parse bytes as PEM block"
        return Reply({}, uid, f"could not get REST client: {why}")
    except _CallError as error:
        return Reply({}, uid, f"failed to call webhook: {error}")
    try:
        async with asyncio.timeout(call.timeout):
            response = await _post(target, tls, _with_uid(call.review, uid))
        return Reply(_decoded(response), uid)
    except _CallError as error:
        return Reply({}, uid, f"failed to call webhook: {error}")
    except TimeoutError:
        return Reply({}, uid, f'failed to call webhook: Post "{target.url}": context deadline exceeded')
    except (OSError, ValueError) as error:
        why = f'Post "{target.url}": {describe_failure(error, target.route)}'
        return Reply({}, uid, f"failed to call webhook: {why}")


def _with_uid(review: bytes, uid: str) -> bytes:
    """Add the uid of a request to a review, which is not decoded: there may be many large ones."""
    start, request, rest = review.partition(b'"request":{')
    return b"".join((start, request, b'"uid":', encode_json(uid), b",", rest))


@lru_cache(maxsize=64)
def _context(bundle: str) -> ssl.SSLContext:
    """Return what trusts the CA bundle of a webhook, or without one the system's authorities."""
    authorities = base64.b64decode(bundle, validate=True).decode("ascii") if bundle else None
    context = ssl.create_default_context(cadata=authorities)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Go accepts what this does not
    return context


# ---- where to -------------------------------------------------------------------------------------


def _target(api: Api, config: Tree, timeout: int) -> _Target:
    query = f"timeout={timeout}s"
    if config.get("url"):
        parts = urlsplit(config["url"])
        path = f"{parts.path or '/'}?{query}"
        route = Route(parts.hostname or "", parts.port or 443)
        return _Target(f"https://{parts.netloc}{path}", parts.netloc, path, route)
    service = config["service"]
    name, namespace, port = service["name"], service["namespace"], service.get("port") or 443
    server = f"{name}.{namespace}.svc"
    path = f"/{(service.get('path') or '').lstrip('/')}?{query}"
    url = f"https://{server}:{port}{path}"
    try:
        host, number = _resolve(api, namespace, name, port)
    except _CallError as error:
        raise _CallError(f'Post "{url}": {error}') from None
    return _Target(url, f"{server}:{port}", path, Route(host, number, server))


def _resolve(api: Api, namespace: str, name: str, port: int) -> tuple[str, int]:
    """Return the address of a service that can be reached from here.

    Pods do not run, so their addresses lead nowhere, except for programs that serve. An ExternalName can be
    reached, and so can endpoints that are not pods.
    """
    service = api.read("services", name, namespace)
    if service is None:
        raise _CallError(f'service "{name}" not found')
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return spec["externalName"], port
    if spec.get("clusterIP") == "None":
        raise _CallError('cannot route to service with ClusterIP "None"')
    served = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
    if served is None:
        raise _CallError(f'no service port {port} found for service "{name}"')
    for address, number in _endpoints(api, namespace, name, served.get("name", "")):
        return address, number
    raise _CallError(f"dial tcp {spec.get('clusterIP', '')}:{port}: {_REFUSED}")


def _endpoints(api: Api, namespace: str, name: str, port: str) -> list[tuple[str, int]]:
    """Return the endpoints of a service that can be reached."""
    endpoints = api.read("endpoints", name, namespace) or {}
    addresses = (
        _reachable(api, address, one["port"])
        for subset in endpoints.get("subsets") or ()
        for one in subset.get("ports") or ()
        if one.get("name", "") == port
        for address in subset.get("addresses") or ()
    )
    return [address for address in addresses if address is not None]


def _reachable(api: Api, address: Tree, port: int) -> tuple[str, int] | None:
    if dig(address, "targetRef", "kind") == "Pod":
        return api.servers.find(address["ip"], port)
    return address["ip"], port


# ---- the exchange ---------------------------------------------------------------------------------


async def _post(target: _Target, tls: ssl.SSLContext, body: bytes) -> Response:
    connection = await target.route.open(_Connection, tls)
    head = (
        f"POST {target.path} HTTP/1.1\r\nHost: {target.host}\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Type: application/json\r\nAccept: application/json, */*\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    try:
        await connection.send(head.encode("ascii") + body, 0.0)
        return connection.response()
    finally:
        connection.close()


def _decoded(response: Response) -> Tree:
    try:
        tree: Any = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tree = None
    if response.status != 200:
        raise _CallError(_refusal(response, tree))
    if not isinstance(tree, dict):
        raise _CallError("couldn't get version/kind; json parse error: expected an object")
    return tree


def _refusal(response: Response, tree: Any) -> str:
    """Return what an answer that is not 200 means to client-go."""
    if isinstance(tree, dict) and tree.get("kind") == "Status":
        return str(tree.get("message") or "unknown")
    if response.status == 404:
        return "the server could not find the requested resource"
    text = ""
    if response.header(b"content-type").startswith("text/"):
        text = response.body[:2048].decode("utf-8", "replace").strip()
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'an error on the server ("{text or "unknown"}") has prevented the request from succeeding'


def describe_failure(error: Exception, route: Route) -> str:
    """Describe why there is no answer, as Go does where it is common."""
    where = f"[{route.host}]" if ":" in route.host else route.host
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_certificate_problem(error, route)}"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "http: server gave HTTP response to HTTPS client"
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {route.host}: no such host"
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {where}:{route.port}: {_REFUSED}"
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"dial tcp {where}:{route.port}: connect: {(error.strerror or '').lower()}"
    return "EOF" if isinstance(error, ConnectionResetError) else str(error)


def _certificate_problem(error: ssl.SSLCertVerificationError, route: Route) -> str:
    if "mismatch" in error.verify_message.lower():
        return f"certificate is not valid for {route.server_name or route.host}"
    if "expired" in error.verify_message:
        return "certificate has expired or is not yet valid"
    return "certificate signed by unknown authority"
