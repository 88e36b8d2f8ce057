"""Requests to the servers behind APIServices. Errors are in the words of kube-apiserver's HTTP client."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import quote

from mooring.client.http.connection import Connection
from mooring.client.http.route import Route
from mooring.sandbox.apiserver.admission.webhook_client import describe_failure
from mooring.sandbox.apiserver.aggregation.remotes import Remote
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.network.messages import NetworkError, Query
from mooring.sandbox.network.network import dial_error
from mooring.sandbox.network.services import Source
from mooring.serving.messages import Header

FRONT_PROXY: Final = "front-proxy-client"
"""The name in the certificate of this server as a client."""
_SOURCE: Final = Source("10.63.255.254")
"""The address of the API server, in the network of nodes."""
_MOST_PARTS: Final = 64  # of an answer that wait to be read
_LARGEST: Final = 64 * 1024 * 1024  # bytes of an answer that is not a watch
_HOP_BY_HOP: Final = frozenset(
    (b"authorization", b"connection", b"content-length", b"host", b"keep-alive", b"te", b"trailer",
     b"transfer-encoding", b"upgrade", b"proxy-authorization", b"proxy-authenticate")
)  # fmt: skip
_OF_FRONT_PROXIES: Final = (b"x-remote-", b"impersonate-")


class UpstreamError(Exception):
    """There is no answer."""


class Identity(NamedTuple):
    """The certificate that proves that a request was authenticated here, and its key: paths of PEM files."""

    certificate: str
    key: str


class Question(NamedTuple):
    """A request, without what belongs to the connection of its client."""

    method: str
    target: str
    headers: Iterable[Header] = ()
    body: bytes = b""


class Upstream:
    """An answer, whose content comes in parts."""

    def __init__(self, status: int, headers: Iterable[Header], parts: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = [header for header in headers if header[0].lower() not in _HOP_BY_HOP]
        self.parts = parts
        self.connection: Connection | None = None

    async def read(self) -> bytes:
        """Return the whole content, and read no further. Raises OSError and ValueError."""
        parts, size = [], 0
        try:
            async for part in self.parts:
                size += len(part)
                if size > _LARGEST:
                    raise ValueError(f"response body exceeds {_LARGEST} bytes")
                parts.append(part)
        finally:
            self.close()
        return b"".join(parts)

    def close(self) -> None:
        """Read no further."""
        if self.connection is not None:
            self.connection.close()


async def ask(
    api: Api, remote: Remote, question: Question, user: User, identity: Identity | None
) -> Upstream:
    """Send a request as a user who was authenticated here. Raises UpstreamError."""
    namespace, name, port = remote.service
    service = api.read("services", name, namespace)
    if service is None:
        raise UpstreamError(f'service "{name}" not found')
    kept = [
        one
        for one in question.headers
        if one[0] not in _HOP_BY_HOP and not one[0].startswith(_OF_FRONT_PROXIES)
    ]
    question = question._replace(headers=[*kept, *_user_headers(user)])
    if service["spec"].get("type") == "ExternalName":
        return await _ask_outside(remote, service["spec"]["externalName"], port, question, identity)
    address = service["spec"].get("clusterIP", "")
    return await api.evaluations.run(user.name, lambda: _ask_pods(api, address, port, question))


def _user_headers(user: User) -> list[Header]:
    """Return the headers by which a front proxy names the user of a request."""
    headers = [("x-remote-user", user.name), *(("x-remote-group", group) for group in user.groups)]
    if user.uid:
        headers.append(("x-remote-uid", user.uid))
    for key, values in user.extra:
        headers += [(f"x-remote-extra-{quote(key, safe='').lower()}", value) for value in values]
    return [(name.encode("latin-1"), _one_line(value)) for name, value in headers]


def _one_line(value: str) -> bytes:
    return value.replace("\r", "").replace("\n", "").encode("utf-8", "replace")


# ---- programs of pods


def _ask_pods(api: Api, address: str, port: int, question: Question) -> Upstream:
    if api.network is None:
        raise UpstreamError("no containers run in this cluster")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in question.headers}
    query = Query(question.method, question.target, headers, question.body, "https")
    try:
        reply = api.network.ask(_SOURCE, address, port, query)
    except NetworkError as error:
        raise UpstreamError(dial_error(error, address, port)) from None
    sent = [(name.encode(), value.encode("latin-1", "replace")) for name, value in reply.headers.items()]
    return Upstream(reply.status or 502, sent, _once(reply.body))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


# ---- servers on this machine


async def _ask_outside(
    remote: Remote, host: str, port: int, question: Question, identity: Identity | None
) -> Upstream:
    """Ask a server that an ExternalName leads to. Only this machine is reached: requests carry the names of
    users, who trust this server with them."""
    if not _is_loopback(host):
        raise UpstreamError(f"externalName {host}: expected localhost or a loopback address")
    route = Route(host, port, remote.server_name)
    try:
        insecure = bool(remote.spec.get("insecureSkipTLSVerify"))
        tls = _context(remote.spec.get("caBundle") or "", identity, insecure=insecure)
    except (ssl.SSLError, ValueError):
        raise UpstreamError("unable to load root certificates: unable to parse bytes as PEM block") from None
    try:
        stream = await route.open(_Stream, tls)
        return await stream.ask(_encode(question, f"{remote.server_name}:{port}"))
    except (OSError, ValueError) as error:
        raise UpstreamError(describe_failure(error, route)) from None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@lru_cache(maxsize=64)
def _context(bundle: str, identity: Identity | None, *, insecure: bool) -> ssl.SSLContext:
    authorities = base64.b64decode(bundle, validate=True).decode("ascii") if bundle else None
    context = ssl.create_default_context(cadata=authorities)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Go accepts what this does not
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(*identity)
    return context


def _encode(question: Question, host: str) -> bytes:
    head = [f"{question.method} {question.target} HTTP/1.1\r\nHost: {host}\r\n".encode("latin-1")]
    head += [name + b": " + value + b"\r\n" for name, value in question.headers]
    if question.body or question.method in ("POST", "PUT", "PATCH"):
        head.append(f"Content-Length: {len(question.body)}\r\n".encode())
    return b"".join((*head, b"Connection: close\r\n\r\n", question.body))


class _Stream(Connection):
    """A connection for one request, whose answer is read as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self._began: asyncio.Future[None] = self._loop.create_future()
        self._parts: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    async def ask(self, request: bytes) -> Upstream:
        """Send a request. Raises OSError and ValueError."""
        self.send(request, 0.0).add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await self._began
        except BaseException:
            self.close()
            raise
        answer = Upstream(self.status, self.headers, self._read())
        answer.connection = self
        return answer

    async def _read(self) -> AsyncIterator[bytes]:
        try:
            while (part := await self._parts.get()) is not None:
                if isinstance(part, Exception):
                    raise part
                if self._parts.qsize() < _MOST_PARTS and not self._transport.is_closing():
                    self._transport.resume_reading()
                yield part
        finally:
            self.close()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self.status >= 200 and not self._began.done():
            self._began.set_result(None)

    def on_body(self, chunk: bytes) -> None:
        self._take_content(chunk)
        self._parts.put_nowait(chunk)
        if self._parts.qsize() >= _MOST_PARTS:
            self._transport.pause_reading()

    def _finish(self, error: Exception | None) -> None:
        super()._finish(error)
        self._parts.put_nowait(error)
        if not self._began.done():
            self._began.set_exception(error or ValueError("EOF"))
