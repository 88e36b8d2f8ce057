"""Read a cluster's objects, or query a running scheduler, from the command line."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Container, Iterable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from mooring import __version__
from mooring.api.kinds import NODES, PODS, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials
from mooring.client.informers import NOT_TERMINAL
from mooring.explain.explanation import Explanation, GroupExplanation, Outlines

Response = TypeVar("Response")

PAGE = 500
TIMEOUT = 30.0  # seconds
MAX_RESPONSE_BYTES = 64 << 20

PORT = 10259
DECISIONS = "/debug/decisions"
USER_AGENT = f"mooring/{__version__}"


# ---- the cluster's objects


async def list_cluster(
    credentials: Credentials,
    kinds: Iterable[ApiResource[KubeObject]],
    optional: Container[ApiResource[Any]] = (),
) -> tuple[list[KubeObject], list[str]]:
    """Return all objects of these kinds, and a message for each that is unavailable.

    Nodes and pods are required; other kinds that the user is not allowed to list are skipped, those of
    `optional` that the server does not have without a message. Raises ClusterError and CredentialsError.
    """
    server = ApiServer(credentials, qps=1000, burst=1000, user_agent=USER_AGENT)
    try:
        pages = await asyncio.gather(*(_list(server, each, each in optional) for each in kinds))
    finally:
        await server.close()
    objects = [obj for each, _ in pages for obj in each]
    return objects, [problem for _, each in pages for problem in each]


async def get_pod(credentials: Credentials, namespace: str, name: str) -> Pod | None:
    """Return a pod, also one that has terminated; None if there is none. Raises ClusterError."""
    server = ApiServer(credentials, qps=1000, burst=1000, user_agent=USER_AGENT)
    try:
        return await server.get(PODS, name, namespace)
    except ApiError as exc:
        if exc.not_found:
            return None
        raise
    finally:
        await server.close()


async def _list(
    server: ApiServer, resource: ApiResource[KubeObject], optional: bool
) -> tuple[list[KubeObject], list[str]]:
    objects: list[KubeObject] = []
    problems: list[str] = []
    token = ""
    selector = NOT_TERMINAL if resource.model is PODS.model else ""
    try:
        while True:
            page = await server.list(resource, field_selector=selector, limit=PAGE, continue_token=token)
            objects += page.items
            problems += [f"skipped: {problem}" for problem in page.malformed]
            token = page.continue_token
            if not token:
                return objects, problems
    except ApiError as exc:
        if exc.code not in (403, 404) or resource.model in (NODES.model, PODS.model):
            raise
        if optional and exc.code == 404:
            return [], []
        return [], [f"skipped: all {resource.name}: {exc.message}"]


# ---- a running scheduler


class Endpoint(NamedTuple):
    """Address of a scheduler, and how to verify its certificate."""

    url: str
    certificate_authority: str = ""
    insecure: bool = False


class RefusedError(Exception):
    """The endpoint is unreachable, rejected the request or sent an invalid response."""


class UnknownPodError(Exception):
    """The scheduler has no such pod; `existing` lists some that it has."""

    def __init__(self, existing: list[str]) -> None:
        super().__init__()
        self.existing = existing


def ask_endpoint(
    endpoint: Endpoint, credentials: Credentials | None, namespace: str, pod: str
) -> Explanation:
    """Return a scheduler's explanation of a pod.

    Raises RefusedError, UnknownPodError and CredentialsError.
    """
    return _ask(endpoint, credentials, f"{quote(namespace, safe='')}/{quote(pod, safe='')}", Explanation)


def ask_about_group(
    endpoint: Endpoint, credentials: Credentials | None, namespace: str, group: str
) -> GroupExplanation:
    """Return a scheduler's explanation of a pod group. Raises what `ask_endpoint` raises."""
    path = f"{quote(namespace, safe='')}/podgroups/{quote(group, safe='')}"
    return _ask(endpoint, credentials, path, GroupExplanation)


def _ask(endpoint: Endpoint, credentials: Credentials | None, what: str, kind: type[Response]) -> Response:
    if credentials is not None:
        asyncio.run(credentials.renew())
    path = f"{DECISIONS}/{what}"
    status, body = _get(endpoint, credentials, path)
    if status == 404:  # the pod is unknown, or the endpoint serves no decisions at all
        path = DECISIONS
        status, body = _get(endpoint, credentials, path)
        if status == 404:
            raise RefusedError(f"{endpoint.url}: {DECISIONS} not found\nhint: is this a mooring scheduler?")
        raise UnknownPodError([each.pod for each in _read(endpoint, path, status, body, Outlines).pods])
    return _read(endpoint, path, status, body, kind)


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
        else:  # never send credentials over plain HTTP
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    except ValueError as exc:
        raise RefusedError(
            f"--endpoint {endpoint.url}: {exc}\nhint: use the form https://HOST:{PORT}"
        ) from None
    try:
        connection.request("GET", url.path.rstrip("/") + path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(MAX_RESPONSE_BYTES)
    except (OSError, http.client.HTTPException) as exc:
        raise RefusedError(f"{endpoint.url}: {_cause(exc)}") from exc
    finally:
        connection.close()


def _tls(endpoint: Endpoint, credentials: Credentials | None) -> ssl.SSLContext:
    """Return the kubeconfig's TLS context, client certificate included, with the endpoint's CA added."""
    context = (credentials and credentials.tls) or ssl.create_default_context()
    if endpoint.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif endpoint.certificate_authority:
        try:
            context.load_verify_locations(cafile=endpoint.certificate_authority)
        except OSError as exc:
            cause = "no PEM certificate in the file" if isinstance(exc, ssl.SSLError) else exc.strerror
            raise RefusedError(f"{endpoint.certificate_authority}: {cause}") from None
    return context


def _authorization(credentials: Credentials | None) -> dict[str, str]:
    """Return the Authorization header of the credentials, if they have one."""
    lines = b"" if credentials is None else credentials.headers
    pairs = (line.split(": ", 1) for line in lines.decode().splitlines())
    return {name: value for name, value in pairs if name == "Authorization"}


def _cause(exc: Exception) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return (
            f"the certificate is not trusted: {exc.verify_message}\n"
            "hint: pass its CA with --endpoint-certificate-authority, or --insecure-skip-tls-verify if the "
            "connection is otherwise secure"
        )
    return str(exc) or type(exc).__name__


def _read(endpoint: Endpoint, path: str, status: int, body: bytes, kind: type[Response]) -> Response:
    if status == 401:
        raise RefusedError(
            f"{endpoint.url}: 401 Unauthorized\n"
            "hint: use https and a kubeconfig with a token or client certificate"
        )
    if status == 403:
        raise RefusedError(
            f"{endpoint.url}: 403 Forbidden\n"
            f"hint: your user needs the verb get on the nonResourceURLs {DECISIONS} and {DECISIONS}/*"
        )
    if status != 200:
        raise RefusedError(f"{endpoint.url}: GET {path}: status {status}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as exc:
        raise RefusedError(f"{endpoint.url}: GET {path}: invalid response: {exc}") from None
