"""Reaching a cluster's objects, or a running scheduler, from the command line."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from mooring import __version__
from mooring.api.meta import KubeObject
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials
from mooring.client.errors import ApiError
from mooring.client.informers import NOT_TERMINAL
from mooring.client.kinds import NODES, PODS, WATCHED, ApiResource
from mooring.explain.explanation import Explanation, Outlines

Answer = TypeVar("Answer")

PAGE = 500
TIMEOUT = 30.0  # seconds for an answer
LARGEST_ANSWER = 64 << 20

PORT = 10259
DECISIONS = "/debug/decisions"
USER_AGENT = f"mooring/{__version__}"


# ---- the cluster's objects


async def list_cluster(credentials: Credentials) -> tuple[list[KubeObject], list[str]]:
    """Everything that a scheduler looks at, and what could not be had. Without nodes and pods there is
    nothing to say; other kinds that this user may not list are done without.

    Raises ClusterError and CredentialsError.
    """
    server = ApiServer(credentials, qps=1000, burst=1000, user_agent=USER_AGENT)
    try:
        found = await asyncio.gather(*(_list(server, resource) for resource in WATCHED))
    finally:
        await server.close()
    objects = [obj for each, _ in found for obj in each]
    return objects, [complaint for _, each in found for complaint in each]


async def _list(server: ApiServer, resource: ApiResource[KubeObject]) -> tuple[list[KubeObject], list[str]]:
    objects: list[KubeObject] = []
    complaints: list[str] = []
    token = ""
    selector = NOT_TERMINAL if resource.model is PODS.model else ""
    try:
        while True:
            page = await server.list(resource, field_selector=selector, limit=PAGE, continue_token=token)
            objects += page.items
            complaints += [f"left out: {problem}" for problem in page.malformed]
            token = page.continue_token
            if not token:
                return objects, complaints
    except ApiError as exc:
        if exc.code not in (403, 404) or resource.model in (NODES.model, PODS.model):
            raise
        return [], [f"left out: all {resource.name}: {exc.message}"]


# ---- a running scheduler


class Endpoint(NamedTuple):
    """Where a scheduler serves, and whether to believe that it is the one."""

    url: str
    certificate_authority: str = ""
    insecure: bool = False


class RefusedError(Exception):
    """The endpoint did not answer, or not with what was asked for."""


class UnknownPodError(Exception):
    """The scheduler knows no such pod; these are some that it does know."""

    def __init__(self, known: list[str]) -> None:
        super().__init__()
        self.known = known


def ask_endpoint(
    endpoint: Endpoint, credentials: Credentials | None, namespace: str, pod: str
) -> Explanation:
    """What a scheduler says about a pod. Raises RefusedError, UnknownPodError and CredentialsError."""
    if credentials is not None:
        asyncio.run(credentials.renew())
    path = f"{DECISIONS}/{quote(namespace, safe='')}/{quote(pod, safe='')}"
    status, body = _get(endpoint, credentials, path)
    if status == 404:  # of the pod, or is there nothing of the kind at all?
        path = DECISIONS
        status, body = _get(endpoint, credentials, path)
        if status == 404:
            raise RefusedError(f"{endpoint.url}: serves no {DECISIONS}: expected a mooring scheduler")
        raise UnknownPodError([each.pod for each in _read(endpoint, path, status, body, Outlines).pods])
    return _read(endpoint, path, status, body, Explanation)


def _get(endpoint: Endpoint, credentials: Credentials | None, path: str) -> tuple[int, bytes]:
    url = urlsplit(endpoint.url if "://" in endpoint.url else f"https://{endpoint.url}")
    headers = {"User-Agent": USER_AGENT}
    connection: http.client.HTTPConnection
    try:
        host, port = url.hostname or "", url.port or PORT
        if url.scheme == "https":
            tls = _tls(endpoint, credentials)
            connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=tls)
            headers |= _authorization(credentials)
        else:  # nothing secret is said over plain HTTP
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    except ValueError as exc:
        raise RefusedError(f"--endpoint {endpoint.url}: {exc}; expected https://HOST:{PORT}") from None
    try:
        connection.request("GET", url.path.rstrip("/") + path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(LARGEST_ANSWER)
    except (OSError, http.client.HTTPException) as exc:
        raise RefusedError(f"{endpoint.url}: {_cause(exc)}") from exc
    finally:
        connection.close()


def _tls(endpoint: Endpoint, credentials: Credentials | None) -> ssl.SSLContext:
    """The kubeconfig's TLS, with its client certificate if it has one, and with whom else to trust."""
    context = (credentials and credentials.tls) or ssl.create_default_context()
    if endpoint.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif endpoint.certificate_authority:
        try:
            context.load_verify_locations(cafile=endpoint.certificate_authority)
        except OSError as exc:
            cause = "found no certificate, expected PEM" if isinstance(exc, ssl.SSLError) else exc.strerror
            raise RefusedError(f"{endpoint.certificate_authority}: {cause}") from None
    return context


def _authorization(credentials: Credentials | None) -> dict[str, str]:
    """Who we are, by token."""
    lines = b"" if credentials is None else credentials.headers
    pairs = (line.split(": ", 1) for line in lines.decode().splitlines())
    return {name: value for name, value in pairs if name == "Authorization"}


def _cause(exc: Exception) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({exc.verify_message}); say who signed it with "
            "--endpoint-certificate-authority, or --insecure-skip-tls-verify if the way there is safe"
        )
    return str(exc) or type(exc).__name__


def _read(endpoint: Endpoint, path: str, status: int, body: bytes, kind: type[Answer]) -> Answer:
    if status == 401:
        raise RefusedError(
            f"{endpoint.url}: answered 401, it does not know who you are; it takes the token or client "
            "certificate of a kubeconfig, over https"
        )
    if status == 403:
        raise RefusedError(
            f"{endpoint.url}: answered 403; your user needs the verb get on the nonResourceURLs "
            f"{DECISIONS} and {DECISIONS}/*"
        )
    if status != 200:
        raise RefusedError(f"{endpoint.url}: answered {status} to GET {path}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as exc:
        raise RefusedError(f"{endpoint.url}: GET {path}: not what a scheduler answers: {exc}") from None
